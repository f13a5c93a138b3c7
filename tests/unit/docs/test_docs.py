"""What the documents tell users to type exists, links lead somewhere, examples load."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from kvroute.cli.main import COMMANDS, cli
from kvroute.settings import load
from router_svc.settings import RouterSettings
from worker_svc.settings import WorkerSettings

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str = "") -> list[str]:
    """The code blocks of a page; `language` is what follows the fence."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind == language]


def typed(page: Path, program: str) -> list[list[str]]:
    """The command lines of a program in the plain blocks of a page."""
    text = "\n".join(blocks(page)).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith(f"{program} ")]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    with click.Context(cli) as ctx:
        for _, name, *rest in typed(page, "kvroute"):
            assert name in COMMANDS or name == "COMMAND"
            if name == "COMMAND":
                continue
            command = cli.get_command(ctx, name)
            if isinstance(command, click.Group):
                command = command.get_command(ctx, rest[0])
            assert command is not None
            known = {flag for param in command.params for flag in param.opts}
            assert {word for word in rest if word.startswith("--")} <= known | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for _, target, *_ in typed(page, "make"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_paths_in_the_readme_exist() -> None:
    pattern = r"`((?:protos|router_svc|worker_svc|cache_index)/[\w./]*)`"
    named = re.findall(pattern, PAGES[0].read_text())
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_settings_example_loads(tmp_path: Path) -> None:
    (example,) = blocks(ROOT / "docs/settings.md", "toml")
    file = tmp_path / "kvroute.toml"
    file.write_text(example)
    assert load(RouterSettings, "router", {}, {}, file).redis_url == "redis://10.0.0.2:6379"
    assert load(WorkerSettings, "worker", {}, {}, file).blocks == 4000


def test_readme_is_short() -> None:
    assert len(PAGES[0].read_text().splitlines()) < 200
