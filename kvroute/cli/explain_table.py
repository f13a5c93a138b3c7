"""Why a request went where it went, as a table for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvroute.v1 import router_pb2


def explain_table(explain: router_pb2.Explain | None) -> RenderableType:
    """The candidates with their costs, the chosen one marked, and what came of it. Pure."""
    if explain is None:
        return Text("the router sent no explanation", style="yellow")
    table = Table()
    for name in ("worker", "hit", "miss", "queue ms", "prefill ms", "decode ms", "cost"):
        table.add_column(name, justify="left" if name == "worker" else "right")
    for one in sorted(explain.candidates, key=lambda one: one.cost):
        chosen = one.worker_id == explain.worker_id
        times = (one.queue_ms, one.prefill_ms, one.decode_ms, one.cost)
        table.add_row(
            f"{'→' if chosen else ' '} {one.worker_id}",
            str(one.hit),
            str(one.miss),
            *(f"{value:.1f}" for value in times),
            style="bold" if chosen else "dim",
        )
    lines = [Text("decided without Redis", style="yellow")] if explain.degraded else []
    return Group(Text(summary(explain)), table, *lines)


def summary(explain: router_pb2.Explain) -> str:
    """One line: who, why, and what was promised and delivered."""
    return (
        f"{explain.worker_id} by {explain.policy}: {explain.reason or 'lowest cost'}; "
        f"{explain.delivered_hit} of {explain.prompt_tokens} prompt tokens from cache "
        f"({explain.chosen_hit} predicted, {explain.best_hit} at best); "
        f"first token after {explain.ttft_ms:.0f} ms"
    )
