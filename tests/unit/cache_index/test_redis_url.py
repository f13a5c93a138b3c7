from __future__ import annotations

from typing import Any, cast

import pytest
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from cache_index.redis_url import client_from_url, masked
from kvroute.errors import StartError


def test_sentinel_url_names_hosts_service_database_and_both_passwords() -> None:
    url = "rediss+sentinel://me:p%40ss@a:1,b:2/main/3?sentinel_password=x&ssl_check_hostname=no"
    pool = cast(Any, client_from_url(url)).connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    assert pool.service_name == "main"
    options = pool.connection_kwargs
    assert (options["username"], options["password"], options["db"]) == ("me", "p@ss", 3)
    assert options["ssl_check_hostname"] is False
    sentinels = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"]) for one in sentinels] == [("a", 1), ("b", 2)]
    assert all(one["password"] == "x" for one in sentinels)


def test_cluster_url_names_its_first_nodes() -> None:
    client = client_from_url("redis+cluster://a:1,b:2")
    assert isinstance(client, RedisCluster)
    assert set(client.nodes_manager.startup_nodes) == {"a:1", "b:2"}


def test_replies_are_bytes_and_nothing_is_retried_by_the_client() -> None:
    options = cast(Any, client_from_url("redis://a:1", timeout_s=0.5)).connection_pool
    assert not options.connection_kwargs.get("decode_responses")
    assert options.connection_kwargs["retry"].get_retries() == 0
    assert options.connection_kwargs["socket_timeout"] == 0.5


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("redis+sentinel://a:1", "service's name is missing"),
        ("redis+sentinel://a/main", "'a' is not HOST:PORT"),
        ("redis+cluster://a:1,b", "'b' is not HOST:PORT"),
        ("redis+magic://a:1", "no known scheme"),
        ("a:6379", "no known scheme"),
        ("redis+cluster://a:1?nonsense=1", "is wrong"),
    ],
)
def test_wrong_url_says_what_is_wrong(url: str, what: str) -> None:
    with pytest.raises(StartError, match=what):
        client_from_url(url)


def test_all_passwords_are_masked() -> None:
    url = "redis+sentinel://me:one@a:1/main?sentinel_password=two&ssl_password=three"
    assert not {"one", "two", "three"} & set(
        masked(url).replace("=", ":").replace("&", ":").split(":")
    )
    assert masked("unix:///s?password=two&db=1") == "unix:///s?password=***&db=1"
