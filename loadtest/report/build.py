"""From results to a folder: `report.html`, and every picture as a PNG beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.report import ablation, heatmap, runs, single_worker
from loadtest.report.page import Section, page
from loadtest.report.results import Result, Row, read_results
from loadtest.report.style import png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTES = {
    "ablation": "The paper's calibration point: 4 workers, GSP in random order, just past what the "
    "baseline can carry. Grey: as published by others; diamonds: numbers printed in the paper.",
    "workloads": "Each number is a time divided by the best policy's time on the same workload; "
    "1.00 is the best. Policies from best to worst by geometric mean.",
    "single": "One cache, calls one after the other. No evictor can pass Belady, which reads the "
    "future; nothing can pass a cache without end.",
    "runs": "Single runs, in the order in which they were made.",
}


def build(paths: Sequence[Path], folder: Path) -> Path:
    """Writes the report of all results in `paths` into `folder`; returns the page's path.

    Raises:
        ReportError: a result cannot be read, or matplotlib is missing.
    """
    results = read_results(paths)
    sections: list[Section] = []
    for result in results:
        sections += _sections(result)
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for name, picture in section.pictures:
            (folder / f"{name}.png").write_bytes(picture)
    note = "; ".join(
        f"{result.title} at {result.head.get('commit', '?')}, seeds {result.head.get('seed')}"
        for result in results
    )
    target = folder / "report.html"
    target.write_text(page("kvroute: measured", note, sections))
    return target


def _sections(result: Result) -> list[Section]:
    rows, stem = result.rows, result.source.split(".")[0].replace(":", "_")
    note = NOTES[result.kind]
    if result.kind == "ablation":
        pictures = [_picture(f"{stem}_ablation", ablation.draw(rows))]
        return [Section("The paper's ablation", note, pictures, rows)]
    if result.kind == "single":
        pictures = [_picture(f"{stem}_hit_rates", single_worker.draw(rows))]
        return [Section("Hit rate of each evictor", note, pictures, rows)]
    if result.kind == "workloads":
        return _workloads(result, stem, note)
    pictures = [_picture(f"{stem}_times", runs.cumulative(rows))]
    load = runs.load(rows)
    if load is not None:
        pictures.append(_picture(f"{stem}_load", load))
    return [Section(result.title, note, pictures, rows)]


def _workloads(result: Result, stem: str, note: str) -> list[Section]:
    """One pair of heat maps per evictor, and where each policy stands."""
    sections = []
    for evictor in dict.fromkeys(row["evictor"] for row in result.rows):
        rows = [row for row in result.rows if row["evictor"] == evictor]
        pictures = [
            _picture(
                f"{stem}_{evictor}_ttft_p95",
                heatmap.draw(rows, "ttft_p95_ms", f"Time to first token, P95 ({evictor})"),
            ),
            _picture(
                f"{stem}_{evictor}_latency_p50",
                heatmap.draw(rows, "lat_p50_ms", f"Latency, median ({evictor})"),
            ),
        ]
        which = "held-out workloads" if rows[0].get("held_out") else "every workload"
        sections.append(Section(f"Policies on {which}, {evictor}", note, pictures, rows))
    standing: list[Row] = [
        {"policy": name, **values} for name, values in (result.head.get("geomean") or {}).items()
    ]
    if standing:
        standing.sort(key=lambda row: row["ttft_p95"])
        sections.append(Section("Standing", "Geometric means of these ratios.", table=standing))
    return sections


def _picture(name: str, drawn: Figure) -> tuple[str, bytes]:
    return name, png(drawn)
