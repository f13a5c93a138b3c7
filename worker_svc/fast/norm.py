"""A stand-in for RMSNorm modules over the native kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_TOLERANCE = 2e-6


class FastNorm(nn.Module):
    """(weight + `add`) * x / sqrt(mean(x^2) + eps)."""

    def __init__(self, weight: torch.Tensor, eps: float, add: float, library: Any) -> None:
        super().__init__()
        self._weight = weight.detach().contiguous()
        self._at, self._width = self._weight.data_ptr(), self._weight.numel()
        self._eps, self._add, self._library = eps, add, library

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        self._library.rmsnorm(
            x.data_ptr(),
            self._at,
            y.data_ptr(),
            x.numel() // self._width,
            self._width,
            self._eps,
            self._add,
            torch.get_num_threads(),
        )
        return y


def fast_norm(module: nn.Module, library: Any) -> FastNorm | None:
    """A stand-in that gives this module's very results, or None.

    Whether a norm multiplies by w (Llama) or 1 + w (Gemma) is decided by comparing results, not by
    its name.
    """
    weight = getattr(module, "weight", None)
    eps: Any = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    known = "RMSNorm" in type(module).__name__ and isinstance(eps, float)
    if not known or weight is None or weight.dim() != 1 or weight.dtype != torch.float32:
        return None
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, weight.numel(), generator=generator)
    with torch.inference_mode():
        wanted = module(x)
        for add in (0.0, 1.0):
            made = FastNorm(weight, eps, add, library)
            if torch.allclose(made(x), wanted, rtol=_TOLERANCE, atol=_TOLERANCE):
                return made
    return None
