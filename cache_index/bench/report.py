"""Keys that every benchmark's JSON line has, and percentiles."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any


def percentile(samples: Sequence[float], share: float) -> float:
    """Nearest rank; `share` in 0..1. `samples` must not be empty."""
    ranked = sorted(samples)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def common(bench: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """bench, commit, config, seed, machine."""
    return {
        "bench": bench,
        "commit": _commit(),
        "config": config,
        "seed": seed,
        "machine": {
            "cores": os.cpu_count(),
            "cpu": _cpu(),
            "python": platform.python_version(),
            "torch": _version("torch"),
        },
    }


def _commit() -> str:
    """Of the checkout that this runs from; empty for an installed package."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return ""
    found = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=folder, capture_output=True, text=True
    )
    return found.stdout.strip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
