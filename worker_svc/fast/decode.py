"""Decode attention by the native kernel: straight over the block tables, nothing gathered."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from worker_svc.attention.pool import PagedPool
from worker_svc.attention.step import Step
from worker_svc.fast.library import DecodeArguments

_LANES = 16
"""The widest vectors the kernels are built with; head dims must be multiples."""


class NativeDecode:
    """Serves the rows of one token, which come first in a step."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def fits(self, query: torch.Tensor, key_dim: int, value_dim: int) -> bool:
        return query.dtype is torch.float32 and key_dim % _LANES == 0 and value_dim % _LANES == 0

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
    ) -> None:
        """Fills out[: step.decodes] (T, Hq, dv) from query (T, Hq, dk). The new K/V are in the
        pool already.
        """
        if query.stride(2) != 1:
            query = query.contiguous()
        table, contexts = self._tables(step)
        keys, values = pool.keys[layer], pool.values[layer]
        if sinks is not None:
            sinks = sinks.detach().float().contiguous()
        arguments = DecodeArguments(
            query=query.data_ptr(),
            query_token=query.stride(0),
            query_head=query.stride(1),
            keys=keys.data_ptr(),
            values=values.data_ptr(),
            table=table.data_ptr(),
            table_width=table.shape[1],
            contexts=contexts.data_ptr(),
            rows=step.decodes,
            block_size=pool.block_size,
            query_heads=query.shape[1],
            kv_heads=keys.shape[2],
            key_dim=keys.shape[3],
            value_dim=values.shape[3],
            window=window or 0,
            threads=torch.get_num_threads(),
            sinks=None if sinks is None else sinks.data_ptr(),
            out=out.data_ptr(),
            scale=scale,
            softcap=softcap or 0.0,
        )
        self._library.decode(ctypes.byref(arguments))

    def _tables(self, step: Step) -> tuple[torch.Tensor, torch.Tensor]:
        """Block table (decodes, width) and contexts (decodes,), made once per step."""
        found: tuple[torch.Tensor, torch.Tensor] | None = step.memo.get("native")
        if found is None:
            tables = [torch.tensor(list(table)) for table in step.tables[: step.decodes]]
            contexts = torch.tensor(step.contexts[: step.decodes])
            found = pad_sequence(tables, batch_first=True).contiguous(), contexts
            step.memo["native"] = found
        return found
