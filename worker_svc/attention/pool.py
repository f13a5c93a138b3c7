"""The K/V tensors: one pair per layer, shape (blocks + 1, block_size, kv heads, head dim).

That is the layout block-table kernels read. The last block belongs to nobody and stays zero: block
tables are padded with it, so that a padded read never meets another request's values (a NaN there
would survive a mask: 0 * NaN = NaN).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kvroute.errors import StartError


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What one attention layer keeps per token. `window`: tokens a query sees, itself included;
    None: all.
    """

    query_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    softcap: float | None = None
    sinks: bool = False

    @property
    def values_per_token(self) -> int:
        return self.kv_heads * (self.key_dim + self.value_dim)


class PagedPool:
    """Zeroed at the start. Raises `StartError` when memory does not suffice."""

    def __init__(
        self,
        layers: Sequence[LayerShape],
        blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.blocks, self.block_size = blocks, block_size
        self.pad_block = blocks
        try:
            self.keys = [
                torch.zeros(
                    blocks + 1, block_size, s.kv_heads, s.key_dim, dtype=dtype, device=device
                )
                for s in layers
            ]
            self.values = [
                torch.zeros(
                    blocks + 1, block_size, s.kv_heads, s.value_dim, dtype=dtype, device=device
                )
                for s in layers
            ]
        except (RuntimeError, MemoryError) as error:
            tokens = blocks * block_size
            size = sum(s.values_per_token for s in layers) * tokens * dtype.itemsize
            raise StartError(
                f"no memory for a cache of {blocks} blocks ({size / 2**30:.1f} GiB); use fewer",
                field="blocks",
                value=blocks,
            ) from error

    def scrub(self, blocks: Sequence[int]) -> None:
        """Overwrites blocks with zeros."""
        if not blocks:
            return
        index = torch.tensor(blocks, device=self.keys[0].device)
        for tensor in (*self.keys, *self.values):
            tensor.index_fill_(0, index, 0)
