"""Fresh virtual environments for tests of what is installed."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def make_venv(folder: Path) -> Path:
    """An empty environment without pip; returns its interpreter."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def pip(*args: str) -> None:
    """Runs this interpreter's pip; a failure shows what pip said."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        f"pip {' '.join(args)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    )


def site_packages(python: Path) -> Path:
    """Where the environment of `python` keeps its packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(run(python, "-c", code).strip())


def run(program: Path, *args: str, cwd: Path | None = None) -> str:
    """Standard output of a program that must succeed, in a folder outside of the checkout."""
    done = subprocess.run(
        [program, *args], cwd=cwd or "/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{program} {args}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout
