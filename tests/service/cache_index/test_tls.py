"""rediss:// verifies the server. The wheel's server has no TLS, so a small proxy ends it here."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cache_index.base import RouterId
from cache_index.commands import close
from cache_index.costs import Candidate
from cache_index.embedded import EmbeddedServer
from cache_index.ledger_client import LedgerClient
from cache_index.redis_url import check_server, client_from_url
from cache_index.registration import Registration
from kvroute.errors import StartError
from tests.fakes.fleet import MODEL, eventually, stored, worker

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl for a key")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate and its key in one file."""
    folder = tmp_path_factory.mktemp("tls")
    key, found = folder / "key.pem", folder / "cert.pem"
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run([*make, "-keyout", key, "-out", found], check=True, capture_output=True)
    found.write_text(found.read_text() + key.read_text())
    return found


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def port(
    valkey: str, valkey_process: EmbeddedServer, certificate: Path
) -> AsyncIterator[int]:
    """Where TLS is ended in front of the shared server."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = valkey_process.directory / "redis.sock"
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_worker_and_ledger_work_over_tls(port: int, certificate: Path) -> None:
    url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate}"
    a = Registration(url, worker=worker("a"), lease_s=1.0, flush_s=0.005)
    await a.start()
    a.note(stored(1, 2))
    await eventually(lambda: a.synced)
    ledger = LedgerClient(url, MODEL, RouterId("r"))
    await ledger.start()
    booking = await ledger.book(100, [Candidate(a.slot, 0)])
    assert booking.epoch == a.epoch
    await ledger.stop()
    await a.withdraw()
    await a.stop()


async def test_server_with_an_unknown_certificate_is_refused(port: int) -> None:
    url = f"rediss://127.0.0.1:{port}"
    client = client_from_url(url)
    with pytest.raises(StartError, match="does not answer"):
        await check_server(client, url)
    await close(client)
