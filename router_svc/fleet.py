"""All workers of one served model as this router sees them: registry, index view, ledger, and a
link to each.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

import structlog

from cache_index.base import IndexKey, RouterId, WorkerId
from cache_index.costs import LedgerState
from cache_index.fleet import WorkerRecord
from cache_index.follower import Follower
from cache_index.identity import ModelIdentity
from cache_index.keys import check_vector
from cache_index.ledger_client import LedgerClient
from kvroute.errors import Mismatch, Unavailable
from router_svc.in_flight import InFlight
from router_svc.link import Link
from router_svc.policy.arrivals import ArrivalCounter
from router_svc.policy.base import Candidate, Costs, Fleet
from router_svc.settings import RouterSettings


class ModelFleet:
    """Keeps a link to every registered worker, and turns view and ledger into what a policy is
    given.
    """

    def __init__(self, served_name: str, settings: RouterSettings, router_id: str) -> None:
        self.served_name = served_name
        self.links: dict[WorkerId, Link] = {}
        self.follower = Follower(
            settings.redis_url,
            served_name,
            lease_s=settings.lease_s,
            audit_s=settings.audit_s,
            on_change=self._sync_links,
        )
        self.ledger = LedgerClient(
            settings.redis_url,
            served_name,
            RouterId(router_id),
            session_ttl_s=settings.session_ttl_s,
        )
        self.arrivals = ArrivalCounter()
        self.in_flight = InFlight()
        self.refused: Mismatch | None = None
        self._router_id = router_id
        self._silence_s = settings.silence_s
        self._secret = settings.key_secret.encode()
        self._changed = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger().bind(model=served_name)

    async def start(self) -> None:
        await self.follower.start()
        await self.ledger.start()

    async def stop(self) -> None:
        """Closes every link (open requests on it fail with `Unavailable`), the view and the ledger
        session.
        """
        links, self.links = list(self.links.values()), {}
        await asyncio.gather(*(link.stop() for link in links), *self._closing)
        await self.ledger.stop()
        await self.follower.stop()

    @property
    def identity(self) -> ModelIdentity:
        """What all workers of the model share.

        Raises:
            Unavailable: no worker is registered.
            Mismatch: this router builds other block keys than the workers.
        """
        for record in self.follower.workers.values():
            self._check_keys(record.identity)
            return record.identity
        raise Unavailable(f"no worker serves {self.served_name} right now")

    def usable(self) -> list[Link]:
        """Links that take requests now."""
        workers = self.follower.workers
        return [
            link
            for link in self.links.values()
            if link.connected and not link.draining and not workers[link.worker_id].draining
        ]

    async def wait_settled(self) -> None:
        """Until the view is complete and every known worker was reached or found unreachable."""
        await self.follower.ready.wait()
        await asyncio.gather(*(link.settled.wait() for link in list(self.links.values())))

    async def wait_usable(self, timeout_s: float) -> None:
        """Until a worker takes requests.

        Raises:
            Unavailable: none did within `timeout_s`.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.usable():
                    self._changed.clear()
                    await self._changed.wait()
        if not self.usable():
            known = len(self.links)
            raise Unavailable(
                f"no worker of {self.served_name} can be reached ({known} registered)"
                if known
                else f"no worker serves {self.served_name} right now",
                retry_after_ms=1000,
            )

    def match(self, keys: Sequence[IndexKey]) -> Mapping[WorkerId, int]:
        """Leading blocks of `keys` that each worker holds or computes right now; workers with none
        are absent.
        """
        hits = dict(self.follower.view.match(keys))
        for worker_id, blocks in self.in_flight.match(keys).items():
            hits[worker_id] = max(blocks, hits.get(worker_id, 0))
        return hits

    def candidates(
        self,
        hits: Mapping[WorkerId, int],
        load: LedgerState,
        *,
        prompt_tokens: int,
        block_size: int,
        exclude: Collection[WorkerId] = (),
    ) -> Fleet | None:
        """The fleet as a policy sees it, or None when no usable worker is left."""
        found = []
        for link in self.usable():
            if link.worker_id in exclude:
                continue
            slot = self.follower.workers[link.worker_id].slot
            row = load.slots.get(slot)
            hit = min(hits.get(link.worker_id, 0) * block_size, prompt_tokens - 1)
            found.append(
                Candidate(
                    worker_id=link.worker_id,
                    slot=slot,
                    hit=hit,
                    queue_ms=row.queue_us / 1000.0 if row else 0.0,
                    outstanding=row.outstanding if row else 0,
                    costs=row.costs if row else Costs(),
                    # The ledger knows how much prefill is booked, not of how many requests.
                    waiting=row.outstanding if row and row.queue_us > 0 else 0,
                    queued_tokens=row.tokens if row else 0,
                    active_blocks=row.blocks if row else 0,
                )
            )
        return Fleet(found, load.mean_output) if found else None

    def _sync_links(self) -> None:
        """One link per registered worker at its registered address."""
        workers = self.follower.workers
        for worker_id, link in list(self.links.items()):
            record = workers.get(worker_id)
            if record is None or record.address != link.address:
                self._close(self.links.pop(worker_id))
        for worker_id, record in workers.items():
            if worker_id not in self.links:
                self._connect(record)
        self._changed.set()

    def _connect(self, record: WorkerRecord) -> None:
        try:
            self._check_keys(record.identity)
        except Mismatch as error:
            if self.refused is None:
                self._log.error("worker refused", worker=record.worker_id, reason=str(error))
            self.refused = error
            return
        link = Link(record, self._router_id, self._changed.set, self._silence_s)
        self.links[record.worker_id] = link
        link.start()

    def _close(self, link: Link) -> None:
        task = asyncio.create_task(link.stop(), name=f"close-{link.worker_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _check_keys(self, identity: ModelIdentity) -> None:
        ours = check_vector(self._secret)
        if identity.key_check != ours:
            raise Mismatch(
                f"workers of {self.served_name} build other block keys ({identity.key_scheme}) than"
                " this router: give router and workers the same key_secret and version",
                field="key_check",
                value=identity.key_check,
                limit=ours,
            )
