"""Weights of linears that share their input, stored once in the order a fast kernel reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn


class Packed(Protocol):
    """`apply`: x (..., k) float32 -> (..., n), the parts' outputs side by side."""

    def apply(self, x: torch.Tensor) -> torch.Tensor: ...


class NativePacked:
    """For the native kernels."""

    def __init__(self, parts: Sequence[nn.Linear], library: Any) -> None:
        weight, self._bias = _joined(parts)
        self._n, self._k = weight.shape
        self._library = library
        width = library.panel_width()
        self._packed = torch.empty(-(-self._n // width) * width * self._k)
        library.pack(weight.data_ptr(), self._n, self._k, self._packed.data_ptr())
        # Kept as numbers: asking a tensor for its pointer costs more than the call at small sizes.
        self._packed_at = self._packed.data_ptr()
        self._bias_at = None if self._bias is None else self._bias.data_ptr()

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty(*x.shape[:-1], self._n)
        self._library.linear(
            x.data_ptr(),
            x.numel() // self._k,
            self._k,
            self._packed_at,
            self._n,
            self._bias_at,
            y.data_ptr(),
            torch.get_num_threads(),
        )
        return y


class OneDnnPacked:
    """For oneDNN, which torch brings along. Raises whatever torch raises where these operators
    are missing.
    """

    def __init__(self, parts: Sequence[nn.Linear]) -> None:
        weight, self._bias = _joined(parts)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._packed, self._bias, "none", [], ""
        )
        return found


def _joined(parts: Sequence[nn.Linear]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weight (sum of outputs, k) and bias of all parts, one below the other."""
    weight = torch.cat([part.weight.detach() for part in parts]).contiguous()
    if all(part.bias is None for part in parts):
        return weight, None
    biases = [
        torch.zeros(part.out_features) if part.bias is None else part.bias.detach()
        for part in parts
    ]
    return weight, torch.cat(biases).contiguous()
