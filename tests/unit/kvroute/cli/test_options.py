"""Options made from settings, and settings from options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvroute.cli.options import click_options, from_options
from kvroute.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    lease_s: float = setting(3.0, "Seconds.", minimum=1)
    audit: bool = setting(False, "Audit.")
    policy: str = setting("a", "Policy.", choices=("a", "b"))
    names: tuple[str, ...] = setting(("x", "y"), "Names.")
    secret: str = setting("s3", "Secret.", secret=True)
    model: str = setting(help="Model.", required=True)


@click.command()
@click_options(Sample, "router")
def command(config: Path | None, **flags: object) -> None:
    click.echo(repr(from_options(Sample, "router", config, flags)))


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner(env={"KVROUTE_ROUTER_MODEL": "m"})


def test_help_shows_default_choices_and_variable(runner: CliRunner) -> None:
    shown = " ".join(runner.invoke(command, ["--help"]).output.split())
    for part in (
        "--lease-s X Seconds. [default: 3.0] [env: KVROUTE_ROUTER_LEASE_S]",
        "--audit / --no-audit Audit. [default: off]",
        "--policy a|b",
        "[default: x,y]",
        "--model TEXT Model. [required]",
        "--config FILE",
    ):
        assert part in shown
    assert "s3" not in shown


def test_options_win_over_environment_and_file(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "k.toml"
    file.write_text("[router]\nlease_s = 5.0\npolicy = 'b'\n")
    args = ["--config", str(file), "--audit", "--names", "p,q"]
    shown = runner.invoke(command, args, env={"KVROUTE_ROUTER_LEASE_S": "6"}).output
    assert "lease_s=6.0" in shown
    assert "audit=True" in shown
    assert "policy='b'" in shown
    assert "names=('p', 'q')" in shown


def test_file_may_come_from_the_environment(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "k.toml"
    file.write_text("[router]\nlease_s = 5.0\n")
    shown = runner.invoke(command, [], env={"KVROUTE_CONFIG": str(file)}).output
    assert "lease_s=5.0" in shown


def test_mistakes_of_all_sources_come_together(runner: CliRunner) -> None:
    done = runner.invoke(command, ["--lease-s", "0"], env={"KVROUTE_ROUTER_POLICY": "z"})
    assert "2 settings are wrong" in str(done.exception)
