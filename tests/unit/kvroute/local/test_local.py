"""Checks before a start, ready files, last words, readiness."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kvroute.errors import SettingsError, StartError
from kvroute.local.children import Ready, last_words, read_ready
from kvroute.local.cluster import is_serving
from kvroute.local.preflight import (
    require_free_port,
    require_model,
    require_redis,
    split_address,
)
from kvroute.v1 import router_pb2
from tests.fakes.fake_router import cluster_state


@pytest.mark.parametrize("wrong", ["", "5", ":5", "host:", "host:x", "host:65536", "host:-1"])
def test_address_must_be_host_and_port(wrong: str) -> None:
    with pytest.raises(SettingsError, match="it must be HOST:PORT"):
        split_address(wrong)


def test_port_in_use_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"{address} is in use: .* another --listen"):
            require_free_port(address)
    require_free_port(address)
    require_free_port("127.0.0.1:0")


def test_address_of_another_machine_cannot_be_used() -> None:
    with pytest.raises(StartError, match="cannot be used"):
        require_free_port("192.0.2.1:50050")


def test_missing_model_directory_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="there is no model directory .* leave --model out"):
        require_model(str(tmp_path / "none"))
    with pytest.raises(StartError, match=r"holds no model: there is no config.json"):
        require_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    require_model(str(tmp_path))
    require_model("Qwen/Qwen3-0.6B")
    require_model("gpt2")


async def test_no_redis_says_what_to_do_and_hides_the_password() -> None:
    with pytest.raises(StartError) as caught:
        await require_redis("redis://me:hunter2@127.0.0.1:1/0")
    text = str(caught.value)
    assert "does not answer" in text
    assert "leave --redis-url out" in text
    assert "hunter2" not in text


def test_ready_file_is_read_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "ready"
    assert read_ready(file) is None
    file.write_text("")
    assert read_ready(file) is None
    file.write_text('{"address": "h:1", "pid": 3}')
    assert read_ready(file) == Ready("h:1", 3)


def test_last_words_prefer_the_error_line() -> None:
    assert last_words("a\nkvroute: no model\nb\n") == "no model"
    assert last_words("a\nValueError: x\n\n") == "ValueError: x"
    assert last_words("") == ""


def test_fleet_serves_when_every_worker_is_connected_and_known() -> None:
    state = cluster_state()
    assert is_serving(state, 1)
    assert not is_serving(state, 2)
    for worker in state.models[0].workers:
        worker.connected = True
    assert is_serving(state, 2)
    state.models[0].view_complete = False
    assert not is_serving(state, 2)
    assert not is_serving(router_pb2.ClusterStateResponse(), 1)
