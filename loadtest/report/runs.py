"""Single runs: distributions of times, and the load of each worker over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtest.report.results import Row
from loadtest.report.style import COLOURS, colours, figure, milliseconds, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_RUNS = 12
MAX_LINES = 12
MAX_PANELS = 6
POINTS = 100


def run_names(rows: list[Row]) -> list[str]:
    """What tells the runs apart: policy, evictor, and the seed where there are several."""
    several = len({row.get("seed") for row in rows}) > 1
    names = []
    for row in rows:
        parts = [str(row.get("policy", "run")).replace(":threshold=", "@")]
        if row.get("evictor"):
            parts.append(str(row["evictor"]))
        if several:
            parts.append(f"seed {row['seed']}")
        names.append(" + ".join(parts))
    return names


def cumulative(rows: list[Row]) -> Figure:
    """TTFT and latency: the share of requests that were at least as fast."""
    shown = rows[:MAX_RUNS]
    names = run_names(shown)
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
        tidy(axes, title, "log scale", "% of requests" if axes is pair[0] else "")
        for share in (50, 95):
            axes.axhline(share, color="#d1d5db", linewidth=0.8, linestyle="--")
            axes.annotate(
                f"P{share}",
                (0.005, share),
                xycoords=("axes fraction", "data"),
                fontsize=7,
                color="#6b7280",
                va="bottom",
            )
        axes.xaxis.set_major_formatter(lambda value, _: milliseconds(value))
    pair[1].legend(fontsize=7, frameon=False, loc="lower right")
    return drawn


def load(rows: list[Row]) -> Figure | None:
    """Requests in each worker over time, all runs on one scale; None if no run recorded it."""
    shown = [row for row in rows if (row.get("timeline") or {}).get("running")][:MAX_PANELS]
    if not shown:
        return None
    drawn = figure(9.6, 1.9 * len(shown) + 0.4)
    grid = drawn.subplots(len(shown), 1, squeeze=False, sharex=True, sharey=True)
    for axes, row, name in zip((line[0] for line in grid), shown, run_names(shown), strict=True):
        times, workers = _smoothed(row["timeline"])
        for worker, values in enumerate(workers[:MAX_LINES]):
            tone = COLOURS[worker % len(COLOURS)]
            axes.plot(times, values, color=tone, linewidth=1.3, label=f"worker {worker}")
        tidy(axes, name, "s" if row is shown[-1] else "", "requests there")
        axes.set_ylim(bottom=0)
    grid[0][0].legend(fontsize=7, frameon=False, ncols=4, loc="upper right")
    return drawn


def _smoothed(timeline: Row) -> tuple[list[float], list[list[float]]]:
    """Times, and per worker the mean number of requests running or waiting in each of about a
    hundred equal spans.
    """
    running, waiting = timeline["running"], timeline.get("waiting") or []
    total = [
        [count + (waiting[place][worker] if waiting else 0) for worker, count in enumerate(line)]
        for place, line in enumerate(running)
    ]
    width = max(1, len(total) // POINTS)
    spans = [total[place : place + width] for place in range(0, len(total), width)]
    times = [place * width * timeline["interval_s"] for place in range(len(spans))]
    workers = [
        [sum(line[worker] for line in span) / len(span) for span in spans]
        for worker in range(len(running[0]))
    ]
    return times, workers
