"""Finds linears that may share one multiplication, by watching one forward instead of knowing
their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def linear_groups(model: nn.Module, forward: Callable[[], Any]) -> list[list[nn.Linear]]:
    """Every `nn.Linear` of the model in exactly one group, siblings in calling order.

    Siblings have one parent module and get the same tensor object in consecutive calls; each is
    called once. `forward` runs the model once. Linears that it does not reach (experts not chosen)
    stay alone.
    """
    names = {module: name for name, module in model.named_modules() if type(module) is nn.Linear}
    calls: list[tuple[nn.Linear, torch.Tensor]] = []

    def seen(module: nn.Linear, arguments: tuple[torch.Tensor, ...]) -> None:
        calls.append((module, arguments[0]))

    hooks = [module.register_forward_pre_hook(seen) for module in names]
    try:
        with torch.inference_mode():
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    counts = Counter(module for module, _ in calls)
    groups: list[list[nn.Linear]] = []
    done: set[nn.Linear] = set()
    before: torch.Tensor | None = None
    for module, given in calls:
        if module not in done:
            mergeable = groups and given is before and counts[module] == 1
            if mergeable and _together(groups[-1][-1], module, names, counts):
                groups[-1].append(module)
            else:
                groups.append([module])
            done.add(module)
        before = given
    return groups + [[module] for module in names if module not in done]


def _together(
    one: nn.Linear, other: nn.Linear, names: dict[Any, str], counts: Counter[nn.Linear]
) -> bool:
    same_parent = names[one].rpartition(".")[0] == names[other].rpartition(".")[0]
    return same_parent and counts[one] == 1
