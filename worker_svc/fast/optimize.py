"""Swaps a loaded model's linears and norms for faster ones, in place.

Only for inference, only after loading: code that reads `linear.weight` afterwards breaks. Only
float32 on CPU. The load-time self-check runs after the swap; should it fail, the model is loaded
again and left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from worker_svc.fast.linear import FastLinear, Shared
from worker_svc.fast.norm import fast_norm
from worker_svc.fast.packed import NativePacked, OneDnnPacked, Packed
from worker_svc.fast.siblings import linear_groups

SMALLEST = 1 << 14
"""Groups with fewer weights are left alone: the call costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """`kernel` is "native", "onednn" or "torch" (nothing was swapped)."""

    kernel: str
    linears: int = 0
    calls: int = 0
    norms: int = 0


def optimize(
    model: nn.Module,
    forward: Callable[[], Any],
    library: Any | None,
    smallest: int = SMALLEST,
) -> Swapped:
    """`forward` runs the model once; `library` from `open_library`, None for oneDNN."""
    if library is None and not _has_onednn():
        return Swapped("torch")
    groups = [group for group in linear_groups(model, forward) if _worth_it(group, smallest)]
    names = {module: name for name, module in model.named_modules()}
    embedding = _embedding_weight(model)
    for group in groups:
        packed: Packed = NativePacked(group, library) if library else OneDnnPacked(group)
        shared, start = Shared(packed), 0
        for at, linear in enumerate(group):
            last = at == len(group) - 1
            _replace(model, names[linear], FastLinear(linear, shared, start, last))
            start += linear.out_features
            if linear.weight is not embedding:
                # One copy is enough.
                linear.weight = None  # type: ignore[assignment]
    norms = _swap_norms(model, library) if library else 0
    linears = sum(map(len, groups))
    return Swapped("native" if library else "onednn", linears, len(groups), norms)


def _worth_it(group: list[nn.Linear], smallest: int) -> bool:
    fitting = all(
        linear.weight.dtype is torch.float32 and linear.weight.device.type == "cpu"
        for linear in group
    )
    return fitting and sum(linear.weight.numel() for linear in group) >= smallest


def _swap_norms(model: nn.Module, library: Any) -> int:
    count = 0
    for name, module in list(model.named_modules()):
        made = fast_norm(module, library)
        if made is not None:
            _replace(model, name, made)
            count += 1
    return count


def _replace(model: nn.Module, name: str, made: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(parent) if parent else model, leaf, made)


def _embedding_weight(model: Any) -> Any:
    return model.get_input_embeddings().weight if hasattr(model, "get_input_embeddings") else None


def _has_onednn() -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    try:
        OneDnnPacked([nn.Linear(4, 4)]).apply(torch.zeros(1, 4))
    except (AttributeError, RuntimeError):
        return False
    return True
