"""A plan as rows for the runner."""

from __future__ import annotations

from worker_svc.engine.base import Row
from worker_svc.engine.scheduler import Plan


def rows_of(plan: Plan) -> list[Row]:
    """One row per planned sequence, in the plan's order. Tables are passed as they stand: read them
    before the next plan.
    """
    rows = []
    for planned in plan.rows:
        sequence, count = planned.sequence, planned.count
        start = sequence.computed
        ends = start + count == len(sequence.tokens)
        rows.append(
            Row(
                tokens=sequence.tokens[start : start + count],
                start=start,
                table=sequence.table,
                pick=sequence.pick() if ends else None,
            )
        )
    return rows
