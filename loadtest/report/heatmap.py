"""Policy x workload: how far each policy is from the best of its workload."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from loadtest.report.results import Row
from loadtest.report.style import INK, OURS, figure
from loadtest.sim.presets import geometric_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 4.0
"""Ratios from here on have the darkest colour."""


def draw(rows: list[Row], key: str, title: str) -> Figure:
    """`key` is a time; each cell holds its ratio to the least of the column. Policies are ordered
    by their geometric mean, best first, and that is the last column.
    """
    from matplotlib.colors import LinearSegmentedColormap

    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    values = {(row["policy"], row["workload"]): row[key] for row in rows}
    best = {
        name: min(value for (_, workload), value in values.items() if workload == name)
        for name in workloads
    }
    policies = {
        row["policy"]: [
            values[row["policy"], name] / best[name]
            for name in workloads
            if (row["policy"], name) in values
        ]
        for row in rows
    }
    means = {name: geometric_mean(ratios) for name, ratios in policies.items()}
    order = sorted(policies, key=means.__getitem__)
    drawn = figure(1.9 + 0.72 * (len(workloads) + 1), 1.3 + 0.36 * len(order))
    axes = drawn.subplots()
    shades = LinearSegmentedColormap.from_list("cost", ["#ecfdf5", "#fde68a", "#f97316", "#991b1b"])
    grid = [
        [values.get((policy, name), best[name] * TOP) / best[name] for name in workloads]
        + [means[policy]]
        for policy in order
    ]
    heat = [[min(1.0, log2(value) / log2(TOP)) for value in line] for line in grid]
    axes.imshow(heat, cmap=shades, vmin=0.0, vmax=1.0, aspect="auto")
    for y, line in enumerate(grid):
        for x, value in enumerate(line):
            text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
            ink = "white" if heat[y][x] > 0.72 else INK
            bold = "bold" if value < 1.005 or x == len(workloads) else "normal"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color=ink, fontweight=bold)
    axes.set_xticks(
        range(len(workloads) + 1),
        [*workloads, "geometric mean"],
        rotation=35,
        ha="right",
        fontsize=8,
    )
    axes.set_yticks(range(len(order)), order, fontsize=8)
    for tick, policy in zip(axes.get_yticklabels(), order, strict=True):
        if policy == "lbgr_plus":
            tick.set_color(OURS)
            tick.set_fontweight("bold")
    axes.axvline(len(workloads) - 0.5, color="white", linewidth=4)
    axes.set_title(title, fontsize=10, color=INK, loc="left", fontweight="bold")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return drawn
