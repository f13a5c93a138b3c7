"""What the registry says of a worker, and its JSON form.

Registry value (written by `kvroute_v1_register` and `kvroute_v1_update`):
`{"slot":0,"epoch":"1733000000000000","worker":{"address":..,"identity":{..},"total_blocks":..,"adapters":[..],
"draining":false}}`. The epoch is a string because Lua's JSON writes 14 digits only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from cache_index.base import Epoch, WorkerId
from cache_index.identity import ModelIdentity


@dataclass(frozen=True, slots=True)
class WorkerDescription:
    """What a worker says of itself."""

    worker_id: WorkerId
    address: str
    identity: ModelIdentity
    total_blocks: int = 0
    adapters: tuple[str, ...] = ()
    draining: bool = False

    def to_json(self) -> str:
        """The `worker` part of the registry value."""
        value = asdict(self)
        del value["worker_id"]
        return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A registered worker as a router knows it. `slot` is its row in the ledger, `seq` its last
    applied event.
    """

    worker_id: WorkerId
    address: str
    epoch: Epoch
    slot: int
    seq: int
    identity: ModelIdentity
    total_blocks: int
    draining: bool
    adapters: tuple[str, ...]

    @classmethod
    def from_json(cls, worker_id: WorkerId, text: str | bytes, seq: int = 0) -> WorkerRecord:
        """Parses a registry value. Raises ValueError when it is malformed."""
        try:
            value = json.loads(text)
            worker = value["worker"]
            return cls(
                worker_id=worker_id,
                address=str(worker["address"]),
                epoch=Epoch(int(value["epoch"])),
                slot=int(value["slot"]),
                seq=seq,
                identity=ModelIdentity.from_fields(worker["identity"]),
                total_blocks=int(worker["total_blocks"]),
                draining=bool(worker["draining"]),
                adapters=tuple(str(name) for name in worker["adapters"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"registry value of {worker_id} is malformed: {error!r}") from error
