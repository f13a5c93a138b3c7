"""How a step's rows are attended: one padded group per batch of similar decodes, one entry per
prefill chunk.

Only blocks that some query of the row can see are gathered (a window skips the rest). A decode
group is cut where its padded K/V would outgrow `GROUP_BYTES`: larger gathers fall out of the CPU's
last cache level and cost 3-5 times as much (32 sequences of 2048 tokens, one layer: 100 ms in one
piece, 21-35 ms in groups).

Example, block size 2, window 3, context 6, one new token: the query at position 5 sees 3, 4, 5,
which lie in blocks 1 and 2 of the table; base 2, mask over positions 2..5 = no, yes, yes, yes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from worker_svc.attention.step import Step

GROUP_BYTES = 4 << 20
"""K + V of one decode group."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows attended together.

    rows: index of the packed query tokens, a slice (one prefill) or (b,) int64 (decodes). blocks:
    (b, n) int64. length: K/V positions to keep of the n * block_size gathered. mask: broadcastable
    to (b, heads, queries, length), None for "sees all". causal: the row starts at position 0 and
    sees everything before itself; mask is None.
    """

    rows: slice | torch.Tensor
    blocks: torch.Tensor
    length: int
    mask: torch.Tensor | None
    causal: bool


def plan(
    step: Step, window: int | None, block_size: int, pad_block: int, group_tokens: int
) -> list[Group]:
    """Groups for layers of one `window`. `group_tokens` bounds the padded positions of a decode
    group.
    """
    device = step.slots.device
    groups = [
        _decode_group(step, rows, window, block_size, pad_block)
        for rows in _similar_decodes(step, window, block_size, group_tokens)
    ]
    at = step.decodes
    for row in range(step.decodes, len(step.counts)):
        groups.append(_prefill_group(step, row, at, window, block_size, device))
        at += step.counts[row]
    return groups


def _first_block(context: int, count: int, window: int | None, block_size: int) -> int:
    """The first block that the first of `count` queries can see."""
    return 0 if window is None else max(0, context - count - window + 1) // block_size


def _similar_decodes(
    step: Step, window: int | None, block_size: int, group_tokens: int
) -> list[list[int]]:
    """Decode rows in groups of at most 1.5 times (plus 4 blocks) the blocks of their shortest."""
    sizes = [
        -(-step.contexts[row] // block_size)
        - _first_block(step.contexts[row], 1, window, block_size)
        for row in range(step.decodes)
    ]
    groups: list[list[int]] = []
    for row in sorted(range(step.decodes), key=sizes.__getitem__):
        if groups:
            group = groups[-1]
            close = sizes[row] <= sizes[group[0]] * 1.5 + 4
            if close and (len(group) + 1) * sizes[row] * block_size <= group_tokens:
                group.append(row)
                continue
        groups.append([row])
    return groups


def _decode_group(
    step: Step, rows: list[int], window: int | None, block_size: int, pad_block: int
) -> Group:
    device = step.slots.device
    firsts = [_first_block(step.contexts[row], 1, window, block_size) for row in rows]
    tables = [list(step.tables[row][first:]) for row, first in zip(rows, firsts, strict=True)]
    width = max(len(table) for table in tables)
    blocks = torch.tensor([table + [pad_block] * (width - len(table)) for table in tables])
    own = torch.tensor([[step.contexts[row] - 1] for row in rows])
    base = torch.tensor([[first * block_size] for first in firsts])
    positions = base + torch.arange(width * block_size)
    mask = positions <= own
    if window is not None:
        mask &= positions > own - window
    return Group(
        rows=torch.tensor(rows, device=device),
        blocks=blocks.to(device),
        length=width * block_size,
        mask=None if bool(mask.all()) else mask[:, None, None].to(device),
        causal=False,
    )


def _prefill_group(
    step: Step, row: int, at: int, window: int | None, block_size: int, device: torch.device
) -> Group:
    count, context = step.counts[row], step.contexts[row]
    first = _first_block(context, count, window, block_size)
    base = first * block_size
    causal = count == context and (window is None or window >= context)
    mask = None
    if not causal:
        positions = torch.arange(base, context)
        queries = torch.arange(context - count, context)[:, None]
        mask = positions <= queries
        if window is not None:
            mask &= positions > queries - window
        mask = mask[None, None].to(device)
    return Group(
        rows=slice(at, at + count),
        blocks=torch.tensor([list(step.tables[row][first:])], device=device),
        length=context - base,
        mask=mask,
        causal=causal,
    )
