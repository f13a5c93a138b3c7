"""The committed generated code is what the definitions give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_regenerating_changes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "scripts/protos.py", "generate", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = {path.name: path.read_text() for path in (tmp_path / "kvroute/v1").iterdir()}
    kept = {path.name: path.read_text() for path in (ROOT / "kvroute/v1").glob("*_pb2*")}
    assert made == kept, "run: make protos"
