"""The names of all models that are served: found by routers, forgotten with their last worker.

`MODELS` lies in one Cluster slot of its own, so that nothing there is atomic with a model's own
keys. Workers say their name when they register and again, if it is missing, with every beat;
whoever sees a model without workers takes its name away.
"""

from __future__ import annotations

from redis.asyncio.cluster import RedisCluster

from cache_index import functions
from cache_index.commands import RedisClient, execute, hash_all
from cache_index.index_calls import IndexCalls
from cache_index.names import MODELS, Names


async def discover_models(client: RedisClient) -> dict[str, str]:
    """Served name -> M of every model with a worker, or that had one a moment ago."""
    found = await hash_all(client, MODELS)
    return {name.decode(): tag.decode() for name, tag in found.items()}


async def forget_if_empty(client: RedisClient, names: Names, served_name: str) -> bool:
    """Forgets the model if no worker is registered; whether it did. Idempotent.

    On one server in one step. In a Cluster a worker may register in between; it says the name
    again with its next beat.
    """
    one_server = not isinstance(client, RedisCluster)
    if not one_server and await execute(client, "EXISTS", names.registry):
        return False
    call = IndexCalls(names).forget(served_name, one_server=one_server)
    return bool(await functions.call(client, call))
