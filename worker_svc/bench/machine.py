"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any


def common(bench: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """The keys that every benchmark's JSON line has."""
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
    """Of the checkout that this file is in; empty for an installed package."""
    here = Path(__file__).resolve().parent
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
