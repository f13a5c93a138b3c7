"""Real Redis topologies for tests: a Cluster of primaries, and a primary with a replica under
Sentinel.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from cache_index.commands import execute
from cache_index.embedded import find_server, leashed

SLOTS = 16384
SERVICE = "main"
START_S = 20.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@dataclass(slots=True)
class Node:
    """One server process."""

    port: int
    process: asyncio.subprocess.Process
    client: Redis = field(init=False)

    def __post_init__(self) -> None:
        self.client = Redis(host="127.0.0.1", port=self.port, protocol=2)

    async def close(self) -> None:
        await self.client.aclose()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def answers(self) -> None:
        async with asyncio.timeout(START_S):
            while True:
                with contextlib.suppress(RedisError, OSError):
                    await execute(self.client, "PING")
                    return
                await asyncio.sleep(0.01)


async def start_node(port: int, folder: Path, *options: str) -> Node:
    process = await asyncio.create_subprocess_exec(
        *leashed(find_server()),
        *options,
        *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)),
        *(() if "--sentinel" in options else ("--save", "", "--appendonly", "no")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    node = Node(port, process)
    await node.answers()
    return node


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: Sequence[Node]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    async def owner(self, slot: int) -> Node:
        """The node that serves a slot."""
        for node in self.nodes:
            for start, end, primary, *_ in await execute(node.client, "CLUSTER", "SLOTS"):
                if start <= slot <= end and primary[1] == node.port:
                    return node
        raise AssertionError(f"nobody serves slot {slot}")


@contextlib.asynccontextmanager
async def cluster(folder: Path, primaries: int = 3) -> AsyncIterator[Cluster]:
    """A Cluster that serves all slots; each primary an equal share."""
    async with contextlib.AsyncExitStack() as stack:
        ports = free_ports(2 * primaries)
        nodes = []
        for number, port in enumerate(ports[:primaries]):
            place = folder / str(port)
            place.mkdir()
            bus = ports[primaries + number]
            options = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
            node = await start_node(port, place, *options)
            stack.push_async_callback(node.close)
            nodes.append(node)
        share = SLOTS // primaries
        for number, node in enumerate(nodes):
            last = SLOTS - 1 if number == primaries - 1 else (number + 1) * share - 1
            await execute(node.client, "CLUSTER", "ADDSLOTSRANGE", number * share, last)
            meet = ("127.0.0.1", nodes[0].port, ports[primaries])
            await execute(node.client, "CLUSTER", "MEET", *meet)
        async with asyncio.timeout(START_S):
            for node in nodes:
                while b"cluster_state:ok" not in await _raw_info(node):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                while await _known(node) < primaries:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        yield Cluster(nodes)


async def _raw_info(node: Node) -> bytes:
    info = await execute(node.client, "CLUSTER", "INFO")
    return repr(info).encode().replace(b"': '", b":") if isinstance(info, dict) else bytes(info)


async def _known(node: Node) -> int:
    return len(await execute(node.client, "CLUSTER", "SLOTS"))


@dataclass(frozen=True, slots=True)
class Supervised:
    """A primary, its replica, and one Sentinel that promotes the replica within about a second."""

    primary: Node
    replica: Node
    sentinel: Node

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{SERVICE}"

    async def replica_is_synced(self) -> bool:
        info = await execute(self.replica.client, "INFO", "replication")
        return bool(dict(info).get("master_link_status") == "up")

    async def make_replica_stale(self) -> None:
        """From now on it misses all writes, and does not know that it does."""
        await execute(self.replica.client, "REPLICAOF", "127.0.0.1", 1)


@contextlib.asynccontextmanager
async def supervised(folder: Path) -> AsyncIterator[Supervised]:
    async with contextlib.AsyncExitStack() as stack:
        first, second, third = free_ports(3)
        places = [folder / name for name in ("primary", "replica", "sentinel")]
        for place in places:
            place.mkdir()
        primary = await start_node(first, places[0])
        stack.push_async_callback(primary.close)
        replica = await start_node(second, places[1], "--replicaof", "127.0.0.1", str(first))
        stack.push_async_callback(replica.close)
        config = places[2] / "sentinel.conf"
        config.write_text(
            f"sentinel monitor {SERVICE} 127.0.0.1 {first} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} 300\n"
            f"sentinel failover-timeout {SERVICE} 2000\n"
        )
        sentinel = await start_node(third, places[2], str(config), "--sentinel")
        stack.push_async_callback(sentinel.close)
        found = Supervised(primary, replica, sentinel)
        async with asyncio.timeout(START_S):
            while not await found.replica_is_synced():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            while not await execute(sentinel.client, "SENTINEL", "REPLICAS", SERVICE):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield found
