"""Why a request went where it went: built along the way, sent with the response, kept in a bounded
ring.
"""

from __future__ import annotations

from collections import OrderedDict

from kvroute.v1 import router_pb2
from router_svc.policy.base import Decision, Price


def candidate_cost(price: Price) -> router_pb2.CandidateCost:
    candidate = price.candidate
    return router_pb2.CandidateCost(
        worker_id=candidate.worker_id,
        hit=candidate.hit,
        miss=price.miss,
        queue_ms=candidate.queue_ms,
        prefill_ms=price.prefill_ms,
        decode_ms=price.decode_ms,
        cost=price.cost,
        miss_weight=price.miss_weight,
        outstanding=candidate.outstanding,
    )


def record_decision(record: router_pb2.Explain, decision: Decision, chosen: Price) -> None:
    """Writes a decision into `record`; `chosen` is what the ledger settled on, which may differ
    from the policy's.
    """
    del record.candidates[:]
    record.candidates.extend(candidate_cost(price) for price in decision.prices)
    record.worker_id = chosen.candidate.worker_id
    record.chosen_hit = chosen.candidate.hit
    record.predicted_ms = chosen.prefill_ms
    record.kappa = decision.kappa
    record.reason = decision.reason
    if chosen is not decision.chosen:
        tie = chosen.cost == decision.chosen.cost
        record.reason += "; drawn among equals" if tie else "; the ledger had fresher queues"


class ExplainRing:
    """The last `capacity` records by request id."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._records: OrderedDict[str, router_pb2.Explain] = OrderedDict()

    def keep(self, record: router_pb2.Explain) -> None:
        self._records[record.request_id] = record
        self._records.move_to_end(record.request_id)
        if len(self._records) > self._capacity:
            self._records.popitem(last=False)

    def find(self, request_id: str) -> router_pb2.Explain | None:
        return self._records.get(request_id)
