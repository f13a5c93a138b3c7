"""The router's environment holds nothing that was built from Rust, and the check can tell."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from tests.e2e.packaging.environment import make_venv, pip, site_packages
from tests.e2e.packaging.rust import find_rust


def test_router_environment_is_free_of_rust(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv")
    pip("--python", str(python), "install", "-q", "-c", "constraints.txt", ".[router]")
    packages = site_packages(python)
    assert (packages / "grpc").is_dir()
    assert (packages / "redis").is_dir()
    assert not (packages / "torch").exists()
    assert find_rust(packages) == []


def test_check_flags_a_package_that_is_rust(tmp_path: Path) -> None:
    wanted = f"tokenizers=={version('tokenizers')}"
    pip("install", "-q", "--no-deps", "--target", str(tmp_path), wanted)
    whys = {finding.why.partition(":")[0] for finding in find_rust(tmp_path)}
    assert whys == {"Generator", "contains /rustc/"}
