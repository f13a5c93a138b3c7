"""What one forward needs to know; built once per step, shared by all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from worker_svc.engine.base import Row


@dataclass(slots=True)
class Step:
    """`T` tokens of `B` rows, packed in row order; the first `decodes` rows have one token.

    slots: (T,) int64, block * block_size + offset that each new token's K/V go to. contexts: tokens
    of each row up to and including its new ones. memo: plans by window, made on first use.
    """

    slots: torch.Tensor
    counts: list[int]
    contexts: list[int]
    tables: list[Sequence[int]]
    decodes: int
    memo: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inputs:
    """ids, positions: (T,) int64. last: (B',) index of the last token of each row that wants
    logits.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    last: torch.Tensor
    step: Step


def pack(rows: Sequence[Row], block_size: int, device: torch.device) -> Inputs:
    """Rows to tensors. A step in which no row asks for a token still computes one row of logits
    (unused).
    """
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    last: list[int] = []
    decodes = 0
    for row in rows:
        end = row.start + len(row.tokens)
        ids.extend(row.tokens)
        positions.extend(range(row.start, end))
        table = row.table
        slots.extend(
            table[at // block_size] * block_size + at % block_size for at in range(row.start, end)
        )
        decodes += len(row.tokens) == 1
        if row.pick is not None:
            last.append(len(ids) - 1)
    contexts = [row.start + len(row.tokens) for row in rows]
    tables = [
        row.table[: -(-context // block_size)] for row, context in zip(rows, contexts, strict=True)
    ]
    return Inputs(
        ids=torch.tensor(ids, device=device),
        positions=torch.tensor(positions, device=device),
        last=torch.tensor(last or [len(ids) - 1], device=device),
        step=Step(
            slots=torch.tensor(slots, device=device),
            counts=[len(row.tokens) for row in rows],
            contexts=contexts,
            tables=tables,
            decodes=decodes,
        ),
    )
