"""Generates the Python code of `protos/`, and lints the definitions.

    python scripts/protos.py generate [--out DIR]   kvroute/v1/*_pb2*.py (default: in the checkout)
    python scripts/protos.py lint                   buf lint; buf breaking against the last tag

A published field must keep its meaning: `lint` compares with the newest release tag that git knows,
and says so when there is none to compare with. Exit code 0 when all is well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"


def generate(out: Path) -> int:
    """Writes the generated modules under `out`; returns the exit code of protoc."""
    files = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.glob("kvroute/v1/*.proto"))
    kinds = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *kinds, *files]
    return subprocess.run(command, cwd=PROTOS, check=False).returncode


def lint() -> int:
    """Runs the buf beside this interpreter; returns the first exit code that is not 0."""
    buf = str(Path(sys.executable).parent / "buf")
    failed = subprocess.run([buf, "lint", "protos"], cwd=ROOT, check=False).returncode
    if failed:
        return failed
    tag = last_tag()
    if tag is None:
        print("buf breaking: no release tag to compare with, nothing to check")
        return 0
    print(f"buf breaking: against {tag}")
    against = f".git#tag={tag},subdir=protos"
    command = [buf, "breaking", "protos", "--against", against]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def last_tag() -> str | None:
    """The newest tag `vX...` that HEAD descends from; None without git, history or such a tag."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    generating = commands.add_parser("generate", help="write the generated modules")
    generating.add_argument("--out", type=Path, default=ROOT, help="folder to write under")
    commands.add_parser("lint", help="check the definitions")
    args = parser.parse_args()
    return generate(args.out.resolve()) if args.command == "generate" else lint()


if __name__ == "__main__":
    sys.exit(main())
