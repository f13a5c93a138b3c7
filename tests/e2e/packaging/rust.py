"""Finds packages that were built from Rust, by how they were built and by what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GENERATORS = ("maturin", "setuptools-rust")
MARK = b"/rustc/"
"""Rust binaries name the compiler's sources by paths that begin with this, in panic messages."""

SUFFIXES = (".so", ".pyd", ".dylib")


@dataclass(frozen=True, slots=True)
class Finding:
    """`path` is relative to the folder that was searched."""

    path: str
    why: str


def find_rust(site_packages: Path) -> list[Finding]:
    """What in an installed environment came from Rust."""
    found = []
    for wheel in sorted(site_packages.glob("*.dist-info/WHEEL")):
        lines = wheel.read_text(encoding="utf-8").splitlines()
        generator = next((line for line in lines if line.startswith("Generator:")), "")
        if any(name in generator for name in GENERATORS):
            found.append(Finding(str(wheel.relative_to(site_packages)), generator))
    for library in sorted(site_packages.rglob("*")):
        if library.is_file() and is_shared_object(library) and MARK in library.read_bytes():
            found.append(Finding(str(library.relative_to(site_packages)), "contains /rustc/"))
    return found


def is_shared_object(path: Path) -> bool:
    """By name, versions included; or an executable that a wheel brings, which may be Rust too."""
    if path.suffix in SUFFIXES or ".so." in path.name:
        return True
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
