"""A stand-in for `nn.Linear`: the first of several siblings computes for all, the others read
their part.

"Siblings" get the very same tensor in consecutive calls (query, key and value of a layer; gate and
up of its MLP), so one wide multiplication serves them all, under the model's own unchanged code.
"""

from __future__ import annotations

import torch
from torch import nn

from worker_svc.fast.packed import Packed


class Shared:
    """The last input and output of a group of siblings. The input is held, so that its identity
    cannot be re-used.
    """

    def __init__(self, packed: Packed) -> None:
        self.packed = packed
        self.input: torch.Tensor | None = None
        self.output: torch.Tensor | None = None

    def get(self, x: torch.Tensor) -> torch.Tensor:
        if self.input is not x or self.output is None:
            self.input, self.output = x, self.packed.apply(x)
        return self.output

    def drop(self) -> None:
        self.input = self.output = None


class FastLinear(nn.Module):
    """`start`: where this part begins among the group's outputs. `last`: the group's result is
    dropped after it.
    """

    def __init__(self, old: nn.Linear, shared: Shared, start: int, last: bool) -> None:
        super().__init__()
        self.in_features, self.out_features = old.in_features, old.out_features
        self._shared, self._start, self._last = shared, start, last
        self._alone = start == 0 and last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._alone:
            return self._shared.packed.apply(x)
        whole = self._shared.get(x)
        if self._last:
            self._shared.drop()
        return whole[..., self._start : self._start + self.out_features]
