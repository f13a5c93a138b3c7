"""The entry point: exit codes, one-line errors, help that costs little."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from kvroute.cli.main import COMMANDS, cli, run
from kvroute.errors import StartError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """`kvroute status` raises what the test appends here."""
    errors: list[Exception] = []

    @click.command("status")
    def command() -> None:
        raise errors[0]

    monkeypatch.setattr("kvroute.cli.status.command", command)
    return errors


def test_error_of_ours_is_one_line_and_exit_code_1(
    failing: list[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(StartError("port 5 is in use:\n  choose another"))
    assert run(["status"]) == 1
    assert capsys.readouterr().err == "kvroute: port 5 is in use: choose another\n"


def test_unexpected_error_keeps_its_traceback(failing: list[Exception]) -> None:
    failing.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run(["status"])


def test_interrupt_is_exit_code_130(
    failing: list[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(KeyboardInterrupt())  # type: ignore[arg-type]
    assert run(["status"]) == 130


def test_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["statsu"]) == 2
    assert "Did you mean status?" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_teaches_by_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert f"kvroute {name}" in shown


def test_group_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, entry in COMMANDS.items():
        assert name in shown
        assert entry.summary in shown


def test_every_command_is_named_as_it_is_called() -> None:
    with click.Context(cli) as ctx:
        for name in COMMANDS:
            command = cli.get_command(ctx, name)
            assert command is not None
            assert command.name == name


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kvroute.cli.main import run; run(['--help'])\n"
        "heavy = {'grpc', 'torch', 'transformers', 'redis', 'rich', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["worker", "router", "up", "demo"])
def test_help_of_services_imports_no_torch(name: str) -> None:
    code = (
        f"import sys; from kvroute.cli.main import run; run(['{name}', '--help'])\n"
        "sys.exit(', '.join(sorted({'torch', 'transformers', 'redis'} & set(sys.modules))) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
