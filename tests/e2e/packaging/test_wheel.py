"""The built wheel works by itself: commands, protos and Lua come with it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.e2e.packaging.environment import ROOT, make_venv, pip, run, site_packages


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our wheel in it, and the packages of others lent by a .pth file."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("kvroute-*.whl")
    python = make_venv(folder / "venv")
    pip("--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel))
    # A path in a .pth file is searched, but no .pth file there is read: an editable install of the
    # checkout stays out of reach.
    (site_packages(python) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_packages_come_from_the_wheel(python: Path) -> None:
    code = "import kvroute, cache_index, router_svc; print(kvroute.__file__, cache_index.__file__)"
    shown = run(python, "-c", code)
    assert str(ROOT) not in shown
    assert shown.count("site-packages") == 2


def test_command_works_outside_the_checkout(python: Path) -> None:
    assert "kvroute demo" in run(python.parent / "kvroute", "--help")
    assert "--lease-s" in run(python.parent / "kvroute", "router", "--help")
    assert "kvroute demo" in run(python, "-m", "kvroute", "--help")


def test_data_files_come_with_it(python: Path) -> None:
    protos = {path.name for path in ROOT.glob("protos/kvroute/v1/*.proto")}
    lua = {path.name for path in ROOT.glob("cache_index/**/*.lua")}
    code = """
from importlib.resources import files

def names(folder, suffix):
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from names(entry, suffix)
        elif entry.name.endswith(suffix) and entry.read_text():
            yield entry.name

print(*names(files("kvroute") / "protos", ".proto"), *names(files("cache_index"), ".lua"))
print(*names(files("router_svc"), "openapi.json"))
"""
    assert protos
    assert set(run(python, "-c", code).split()) == protos | lua | {"openapi.json"}
