"""`docs/benchmarks.md` out of results: tables with ours beside the paper's, and where we lose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loadtest.report.ablation import PAPER
from loadtest.report.results import ReportError, Result, Row, read_results
from loadtest.report.style import milliseconds

MARK = "<!-- tables -->"
FRAME = f"# Benchmarks\n\n{MARK}\n"
LOSS = 1.1
"""A workload where the default policy is this much behind the best is listed as a loss."""


def write_markdown(paths: Sequence[Path], target: Path, frame: str = FRAME) -> None:
    """Writes `frame` to `target`, its mark replaced by the tables of all results.

    Raises:
        ReportError: a result cannot be read, or the frame has no mark.
    """
    if MARK not in frame:
        raise ReportError(f"the text around the tables has no line {MARK}")
    tables = "\n\n".join(_section(result) for result in read_results(paths))
    target.write_text(frame.replace(MARK, tables))


def _section(result: Result) -> str:
    made = {
        "ablation": _ablation,
        "workloads": _grid if _is_grid(result) else _workloads,
        "single": _single,
        "runs": _runs,
    }[result.kind](result)
    seeds = ", ".join(str(seed) for seed in _listed(result.head.get("seed")))
    return f"{made}\n\nCommit {result.head.get('commit')}, seeds {seeds}."


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_grid(result: Result) -> bool:
    return (result.head.get("config") or {}).get("preset") == "paper-grid"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def _ablation(result: Result) -> str:
    lines = []
    for row in result.rows:
        paper = PAPER.get((row["policy"], row["evictor"]))
        lines.append(
            [
                f"{row['policy']} + {row['evictor']}",
                milliseconds(row["lat_p50_ms"]),
                " to ".join(milliseconds(value) for value in row["lat_p50_range_ms"]),
                milliseconds(row["ttft_p95_ms"]),
                f"{100 * row['hit_rate']:.1f} %",
                milliseconds(paper[0]) if paper else "",
                f"{100 * paper[1]:.1f} %" if paper else "",
            ]
        )
    head = ("", "P50", "over seeds", "TTFT P95", "hit", "P50 (paper)", "hit (paper)")
    return "## The paper's ablation\n\n" + _table(head, lines)


def _workloads(result: Result) -> str:
    held_out = result.rows[0].get("held_out")
    which = "held-out workloads (no constant was chosen on them)" if held_out else "every workload"
    parts = [f"## Policies on {which}"]
    for evictor in dict.fromkeys(row["evictor"] for row in result.rows):
        rows = [row for row in result.rows if row["evictor"] == evictor]
        parts.append(f"Workers evict with `{evictor}`. TTFT P95 / median latency, hit rate.")
        parts.append(_matrix(rows))
        parts.append(_losses(rows))
    standing = result.head.get("geomean") or {}
    order = sorted(standing, key=lambda name: standing[name]["ttft_p95"])
    lines = [
        [
            name,
            f"{standing[name]['ttft_p95']:.3f}",
            f"{standing[name]['worst']:.2f} ({standing[name]['worst_workload']})",
            f"{standing[name]['lat_p50']:.3f}",
            f"{standing[name]['lat_p50_worst']:.2f} ({standing[name]['lat_p50_worst_workload']})",
        ]
        for name in order
    ]
    head = ("ratio to the best of each workload", "TTFT P95", "worst", "P50", "worst")
    parts.append(_table(head, lines))
    return "\n\n".join(parts)


def _matrix(rows: list[Row]) -> str:
    """Workloads down, policies across."""
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    cells = {(row["workload"], row["policy"]): row for row in rows}
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        line = [workload]
        for policy in policies:
            row = cells.get((workload, policy))
            line.append(_times(row) if row else "")
        lines.append(line)
    return _table(["", *policies], lines)


def _times(row: Row) -> str:
    return (
        f"{milliseconds(row['ttft_p95_ms'])} / {milliseconds(row['lat_p50_ms'])},"
        f" {100 * row['hit_rate']:.0f} %"
    )


def _losses(rows: list[Row]) -> str:
    """Where lbgr_plus is not within ten per cent of the best."""
    found = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        here = [row for row in rows if row["workload"] == workload]
        ours = next((row for row in here if row["policy"] == "lbgr_plus"), None)
        if ours is None:
            continue
        for key, name in (("ttft_p95_ms", "TTFT P95"), ("lat_p50_ms", "median latency")):
            best = min(here, key=lambda row: row[key])
            if ours[key] > LOSS * best[key]:
                ratio = ours[key] / best[key]
                found.append(f"{workload}, {name}: {ratio:.2f}x of {best['policy']}")
    return (
        "**Where we lose**: " + ("; ".join(found) if found else "nowhere by more than 10 %") + "."
    )


def _grid(result: Result) -> str:
    rows = [dict(row, policy=f"{row['policy']} + {row['evictor']}") for row in result.rows]
    return "## The paper's experiments\n\nTTFT P95 / median latency, hit rate.\n\n" + _matrix(rows)


def _single(result: Result) -> str:
    evictors = list(dict.fromkeys(row["evictor"] for row in result.rows))
    rates = {
        (row["workload"], row["evictor"], row["cache_fraction"]): 100 * row["hit_rate"]
        for row in result.rows
    }
    fractions = sorted({row["cache_fraction"] for row in result.rows})
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in result.rows):
        lines.append(
            [workload]
            + [
                " ".join(f"{rates[workload, name, share]:.1f}" for share in fractions)
                for name in evictors
            ]
        )
    sizes = " / ".join(f"{100 * share:.0f}" for share in fractions)
    return (
        "## Hit rate of each evictor\n\nOne cache, token hit rate in %, cache of "
        f"{sizes} % of the re-used blocks.\n\n" + _table(["", *evictors], lines)
    )


def _runs(result: Result) -> str:
    names = ("ttft_p50_ms", "ttft_p95_ms", "lat_p50_ms", "lat_p95_ms")
    lines = [
        [str(row.get("policy")), *(milliseconds(row[name]) for name in names)]
        + [f"{100 * row['hit_rate']:.1f} %"]
        for row in result.rows
    ]
    head = ("", "TTFT P50", "TTFT P95", "P50", "P95", "hit")
    return f"## {result.title}\n\n" + _table(head, lines)
