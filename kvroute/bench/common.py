"""The keys that every benchmark's JSON object begins with, and the line that it is printed as.

{"bench": "route", "commit": "0123456789ab", "config": {..}, "seed": 7,
 "machine": {"cores": 2, "cpu": "..", "python": "3.11.7", "torch": "2.13.0"}, ...}
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from kvroute import __version__


def common(bench: str, config: Mapping[str, Any], seed: object) -> dict[str, Any]:
    """bench, commit, config, seed, machine."""
    return {
        "bench": bench,
        "commit": commit(),
        "config": dict(config),
        "seed": seed,
        "machine": machine(),
    }


def one_line(result: Mapping[str, Any]) -> str:
    """As one line of JSON, which a benchmark prints last."""
    return json.dumps(result, separators=(",", ":"))


def percentile(samples: Sequence[float], share: float) -> float:
    """Nearest rank; `share` in 0..1. `samples` must not be empty."""
    ranked = sorted(samples)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def commit() -> str:
    """The commit of the source tree (`+` if it is changed), or the version where there is none."""
    folder = Path(__file__).resolve().parents[2]
    # An installed package may lie inside some other project's repository.
    if not (folder / ".git").exists():
        return __version__
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return __version__
    return head + ("+" if changed else "")


def machine() -> dict[str, Any]:
    """Cores that this process may use, processor, and versions; None: not installed."""
    return {
        "cores": _cores(),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "torch": _version("torch"),
    }


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ("git", *arguments), cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on this system.
        return os.cpu_count() or 1


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
