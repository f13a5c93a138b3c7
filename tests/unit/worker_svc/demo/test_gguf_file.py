"""A small GGUF file written by hand: its numbers come back."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from worker_svc.demo.convert import _unpermute
from worker_svc.demo.gguf_file import GgufError, GgufFile


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def write(path: Path, version: int = 3) -> None:
    """Metadata of several types; three tensors of two blocks (64 values), one of each storage
    type.
    """
    pairs = [
        text("name") + struct.pack("<I", 8) + text("tiny"),
        text("rate") + struct.pack("<If", 6, 0.5),
        text("flag") + struct.pack("<I?", 7, True),
        text("words") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
    ]
    q4 = b"".join(
        np.array([2.0, -1.0], "<f2").tobytes() + bytes(i | (15 - i) << 4 for i in range(16))
        for _ in range(2)
    )
    q8 = b"".join(
        np.array([0.5], "<f2").tobytes() + np.arange(-16, 16, dtype=np.int8).tobytes()
        for _ in range(2)
    )
    data, infos = b"", []
    for name, kind, raw in (
        ("f", 0, np.arange(64, dtype="<f4").tobytes()),
        ("q4", 3, q4),
        ("q8", 8, q8),
    ):
        infos.append(text(name) + struct.pack("<IQQIQ", 2, 32, 2, kind, len(data)))
        data += raw + b"\0" * (-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", version, len(infos), len(pairs))
    head += b"".join(pairs) + b"".join(infos)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def test_metadata_and_tensors_come_back(tmp_path: Path) -> None:
    write(tmp_path / "x.gguf")
    file = GgufFile(tmp_path / "x.gguf")
    assert file.metadata == {"name": "tiny", "rate": 0.5, "flag": True, "words": ["a", "b"]}
    plain, q4, q8 = (file.read(tensor) for tensor in file.tensors)
    assert plain.shape == (2, 32) and plain[1, 0] == 32
    assert q4[0].tolist() == [2 * i - 1 for i in range(16)] + [2 * (15 - i) - 1 for i in range(16)]
    assert q8[1].tolist() == [i / 2 for i in range(-16, 16)]


def test_other_files_and_versions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK" * 20)
    with pytest.raises(GgufError, match="not a GGUF"):
        GgufFile(tmp_path / "x")
    write(tmp_path / "y", version=2)
    with pytest.raises(GgufError, match="version 2"):
        GgufFile(tmp_path / "y")


def test_rotary_rows_go_back_to_halves() -> None:
    # One head of dim 4: GGUF keeps the pairs (0, 2), (1, 3) side by side.
    stored = np.array([[0], [2], [1], [3]], dtype=np.float32)
    assert _unpermute(stored, 1)[:, 0].tolist() == [0, 1, 2, 3]
