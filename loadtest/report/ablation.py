"""The paper's ablation, beside the paper's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtest.report.results import Row
from loadtest.report.style import GREY, INK, OURS, figure, milliseconds, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {
    ("cache_aware@0.5", "lru"): (26680.0, 0.239),
    ("cache_aware@0.5", "rlt"): (19191.0, 0.264),
    ("lbgr", "lru"): (6025.0, 0.333),
    ("lbgr", "rlt"): (2263.0, 0.373),
}
"""(policy, evictor) -> P50 latency ms and hit rate, arXiv 2601.18999, its ablation table."""


def draw(rows: list[Row]) -> Figure:
    """P50 latency on a log scale and hit rate, one bar per cell, the paper's values as ticks."""
    drawn = figure(9.0, 0.42 * len(rows) + 1.5)
    left, right = drawn.subplots(1, 2, sharey=True)
    names = [f"{row['policy']} + {row['evictor']}" for row in rows]
    places = list(range(len(rows)))[::-1]
    fills = [OURS if row["policy"] == "lbgr_plus" else GREY for row in rows]
    p50 = [row["lat_p50_ms"] for row in rows]
    hit = [100.0 * row["hit_rate"] for row in rows]
    left.barh(places, p50, color=fills, height=0.66)
    right.barh(places, hit, color=fills, height=0.66)
    for place, row, time, share in zip(places, rows, p50, hit, strict=True):
        low, high = row.get("lat_p50_range_ms", (time, time))
        left.plot([low, high], [place, place], color=INK, linewidth=1.2)
        paper = PAPER.get((row["policy"], row["evictor"]))
        if paper is not None:
            left.plot([paper[0]], [place], marker="D", color="#2563eb", markersize=5)
            right.plot([100 * paper[1]], [place], marker="D", color="#2563eb", markersize=5)
        # Labels stand behind whatever reaches farthest to the right.
        farthest = max(high, paper[0] if paper else 0.0)
        left.text(farthest * 1.15, place, milliseconds(time), va="center", fontsize=8, color=INK)
        farthest = max(share, 100 * paper[1] if paper else 0.0)
        right.text(farthest + 1.0, place, f"{share:.1f} %", va="center", fontsize=8, color=INK)
    left.set_xscale("log")
    left.set_xlim(min(p50) / 2, max(p50) * 3)
    right.set_xlim(0, max(hit) * 1.25)
    left.set_yticks(places, names)
    left.xaxis.set_major_formatter(lambda value, _: milliseconds(value))
    tidy(left, "Latency, median", "log scale")
    tidy(right, "Prompt tokens served from cache, %")
    left.plot([], [], marker="D", color="#2563eb", linestyle="", label="as published", markersize=5)
    left.plot([], [], color=INK, linewidth=1.2, label="range over the seeds")
    left.legend(fontsize=7, frameon=False, loc="lower right")
    return drawn
