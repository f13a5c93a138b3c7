"""The attention function that transformers calls in every layer, and what it finds out about the
model on the way.

A model takes it through `model.set_attn_implementation(name)`; its own code stays as it is. No mask
function is registered under the name, so transformers builds no (T x T) mask. One name per model:
the function knows its pool and its step, and nothing depends on keyword arguments finding their way
through every model's code.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from transformers import AttentionInterface

from worker_svc.attention.attend import attend, plain_attention
from worker_svc.attention.plan import GROUP_BYTES, Group, plan
from worker_svc.attention.pool import LayerShape, PagedPool
from worker_svc.attention.step import Step

_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Call:
    """One attention call seen by the probe."""

    layer: int
    shape: LayerShape
    tokens: int
    masked: bool
    biased: bool
    causal: bool


class AttentionKernel(Protocol):
    """Attends over block tables without gathering; see `worker_svc.fast.attention`."""

    def fits(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> bool:
        """query (T, Hq, dk); keys, values: the layer's pools."""

    def run(
        self,
        step: Step,
        pool: PagedPool,
        layer: int,
        query: torch.Tensor,
        out: torch.Tensor,
        window: int | None,
        scale: float,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> bool:
        """Fills `out` (T, Hq, dv); the new K/V are in the pool already. False: only the
        decodes' rows are filled.
        """


class PagedAttention:
    """State of one model's attention: the pool, the step now computed, and reused gather
    buffers.
    """

    def __init__(self) -> None:
        self.pool: PagedPool | None = None
        self.step: Step | None = None
        self.calls: list[Call] | None = None
        self.kernel: AttentionKernel | None = None
        self._buffers: dict[tuple[int, ...], torch.Tensor] = {}
        self.name = f"kvroute_paged_{next(_names)}"
        # The registry lives as long as the process: it must not keep pools alive.
        this = weakref.ref(self)

        def forward(module: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
            paged = this()
            assert paged is not None, "the model outlived its attention"
            return paged.forward(module, *args, **kwargs), None

        AttentionInterface.register(self.name, forward)

    def forward(
        self,
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        sliding_window: int | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,
        position_bias: torch.Tensor | None = None,
        **unused: Any,
    ) -> torch.Tensor:
        """query (1, Hq, T, dk), key, value (1, Hkv, T, d), after rotary embedding -> (1, T, Hq,
        dv).
        """
        layer = module.layer_idx
        scale = scaling if scaling is not None else query.shape[-1] ** -0.5
        window = sliding_window or None
        if self.calls is not None:
            shape = LayerShape(
                query_heads=query.shape[1],
                kv_heads=key.shape[1],
                key_dim=key.shape[3],
                value_dim=value.shape[3],
                window=window,
                softcap=softcap,
                sinks=s_aux is not None,
            )
            self.calls.append(
                Call(
                    layer=layer,
                    shape=shape,
                    tokens=key.shape[2],
                    masked=attention_mask is not None,
                    biased=position_bias is not None,
                    causal=bool(getattr(module, "is_causal", True)),
                )
            )
            count = query.shape[2]
            mask = torch.ones(count, key.shape[2], dtype=torch.bool, device=query.device).tril_()
            found = plain_attention(query, key, value, mask, scale, softcap, s_aux)
            return found.transpose(1, 2)
        return self._paged(
            layer, query[0].transpose(0, 1), key[0], value[0], window, scale, softcap, s_aux
        ).unsqueeze(0)

    def _paged(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        window: int | None,
        scale: float,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        pool, step = self.pool, self.step
        assert pool is not None and step is not None
        keys, values = pool.keys[layer], pool.values[layer]
        keys.view(-1, *keys.shape[2:]).index_copy_(0, step.slots, key.transpose(0, 1))
        values.view(-1, *values.shape[2:]).index_copy_(0, step.slots, value.transpose(0, 1))
        out = query.new_empty(query.shape[0], query.shape[1], value.shape[-1])
        kernel = self.kernel if self.kernel and self.kernel.fits(query, keys, values) else None
        if kernel and kernel.run(step, pool, layer, query, out, window, scale, softcap, sinks):
            return out
        for group in self._plan(step, pool, window, keys, values):
            if kernel and isinstance(group.rows, torch.Tensor):
                continue
            gathered_keys = self._gather(keys, group, 0)
            gathered_values = self._gather(values, group, 1)
            attend(out, query, gathered_keys, gathered_values, group, scale, softcap, sinks)
        return out

    def _plan(
        self,
        step: Step,
        pool: PagedPool,
        window: int | None,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> list[Group]:
        bytes_per_token = (keys[0, 0].numel() + values[0, 0].numel()) * keys.element_size()
        memo_key = (window, bytes_per_token)
        found = step.memo.get(memo_key)
        if found is None:
            tokens = GROUP_BYTES // bytes_per_token
            found = plan(step, window, pool.block_size, pool.pad_block, tokens)
            step.memo[memo_key] = found
        return found

    def _gather(self, pool: torch.Tensor, group: Group, which: int) -> torch.Tensor:
        """(b, Hkv, length, d) view of a reused buffer: fresh large buffers cost page faults on
        CPU.
        """
        count, shape = group.blocks.numel(), pool.shape[1:]
        buffer_key = (which, *shape)
        buffer = self._buffers.get(buffer_key)
        if buffer is None or buffer.shape[0] < count:
            buffer = pool.new_empty(max(count, 64), *shape)
            self._buffers[buffer_key] = buffer
        found = torch.index_select(pool, 0, group.blocks.reshape(-1), out=buffer[:count])
        rows = found.view(group.blocks.shape[0], -1, *shape[1:])
        return rows[:, : group.length].transpose(1, 2)
