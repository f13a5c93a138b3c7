"""A fleet on this machine: control plane, workers, router; started together, ended in order.

    async with LocalCluster(plan, say=print) as cluster:
        ...  # cluster.address serves kvroute.v1.Router

Start: the control plane (an embedded Valkey unless a URL is given), then router and workers side by
side, since loading weights takes longest. Done when the router is connected to every worker and
knows its cache. End: router, then workers, then the control plane, so that nobody loses what it
still needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from kvroute.errors import KvrouteError, StartError
from kvroute.local.children import PROGRAM, Child

if TYPE_CHECKING:
    from kvroute.v1.router_pb2 import ClusterStateResponse

POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start. `worker_args` and `router_args` are further command-line arguments;
    `worker_program` is what takes the place of `kvroute` for workers.
    """

    model: str
    served_name: str
    workers: int
    listen: str
    redis_url: str
    folder: Path
    ready_timeout_s: float
    worker_args: tuple[str, ...] = ()
    router_args: tuple[str, ...] = ()
    worker_program: tuple[str, ...] = PROGRAM


class LocalCluster:
    """The running fleet. Raises StartError on entry when a part does not come up."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.address = ""
        self.router: Child | None = None
        self.workers: list[Child] = []
        self._say = say
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> LocalCluster:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def failed(self) -> str:
        """Returns, when the fleet can no longer serve, why: the router or all workers ended."""
        assert self.router is not None
        router = asyncio.create_task(self.router.ended())
        workers = asyncio.create_task(self._workers_ended())
        try:
            await asyncio.wait({router, workers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            router.cancel()
            workers.cancel()
        if not self.router.running:
            return f"the router ended: {self.router.reason()}"
        return f"all workers ended: {self.workers[0].reason()}"

    async def _workers_ended(self) -> None:
        for worker in self.workers:
            await worker.ended()

    async def _start(self) -> None:
        plan = self.plan
        plan.folder.mkdir(parents=True, exist_ok=True)
        url = plan.redis_url or await self._embedded()
        # A URL may hold a password, and command lines are for everybody to see.
        env = {"KVROUTE_WORKER_REDIS_URL": url, "KVROUTE_ROUTER_REDIS_URL": url}
        model = ["--model", plan.model]
        if plan.served_name:
            model += ["--served-name", plan.served_name]
        for number in range(plan.workers):
            name = f"worker-{number}"
            own = ["--worker-id", name, "--listen", "127.0.0.1:0"]
            args = ["worker", *model, *own, *plan.worker_args]
            self.workers.append(Child(name, args, plan.folder, plan.worker_program, env))
        args = ["router", "--listen", plan.listen, *plan.router_args]
        self.router = Child("router", args, plan.folder, env=env)
        self._stack.push_async_callback(self._stop_workers)
        self._stack.push_async_callback(self.router.stop)
        self._say(f"starting the router and {plan.workers} workers, logs in {plan.folder}")
        for child in (self.router, *self.workers):
            await child.start()
        await self._all_ready()

    async def _embedded(self) -> str:
        from cache_index.embedded import EmbeddedServer

        self._say("starting the embedded Valkey")
        server = await self._stack.enter_async_context(EmbeddedServer())
        return server.url

    async def _stop_workers(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self.workers))

    async def _all_ready(self) -> None:
        assert self.router is not None
        try:
            async with asyncio.TaskGroup() as group:
                router = group.create_task(self.router.ready(self.plan.ready_timeout_s))
                for worker in self.workers:
                    group.create_task(self._ready(worker))
        except ExceptionGroup as several:
            # One reason is enough for the one line; the others are mostly the same.
            raise several.exceptions[0] from None
        self.address = router.result().address
        await self._all_connected()

    async def _ready(self, worker: Child) -> None:
        await worker.ready(self.plan.ready_timeout_s)
        self._say(f"{worker.name} is ready")

    async def _all_connected(self) -> None:
        """Waits until the router reaches every worker and its view is complete."""
        from kvroute.client import Client

        last = "the router knows no worker yet"
        try:
            async with asyncio.timeout(self.plan.ready_timeout_s), Client(self.address) as client:
                while True:
                    try:
                        if is_serving(await client.cluster_state(), self.plan.workers):
                            return
                    except KvrouteError as error:
                        last = str(error)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise StartError(
                f"the fleet was not ready after {self.plan.ready_timeout_s:g} s: {last}; "
                f"the logs are in {self.plan.folder}"
            ) from None


def is_serving(state: ClusterStateResponse, workers: int) -> bool:
    """Whether the router is connected to `workers` workers of one model and knows their caches."""
    return any(
        model.view_complete and sum(one.connected for one in model.workers) >= workers
        for model in state.models
    )
