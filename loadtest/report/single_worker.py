"""Hit rate against cache size, one small plot per workload, between nothing and Belady."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtest.report.results import Row
from loadtest.report.style import COLOURS, GREY, INK, OURS, figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST = ("arc_mix", "shadow", "rlt", "lru", "arc")
COLUMNS = 3


def draw(rows: list[Row]) -> Figure:
    """Lines for the evictors; Belady and the endless cache bound them from above."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    lines = (len(workloads) + COLUMNS - 1) // COLUMNS
    drawn = figure(9.6, 2.5 * lines + 0.5)
    grid = drawn.subplots(lines, COLUMNS, squeeze=False)
    names = list(dict.fromkeys(row["evictor"] for row in rows))
    names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    tones = dict(zip(names, (OURS, *COLOURS * 2), strict=False))
    for place, axes in enumerate(axes for line in grid for axes in line):
        if place >= len(workloads):
            axes.set_visible(False)
            continue
        _panel(axes, workloads[place], rows, names, tones)
    handles, labels = grid[0][0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return drawn


def _panel(axes, workload, rows, names, tones) -> None:  # type: ignore[no-untyped-def]
    mine = [row for row in rows if row["workload"] == workload]
    endless = 100.0 * mine[0].get("endless_hit_rate", 0.0)
    for name in names:
        points = sorted(
            (100.0 * row["cache_fraction"], 100.0 * row["hit_rate"])
            for row in mine
            if row["evictor"] == name
        )
        if not points:
            continue
        bound = name == "belady"
        axes.plot(
            [point[0] for point in points],
            [point[1] for point in points],
            color=INK if bound else tones[name],
            linestyle="--" if bound else "-",
            linewidth=2.0 if name in FIRST[:2] else 1.2,
            marker="o",
            markersize=3,
            label="Belady (offline)" if bound else name,
        )
    axes.axhline(endless, color=GREY, linestyle=":", linewidth=1.2, label="endless cache")
    axes.set_ylim(0, max(5.0, endless * 1.12))
    tidy(axes, workload, "cache, % of the re-used blocks", "hit rate, %")
