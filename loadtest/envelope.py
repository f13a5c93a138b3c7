"""The one JSON object that every benchmark prints as its last line."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from kvroute import __version__


def envelope(
    bench: str, config: Mapping[str, Any], seed: object, content: Mapping[str, Any]
) -> str:
    """`content` between the keys that all benchmarks share, as one line of JSON."""
    head = {
        "bench": bench,
        "commit": commit(),
        "config": dict(config),
        "seed": seed,
        "machine": machine(),
    }
    return json.dumps({**head, **content}, separators=(",", ":"))


def commit() -> str:
    """The commit of the source tree (`+` if it is changed), or the version where there is none."""
    folder = Path(__file__).resolve().parent
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return __version__
    return head + ("+" if changed else "")


def machine() -> dict[str, Any]:
    """Cores that this process may use, processor, and versions."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "torch": _version("torch"),
    }


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ("git", *arguments), cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()


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
