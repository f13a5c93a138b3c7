"""The ledger against a plain reference under every fault, and proof that the test would notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from cache_index.embedded import EmbeddedServer
from cache_index.functions import sources
from cache_index.ledger import Session
from tests.fakes.ledger_drill import LedgerDrill

STEPS = 1500
SEEDS = 4


def connect(server: EmbeddedServer) -> Redis:
    return Redis(unix_socket_path=str(server.directory / "redis.sock"), protocol=2)


def load(client: Redis, text: str) -> None:
    client.function_load(text, replace=True)


@pytest.fixture
def client(valkey_process: EmbeddedServer) -> Iterator[Redis]:
    client = connect(valkey_process)
    for source in sources():
        load(client, source)
    yield client
    load(client, sources()[1])
    client.flushall()
    client.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_sums_choice_and_weights_equal_the_reference_after_every_step(
    client: Redis, seed: int
) -> None:
    drill = LedgerDrill(client, seed)
    drill.run(STEPS)
    assert drill.happened["route"] > STEPS / 10


def test_every_fault_happened(client: Redis) -> None:
    drill = LedgerDrill(client, 99)
    for _ in range(30):
        drill.run(300)
        drill.faults = True
        missing = {
            "lost", "no reply", "twice", "open", "FENCED", "late FENCED", "closed", "expired",
            "crash", "leave", "idle clear", "roll back", "data lost",
        } - drill.happened.keys()  # fmt: skip
        if not missing:
            break
    assert not missing


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 108))
def test_sums_choice_and_weights_equal_the_reference_for_long(client: Redis, seed: int) -> None:
    LedgerDrill(client, seed).run(10_000)


MUTANTS = {
    "no incarnation check": ("if inc ~= incarnation then return 'FENCED' end", ""),
    "no duplicate check": ("if seq <= last then return 'DUP' end", ""),
    "no gap check": ("if seq > last + 1 then return 'GAP' end", ""),
    "settles an older generation": ("if g == gen and r_gen == gen then", "if g == gen then"),
    "opens on an older generation": ("if g ~= gen or gen == 0 then return false end", ""),
    "keeps the old row of a session": ("  redis.call('DEL', S)\nend", "end"),
    "takes the next position for a queue": ("math.min(unpack(queue, 1, slots))", "queue[1]"),
    "forgets tokens at settlement": ("r_tokens - tokens,", "r_tokens,"),
    "keeps the generation of a zeroed row": ("math.max(now_us(), gen + 1)", "gen"),
    "ignores the miss weight": ("(1 + kappa * w) * c", "(1 + kappa) * c"),
    "learns from another life": ("and struct.unpack('<d', row) == epoch then", "then"),
    "joins for a zombie": ("if known > epoch then return 'FENCED' end", ""),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_of_the_ledger_is_noticed(client: Redis, mutant: str) -> None:
    right, wrong = MUTANTS[mutant]
    source = sources()[1]
    assert right in source
    load(client, source.replace(right, wrong))
    with pytest.raises((AssertionError, ResponseError, ValueError, KeyError)):
        for seed in range(8):
            LedgerDrill(client, seed).run(STEPS)


def test_settlements_kept_over_an_opening_are_noticed(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = Session.open_call

    def keeps_pending(session: Session) -> object:
        kept = list(session._entries)
        call = opening(session)
        session._entries += kept
        return call

    monkeypatch.setattr(Session, "open_call", keeps_pending)
    with pytest.raises(AssertionError):
        for seed in range(8):
            LedgerDrill(client, seed).run(STEPS)
