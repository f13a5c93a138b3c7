"""Generators give what they say: counts, sharing, orders, the same for the same seed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from loadtest.workloads.base import Call, Workload, summarize
from loadtest.workloads.chat import Chat, chat
from loadtest.workloads.documents import Documents, documents
from loadtest.workloads.gsp import Gsp, gsp
from loadtest.workloads.scans import Burst, Cyclic, Drift, burst, cyclic, drift

SMALL = Gsp(groups=10, prompts=8, lengths=(64, 128, 256))
MADE = {
    "gsp": lambda seed: gsp(SMALL, seed),
    "chat": lambda seed: chat(Chat(sessions=24), seed),
    "chat_open": lambda seed: chat(Chat(sessions=24, closed=False), seed),
    "documents": lambda seed: documents(Documents(documents=12), seed),
    "drift": lambda seed: drift(Drift(calls=300), seed),
    "burst": lambda seed: burst(Burst(calls=600), seed),
    "cyclic": lambda seed: cyclic(Cyclic(documents=5, rounds=3), seed),
}


def groups(workload: Workload) -> list[int]:
    """The first block of every call, which names its group."""
    return [call.blocks[0] for call in workload.flat()]


@pytest.mark.parametrize("name", MADE)
def test_streams_repeat_differ_by_seed_and_are_ordered(name: str) -> None:
    workload = MADE[name](1)
    calls = list(workload.calls())
    assert calls == list(workload.calls()), "the same again"
    if name != "cyclic":
        assert calls != list(MADE[name](2).calls())
    assert all(a.at <= b.at for a, b in pairwise(calls))
    flat = list(workload.flat())
    assert all(a.at <= b.at for a, b in pairwise(flat))
    assert sorted(call.number for call in flat) == list(range(len(flat)))


@pytest.mark.parametrize("name", MADE)
def test_chains_are_consistent(name: str) -> None:
    """A block always has the same blocks before it: equal id, equal prefix."""
    parents: dict[int, int] = {}
    workload = MADE[name](1)
    for call in workload.flat():
        assert call.prompt_blocks == call.prompt_tokens // workload.block_size
        assert len(call.blocks) <= (call.prompt_tokens + call.output_tokens) // workload.block_size
        for before, block in zip((-1, *call.blocks), call.blocks, strict=False):
            assert parents.setdefault(block, before) == before


def test_gsp_shares_half_of_every_prompt() -> None:
    workload = gsp(SMALL, 1)
    summary = summarize(workload.flat(), 16)
    assert summary.calls == 80
    shared = sum((64, 128, 256)[g % 3] // 2 // 16 for g in range(10))
    assert summary.reused_blocks == shared
    # Every prompt but the first of its group hits half of itself.
    assert summary.endless_hit_rate == pytest.approx(0.5 * 7 / 8)


def test_full_gsp_has_the_studys_counts() -> None:
    summary = summarize(gsp(Gsp(), 1).flat(), 16)
    assert (summary.calls, summary.distinct_blocks, summary.reused_blocks) == (4096, 412896, 12512)
    assert summary.endless_hit_rate == pytest.approx(0.484375)
    assert summary.prompt_tokens / summary.calls == pytest.approx(3128.0)


def test_gsp_orders() -> None:
    turn = groups(gsp(Gsp(groups=4, prompts=3, lengths=(64,), order="round_robin"), 1))
    assert turn[:4] == turn[4:8] == turn[8:]
    assert len(set(turn[:4])) == 4
    grouped = groups(gsp(Gsp(groups=4, prompts=3, lengths=(64,), order="grouped"), 1))
    assert [len(set(grouped[i : i + 3])) for i in (0, 3, 6, 9)] == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="round_robin"):
        gsp(Gsp(order="sorted"))


def test_gsp_zipf_prefers_few_groups() -> None:
    counts = Counter(groups(gsp(Gsp(groups=50, prompts=20, lengths=(64,), zipf=1.2), 1)))
    assert sum(counts.values()) == 1000
    assert counts.most_common(1)[0][1] > 150


def test_poisson_rate_is_kept() -> None:
    last = list(gsp(Gsp(groups=100, prompts=20, lengths=(64,), rate=10.0), 1).calls())[-1]
    assert last.at == pytest.approx(200.0, rel=0.1)


def turns(call: Call) -> list[Call]:
    found = [call]
    while found[-1].next is not None:
        found.append(found[-1].next)
    return found


def test_chat_history_grows_and_successors_wait() -> None:
    sessions = [turns(call) for call in chat(Chat(sessions=16), 3).calls()]
    assert Counter(len(session) for session in sessions) == {2: 4, 4: 4, 6: 4, 8: 4}
    systems = {session[0].blocks[:32] for session in sessions}
    assert len(systems) <= 4
    for session in sessions:
        for before, after in pairwise(session):
            assert after.blocks[: len(before.blocks)] == before.blocks
            assert after.prompt_tokens > before.prompt_tokens + before.output_tokens
            assert after.think_s > 0
            assert before.dead_from is None
        assert session[-1].dead_from == 32


def test_open_chat_waits_for_nobody() -> None:
    calls = list(chat(Chat(sessions=8, closed=False), 3).calls())
    assert len(calls) == 2 + 4 + 6 + 8 + 2 + 4 + 6 + 8
    assert all(call.next is None for call in calls)


def test_drift_moves_and_scans() -> None:
    workload = drift(Drift(calls=2000), 1)
    calls = list(workload.flat())
    scans = sum(call.dead_from == 0 for call in calls)
    assert scans == pytest.approx(600, rel=0.15)
    early = {call.blocks[0] for call in calls[:300] if call.dead_from}
    late = {call.blocks[0] for call in calls[-300:] if call.dead_from}
    assert not early & late


def test_burst_has_one_hot_prefix_at_a_time() -> None:
    heads = groups(burst(Burst(calls=512), 1))
    assert Counter(heads[:96]).most_common(1)[0][1] > 70
    assert Counter(heads[96:256]).most_common(1)[0][1] < 20


def test_cyclic_repeats_in_order() -> None:
    heads = groups(cyclic(Cyclic(documents=5, rounds=3)))
    assert heads == heads[:5] * 3
