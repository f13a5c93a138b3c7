"""Builds the native kernels with the machine's compiler, once, and opens them, where possible.

Nothing depends on it: without a compiler (or on a CPU without AVX2 and FMA) torch's own packed
linears are used instead.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import structlog

_log = structlog.get_logger(__name__)

_SOURCES = tuple(Path(__file__).with_name(name) for name in ("linear.cpp", "attention.cpp"))
_HEADER = Path(__file__).with_name("vectors.hpp")
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-std=c++17", "-shared", "-fPIC")
"""Never -ffast-math: linking it in may switch the whole process to flush denormals."""
_COMPILERS = ("g++", "c++")
_BUILD_S = 120

_P, _I, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES: dict[str, list[Any]] = {
    "pack": [_P, _I, _I, _P],
    "linear": [_P, _I, _I, _P, _I, _P, _P, _I],
    "rmsnorm": [_P, _P, _P, _I, _I, _F, _F, _I],
    "decode": [_P],
    "prefill": [_P],
}


class AttentionArguments(ctypes.Structure):
    """The struct `Attention` of attention.cpp, field by field."""

    _fields_ = [
        *((name, _P) for name in ("query", "key", "value")),
        *(
            (name, _I)
            for name in (
                "query_token",
                "query_head",
                "key_token",
                "key_head",
                "value_token",
                "value_head",
            )
        ),
        *((name, _P) for name in ("keys", "values", "slots", "table", "contexts")),
        *(
            (name, _I)
            for name in (
                "table_width",
                "rows",
                "block_size",
                "query_heads",
                "kv_heads",
                "key_dim",
                "value_dim",
                "window",
                "threads",
            )
        ),
        ("sinks", _P),
        ("out", _P),
        ("scale", _F),
        ("softcap", _F),
    ]


def open_library(cache: Path) -> Any | None:
    """The kernels, built into `cache` if need be (seconds); None when this machine cannot have
    them.

    torch must be imported before, so that both use one OpenMP.
    """
    cpu = _cpu_flags()
    if "avx2" not in cpu or "fma" not in cpu:
        return None
    text = b"".join(path.read_bytes() for path in (*_SOURCES, _HEADER))
    material = text + " ".join((*_FLAGS, *sorted(cpu))).encode()
    path = cache / "native" / f"{hashlib.sha256(material).hexdigest()[:16]}.so"
    try:
        if not path.exists() and not _build(path):
            return None
        library = ctypes.CDLL(str(path))
    except OSError as error:
        _log.warning("no native kernels", error=str(error).splitlines()[0])
        return None
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, None
    library.panel_width.restype = _I
    return library


def _build(path: Path) -> bool:
    """Compiles into a temporary file beside `path` and renames it: never a half library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for compiler in (os.environ.get("CXX"), *_COMPILERS):
        if not compiler:
            continue
        handle, made = tempfile.mkstemp(dir=path.parent, suffix=".so")
        os.close(handle)
        command = [compiler, *_FLAGS, *map(str, _SOURCES), "-o", made]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_BUILD_S)
        except (OSError, subprocess.SubprocessError) as error:
            Path(made).unlink(missing_ok=True)
            _log.debug("a compiler failed", compiler=compiler, error=str(error))
            continue
        Path(made).replace(path)
        return True
    return False


def _cpu_flags() -> frozenset[str]:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return frozenset(line.split(":", 1)[1].split())
    except OSError:
        pass
    return frozenset()
