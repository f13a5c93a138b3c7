"""Requests without blocks, and which of them goes next.

Three rules, strongest first: 1. A preempted sequence goes before everything else: it was admitted
once already. 2. Higher priority first, with ageing: every `ageing_s` of waiting lifts a request by
one level, up to the highest level
   asked for by anyone waiting. So low priorities wait longer, but never for ever; among equals
   ageing changes nothing.
3. Between tenants of equal level, the one that has been given least service (tokens computed) so
far; a tenant that was
   away starts level with the least served one present. Then first come, first served.

Example: tenant A queues 100 requests, then B queues one. B's is next but one at most: A was served,
B was not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from worker_svc.engine.sequence import Sequence

_TENANTS = 1024
"""Tenants remembered beside those that wait."""


class Waiting:
    """`push`, `remove` O(1) amortized; `peek` O(lanes), a lane being one (tenant, priority) that
    waits.
    """

    def __init__(self, ageing_s: float = 5.0) -> None:
        self._ageing_s = ageing_s
        self._preempted: deque[Sequence] = deque()
        self._lanes: dict[tuple[str, int], deque[Sequence]] = {}
        self._service: dict[str, float] = {}
        self._level = 0.0
        self._ids: dict[int, Sequence] = {}
        self.tokens = 0

    def push(self, sequence: Sequence) -> None:
        """A new request, behind its lane."""
        tenant = sequence.request.space.tenant
        # Nobody saves up service while away, and nobody pays for having been the only one.
        self._service[tenant] = max(self._service.get(tenant, 0.0), self._level)
        lane = self._lanes.setdefault((tenant, sequence.request.priority), deque())
        lane.append(sequence)
        self._add(sequence)

    def push_preempted(self, sequence: Sequence) -> None:
        """Back before all others; of several preempted ones the first admitted goes first."""
        at = sum(other.order < sequence.order for other in self._preempted)
        self._preempted.insert(at, sequence)
        self._add(sequence)

    def peek(self, now: float) -> Sequence | None:
        """The next one, left in place."""
        if self._preempted:
            return self._preempted[0]
        if not self._lanes:
            return None
        top = max(priority for _, priority in self._lanes)
        return min(
            (lane[0] for lane in self._lanes.values()), key=lambda head: self._rank(head, now, top)
        )

    def remove(self, sequence: Sequence) -> None:
        """Takes one out, wherever it stands; it must be waiting. O(its lane) unless it is a
        head.
        """
        del self._ids[sequence.request.request_id]
        self.tokens -= sequence.pending
        if sequence in self._preempted:
            self._preempted.remove(sequence)
            return
        tenant = sequence.request.space.tenant
        lane = self._lanes[tenant, sequence.request.priority]
        if lane[0] is sequence:
            lane.popleft()
        else:
            lane.remove(sequence)
        if not lane:
            del self._lanes[tenant, sequence.request.priority]
            self._settle()

    def charge(self, tenant: str, tokens: int) -> None:
        """Books service. O(tenants)."""
        self._service[tenant] = self._service.get(tenant, self._level) + tokens
        self._settle()

    def find(self, request_id: int) -> Sequence | None:
        return self._ids.get(request_id)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Sequence]:
        """Oldest first, whatever their rank."""
        return iter(self._ids.values())

    def _add(self, sequence: Sequence) -> None:
        self._ids[sequence.request.request_id] = sequence
        self.tokens += sequence.pending

    def _rank(self, head: Sequence, now: float, top: int) -> tuple[float, float, int]:
        priority = head.request.priority
        aged = priority + int((now - head.times.arrived) / self._ageing_s)
        return -min(top, aged), self._service[head.request.space.tenant], head.order

    def _settle(self) -> None:
        """The level rises with the least served tenant that waits; who is not above it need not be
        remembered.
        """
        present = {tenant for tenant, _ in self._lanes}
        if not present:
            self._service.clear()
            self._level = 0.0
            return
        self._level = max(self._level, min(self._service[tenant] for tenant in present))
        kept = {t: s for t, s in self._service.items() if t in present or s > self._level}
        self._service = dict(sorted(kept.items(), key=lambda item: -item[1])[:_TENANTS]) | {
            tenant: kept[tenant] for tenant in present
        }
