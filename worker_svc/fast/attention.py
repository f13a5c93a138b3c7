"""Attention by the native kernels: straight over the block tables, nothing gathered."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from worker_svc.attention.pool import PagedPool
from worker_svc.attention.step import Step
from worker_svc.fast.library import AttentionArguments

_LANES = 16
"""The widest vectors the kernels are built with; head dims must be multiples."""
_GROUP = 64
"""Query heads per K/V head, at most."""


@dataclass(frozen=True, slots=True)
class _Tables:
    """Decodes: (rows, width) block table and (rows,) contexts. Prefills: one pair for each row
    behind them.
    """

    decode: tuple[torch.Tensor, torch.Tensor] | None
    prefill: list[tuple[torch.Tensor, torch.Tensor]]


class NativeAttention:
    """Serves `worker_svc.attention.paged.AttentionKernel`."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def fits(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> bool:
        dims = keys.shape[3] % _LANES == 0 and values.shape[3] % _LANES == 0
        return dims and query.dtype is torch.float32 and query.shape[1] <= _GROUP * keys.shape[2]

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
        if query.stride(2) != 1:
            query = query.contiguous()
        tables = self._tables(step)
        keys, values = pool.keys[layer], pool.values[layer]
        if sinks is not None:
            sinks = sinks.detach().float().contiguous()
        arguments = AttentionArguments(
            query=query.data_ptr(),
            query_token=query.stride(0),
            query_head=query.stride(1),
            keys=keys.data_ptr(),
            values=values.data_ptr(),
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
        if tables.decode is not None:
            self._call(self._library.decode, arguments, tables.decode, step.decodes)
        if softcap is not None:
            return not tables.prefill
        at = step.decodes
        for row, table in enumerate(tables.prefill, start=step.decodes):
            arguments.query = query.data_ptr() + at * query.stride(0) * query.itemsize
            arguments.out = out.data_ptr() + at * out.stride(0) * out.itemsize
            self._call(self._library.prefill, arguments, table, step.counts[row])
            at += step.counts[row]
        return True

    def _call(
        self,
        kernel: Any,
        arguments: AttentionArguments,
        table: tuple[torch.Tensor, torch.Tensor],
        rows: int,
    ) -> None:
        blocks, contexts = table
        arguments.table, arguments.table_width = blocks.data_ptr(), blocks.shape[1]
        arguments.contexts, arguments.rows = contexts.data_ptr(), rows
        kernel(ctypes.byref(arguments))

    def _tables(self, step: Step) -> _Tables:
        """Made once per step, shared by all layers."""
        found: _Tables | None = step.memo.get("native")
        if found is None:
            tables = [torch.tensor(list(table)) for table in step.tables]
            contexts = torch.tensor(step.contexts)
            decodes = step.decodes
            padded = pad_sequence(tables[:decodes], batch_first=True) if decodes else None
            found = _Tables(
                decode=None if padded is None else (padded.contiguous(), contexts[:decodes]),
                prefill=[
                    (tables[row][None], contexts[row : row + 1])
                    for row in range(decodes, len(tables))
                ],
            )
            step.memo["native"] = found
        return found
