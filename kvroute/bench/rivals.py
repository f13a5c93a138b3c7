"""Where rivals live: `.venv-compare/NAME`, built by `make compare-NAME`; never dependencies."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = ".venv-compare"


@dataclass(frozen=True, slots=True)
class Missing:
    """A rival that could not run, and why, in one line."""

    name: str
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "reason": self.reason}


def find_python(name: str) -> Path | Missing:
    """The Python of a rival's environment, of this folder or else of our checkout.

    An environment whose installation did not get to its end counts as missing.
    """
    for folder in _folders(name):
        python = folder / "bin" / "python"
        if python.exists() and any(folder.glob(".stamp-*")):
            return python.absolute()
    return Missing(name, f"not installed: make compare-{name}")


def reason(error: Exception) -> str:
    """Why a rival failed, in one line: its own last words, where there are any."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    text = (said or "").strip() or str(error)
    return text.splitlines()[-1]


def _folders(name: str) -> Iterator[Path]:
    yield Path(FOLDER) / name
    yield Path(__file__).resolve().parents[2] / FOLDER / name
