"""Reads the parts of a GGUF file (version 3) that the demo model uses. Needs numpy only.

Layout: magic, version, counts; key-value metadata; tensor names, shapes and offsets; then the
tensors, aligned. The three storage types here: F32, Q4_1 (blocks of 32: scale f16, minimum f16, 32
x 4 bits) and Q8_0 (blocks of 32: scale f16, 32 x int8).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCK = 32
_DEFAULT_ALIGNMENT = 32


class GgufError(ValueError):
    """Not a GGUF file, or one with parts that this reader does not know."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """`shape` outermost dimension first (GGUF stores it the other way round)."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int


class GgufFile:
    """Metadata is read at once, tensors on demand from a memory map."""

    def __init__(self, path: Path) -> None:
        self._data = np.memmap(path, dtype=np.uint8, mode="r")
        self._bytes: Any = memoryview(self._data)  # type: ignore[arg-type]
        if bytes(self._bytes[:4]) != b"GGUF":
            raise GgufError(f"{path} is not a GGUF file")
        self._at = 4
        version = self._number("<I")
        if version != 3:
            raise GgufError(f"{path} has GGUF version {version}; only 3 is known")
        tensors, pairs = self._number("<Q"), self._number("<Q")
        self.metadata: Mapping[str, Any] = dict(self._pair() for _ in range(pairs))
        self.tensors = [self._tensor() for _ in range(tensors)]
        alignment = int(self.metadata.get("general.alignment", _DEFAULT_ALIGNMENT))
        self._base = -(-self._at // alignment) * alignment

    def read(self, tensor: Tensor) -> Floats:
        """The tensor expanded to float32."""
        count = int(np.prod(tensor.shape))
        start = self._base + tensor.start
        if tensor.kind == _F32:
            raw = self._data[start : start + 4 * count].view("<f4")
        elif tensor.kind == _Q4_1:
            raw = _expand_q4_1(self._blocks(start, count, 4 + _BLOCK // 2))
        elif tensor.kind == _Q8_0:
            raw = _expand_q8_0(self._blocks(start, count, 2 + _BLOCK))
        else:
            raise GgufError(f"tensor {tensor.name} has storage type {tensor.kind}, not known here")
        return np.ascontiguousarray(raw.reshape(tensor.shape), dtype=np.float32)

    def _blocks(self, start: int, count: int, size: int) -> npt.NDArray[np.uint8]:
        return self._data[start : start + count // _BLOCK * size].reshape(-1, size)

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._bytes, self._at)
        self._at += struct.calcsize(form)
        return value

    def _string(self) -> str:
        size = self._number("<Q")
        text = bytes(self._bytes[self._at : self._at + size]).decode()
        self._at += size
        return text

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            item, count = self._number("<I"), self._number("<Q")
            return [self._value(item) for _ in range(count)]
        if kind not in _SCALARS:
            raise GgufError(f"metadata type {kind} is not known")
        return self._number(_SCALARS[kind])

    def _pair(self) -> tuple[str, Any]:
        key = self._string()
        return key, self._value(self._number("<I"))

    def _tensor(self) -> Tensor:
        name = self._string()
        shape = [self._number("<Q") for _ in range(self._number("<I"))]
        kind, start = self._number("<I"), self._number("<Q")
        return Tensor(name, tuple(reversed(shape)), kind, start)


def _halves(blocks: npt.NDArray[np.uint8], at: int) -> Floats:
    """The float16 at byte `at` of each block, (blocks, 1)."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _expand_q4_1(blocks: npt.NDArray[np.uint8]) -> Floats:
    """value = nibble * scale + minimum; low nibbles are the first 16 values of a block, high
    nibbles the last.
    """
    nibbles = blocks[:, 4:]
    values = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32)
    return values * _halves(blocks, 0) + _halves(blocks, 2)


def _expand_q8_0(blocks: npt.NDArray[np.uint8]) -> Floats:
    """value = int8 * scale."""
    values = np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32)
    return values * _halves(blocks, 0)
