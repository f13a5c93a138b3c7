"""Names of all Redis keys. Those of one served model share the hash tag `{M}`, hence one Cluster
slot.

M covers the served name and the key scheme, and nothing else: block size, revision, tokenizer and
the like are compared when a worker registers. Were they part of M, a worker that differs would land
in a keyspace of its own, and a fleet would show silent zero hits instead of an error. Two key
schemes of one model live side by side while a deployment rolls.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from cache_index import keys
from cache_index.base import RouterId, WorkerId

MODELS = "kvroute:models"
"""Hash served name -> M of the newest registration: how routers find models. Not in the models'
slots.
"""


def model_tag(served_name: str, scheme: str = keys.SCHEME) -> str:
    """M: the first 16 hex digits of sha256 over the length-framed served name and key scheme."""
    digest = hashlib.sha256()
    for part in (served_name.encode(), scheme.encode()):
        digest.update(struct.pack("<I", len(part)))
        digest.update(part)
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Names:
    """All keys of one model."""

    tag: str

    @classmethod
    def of(cls, served_name: str, scheme: str = keys.SCHEME) -> Names:
        return cls(model_tag(served_name, scheme))

    @property
    def prefix(self) -> str:
        return f"kvroute:{{{self.tag}}}:"

    # -- index

    @property
    def generation(self) -> str:
        """String, random, set by whoever finds none: another value, or none, means that data was
        lost.
        """
        return self.prefix + "gen"

    @property
    def registry(self) -> str:
        """Hash worker id -> JSON (see `fleet.py`)."""
        return self.prefix + "reg"

    @property
    def events(self) -> str:
        """Stream of block events (see `events.py`)."""
        return self.prefix + "ev"

    def meta(self, worker: WorkerId) -> str:
        """Hash e(poch), s(equence), b(eats), n and x (digest); exists while the worker's lease
        runs.
        """
        return f"{self.prefix}w:{worker}:m"

    def blocks(self, worker: WorkerId) -> str:
        """Set of 8-byte keys: the worker's exact cache content as of its sequence number."""
        return f"{self.prefix}w:{worker}:b"

    # -- ledger (layouts: lua/ledger_rows.lua)

    @property
    def queues(self) -> str:
        return self.prefix + "Q"

    @property
    def rows(self) -> str:
        return self.prefix + "R"

    @property
    def weights(self) -> str:
        return self.prefix + "T"

    @property
    def covariances(self) -> str:
        return self.prefix + "P"

    @property
    def sessions(self) -> str:
        return self.prefix + "Z"

    @property
    def idle_beats(self) -> str:
        return self.prefix + "B"

    def session(self, router: RouterId) -> str:
        return f"{self.prefix}s:{router}"
