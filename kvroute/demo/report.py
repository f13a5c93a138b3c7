"""The demo's results, for people and for programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from kvroute.bench.common import one_line
from kvroute.demo.checks import Check
from kvroute.demo.outcome import Kind, Outcome
from kvroute.demo.summary import PolicySummary, Summary

_STYLES = {Kind.HIT: "green", Kind.MISS: "yellow", Kind.PARTIAL: "magenta", Kind.FAILED: "red"}


def outcome_line(outcome: Outcome, block_size: int) -> Text:
    """One request in one line: where it went, what was cached, how long, what it said."""
    kind = outcome.kind(block_size)
    line = Text(f"{outcome.worker_id or '-':<9} ")
    line.append(f"{kind.value:<6}", style=_STYLES[kind])
    if outcome.error is not None:
        return line.append(f" {outcome.error}", style="red")
    line.append(f" {outcome.cached_tokens:>5} cached {outcome.ttft_ms:>6.0f} ms  ")
    line.append(f"{outcome.request.topic}: ", style="dim")
    return line.append(" ".join(outcome.text.split()), style="italic")


def table(summary: Summary) -> Table:
    """One column per policy."""
    shown = Table(title="One request at a time, caches empty at the start", title_justify="left")
    shown.add_column("")
    for policy in summary.policies:
        shown.add_column(policy.policy, justify="right")
    rows: list[tuple[str, list[str]]] = [
        ("hit rate (prompt tokens from cache)", [f"{p.hit_rate:.1%}" for p in summary.policies]),
        ("requests: hit / miss / part / failed", [_kinds(p) for p in summary.policies]),
        ("time to first token, median", [_ms(p.ttft_p50_ms) for p in summary.policies]),
        ("  of a miss", [_ms(p.ttft_miss_ms) for p in summary.policies]),
        ("  of a hit", [_ms(p.ttft_hit_ms) for p in summary.policies]),
        ("requests per worker", [_spread(p) for p in summary.policies]),
    ]
    for name, cells in rows:
        shown.add_row(name, *cells)
    return shown


def check_line(check: Check) -> Text:
    mark = Text("✓ ", style="green") if check.ok else Text("✗ ", style="bold red")
    return mark.append(check.text, style="not bold" if check.ok else "bold red")


def result_line(summary: Summary, extra: Mapping[str, object]) -> str:
    """The figures as one line of JSON. Times in milliseconds."""
    return one_line(
        {
            "requests": summary.requests,
            "failed": summary.failed,
            "policies": {
                policy.policy: {
                    "hit_rate": round(policy.hit_rate, 4),
                    "ttft_p50_ms": _rounded(policy.ttft_p50_ms),
                    "per_worker": dict(policy.per_worker),
                }
                for policy in summary.policies
            },
            "ttft_miss_ms": _rounded(summary.ttft_miss_ms),
            "ttft_hit_ms": _rounded(summary.ttft_hit_ms),
            **extra,
        }
    )


def _kinds(policy: PolicySummary) -> str:
    order = (Kind.HIT, Kind.MISS, Kind.PARTIAL, Kind.FAILED)
    return " / ".join(str(policy.kinds[kind]) for kind in order)


def _spread(policy: PolicySummary) -> str:
    return " / ".join(str(count) for count in policy.per_worker.values())


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
