"""Contestants behind a pipe, with a stand-in for the rival's script."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from worker_svc.bench.remote import Remote, RivalFailed, Vllm

RIVAL = """
import json, sys
print('{"ready": true}', flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    seconds = sum(map(len, asked["prompts"])) + 10 * asked["new_tokens"]
    print(json.dumps({"wall": seconds, "cpu": 2 * seconds}), flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "rival.py"
    path.write_text(RIVAL)
    return path


def test_rates_come_from_the_rivals_own_clock(script: Path) -> None:
    for clock, factor in ((time.perf_counter, 1), (time.process_time, 2)):
        rival = Remote((sys.executable, script), clock)
        assert rival.first_tokens([[1, 2], [3]]) == factor * (3 + 10)
        # Two prompts, four tokens behind the first, in 40 seconds.
        assert rival.decode_rate([[1, 2], [3]], 5) == pytest.approx(8 / (factor * 40))
        rival.close()


def test_rival_that_cannot_start_says_why(script: Path) -> None:
    script.write_text("raise ImportError('no such thing')")
    with pytest.raises(RivalFailed, match="ImportError: no such thing"):
        Remote((sys.executable, script), time.perf_counter)


def test_rival_that_dies_is_told_apart_from_a_slow_one(script: Path) -> None:
    script.write_text("print('{}', flush=True); input(); raise SystemExit(3)")
    rival = Remote((sys.executable, script), time.perf_counter)
    with pytest.raises(RivalFailed, match="exit code 3"):
        rival.first_tokens([[1]])


def test_missing_environment_names_the_command_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvroute.bench.rivals.FOLDER", str(tmp_path / "nothing"))
    with pytest.raises(RivalFailed, match="make compare-vllm"):
        Vllm(tmp_path, time.perf_counter)
