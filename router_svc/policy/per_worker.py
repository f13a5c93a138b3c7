"""A number per worker that a policy keeps for itself, bounded whatever comes and goes."""

from __future__ import annotations

from collections import OrderedDict

CAPACITY = 4096


class PerWorker:
    """Zero where nothing was added. The worker written longest ago is forgotten first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._values: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, worker_id: str) -> float:
        return self._values.get(worker_id, 0.0)

    def add(self, worker_id: str, amount: float) -> None:
        self.set(worker_id, self._values.get(worker_id, 0.0) + amount)

    def set(self, worker_id: str, value: float) -> None:
        self._values[worker_id] = value
        self._values.move_to_end(worker_id)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)
