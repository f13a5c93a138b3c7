"""What `kvroute up` makes of its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvroute.cli.main import run
from kvroute.cli.up import UpSettings, make_plan


def test_plan_passes_only_what_was_given() -> None:
    plan = make_plan(UpSettings(threads=3), "/models/demo", None)
    assert plan.worker_args == ("--threads", "3")
    assert plan.router_args == ()
    assert plan.served_name == "demo"


def test_plan_passes_sizes_policy_and_settings_file_on() -> None:
    settings = UpSettings(model="m", blocks=9, block_size=4, threads=1, policy="random")
    plan = make_plan(settings, "m", Path("k.toml"))
    sizes = ("--blocks", "9", "--block-size", "4", "--threads", "1")
    assert plan.worker_args == ("--config", "k.toml", *sizes)
    assert plan.router_args == ("--config", "k.toml", "--policy", "random")
    assert plan.served_name == ""


def test_cores_are_shared_out_but_none_gets_less_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert make_plan(UpSettings(workers=2), "m", None).worker_args[-1] == "4"
    assert make_plan(UpSettings(workers=64), "m", None).worker_args[-1] == "1"


def test_missing_model_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--model", "./none", "--listen", "127.0.0.1:0"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("kvroute: there is no model directory ./none")
    assert shown.count("\n") == 1


def test_no_redis_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--redis-url", "redis://127.0.0.1:1", "--listen", "127.0.0.1:0"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("kvroute: Redis at redis://127.0.0.1:1 does not answer")
    assert shown.count("\n") == 1
