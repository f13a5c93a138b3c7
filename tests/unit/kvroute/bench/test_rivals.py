"""Rivals are found where `make compare-NAME` puts them, and missing with a reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kvroute.bench.rivals import Missing, find_python, reason


def test_unfinished_environment_is_missing_until_its_stamp_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".venv-compare" / "some-rival"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    missing = Missing("some-rival", "not installed: make compare-some-rival")
    assert find_python("some-rival") == missing
    (folder / ".stamp-1").touch()
    assert find_python("some-rival") == folder / "bin" / "python"


def test_reason_is_the_last_line_that_the_rival_said() -> None:
    failed = subprocess.CalledProcessError(1, "x", stderr="Traceback\nImportError: no\n")
    assert reason(failed) == "ImportError: no"
    assert reason(OSError("no such file")) == "no such file"
    assert "exit status 1" in reason(subprocess.CalledProcessError(1, "x", stderr=""))
