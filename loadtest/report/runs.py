"""Single runs: distributions of times, and the load of each worker over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtest.report.results import Row
from loadtest.report.style import COLOURS, colours, figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_RUNS = 12
MAX_LINES = 12


def run_name(row: Row) -> str:
    parts = [str(row.get("policy", "run"))]
    if row.get("evictor"):
        parts.append(str(row["evictor"]))
    if "seed" in row:
        parts.append(f"seed {row['seed']}")
    return " + ".join(parts)


def cumulative(rows: list[Row]) -> Figure:
    """TTFT and latency: the share of requests that were at least as fast."""
    shown = rows[:MAX_RUNS]
    names = [run_name(row) for row in shown]
    tones = colours(names)
    drawn = figure(9.6, 3.6)
    pair = drawn.subplots(1, 2, sharey=True)
    keys = (("ttft_quantiles_ms", "Time to first token"), ("latency_quantiles_ms", "Latency"))
    for axes, (key, title) in zip(pair, keys, strict=True):
        for name, row in zip(names, shown, strict=True):
            values = row.get(key) or []
            shares = [100.0 * place / max(1, len(values) - 1) for place in range(len(values))]
            width = 2.2 if name.startswith("lbgr_plus") else 1.3
            axes.plot(values, shares, color=tones[name], linewidth=width, label=name)
        axes.set_xscale("log")
        tidy(axes, title, "ms (log scale)", "% of requests" if axes is pair[0] else "")
        for share in (50, 95):
            axes.axhline(share, color="#d1d5db", linewidth=0.8, linestyle="--")
    pair[1].legend(fontsize=7, frameon=False, loc="lower right")
    return drawn


def load(rows: list[Row]) -> Figure | None:
    """Requests in each worker over time; None if no run recorded it."""
    shown = [row for row in rows if (row.get("timeline") or {}).get("running")][:6]
    if not shown:
        return None
    drawn = figure(9.6, 1.9 * len(shown) + 0.4)
    grid = drawn.subplots(len(shown), 1, squeeze=False, sharex=False)
    for axes, row in zip((line[0] for line in grid), shown, strict=True):
        timeline = row["timeline"]
        step = timeline["interval_s"]
        waiting = timeline.get("waiting") or []
        workers = len(timeline["running"][0])
        times = [place * step for place in range(len(timeline["running"]))]
        for worker in range(min(workers, MAX_LINES)):
            total = [
                running[worker] + (waiting[place][worker] if waiting else 0)
                for place, running in enumerate(timeline["running"])
            ]
            axes.plot(
                times,
                total,
                color=COLOURS[worker % len(COLOURS)],
                linewidth=1.0,
                label=f"worker {worker}",
            )
        tidy(axes, run_name(row), "s", "requests there")
        axes.set_ylim(bottom=0)
    grid[0][0].legend(fontsize=7, frameon=False, ncols=4, loc="upper right")
    return drawn
