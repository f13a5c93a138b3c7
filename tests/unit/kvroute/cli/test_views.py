"""Tables and small pure helpers of the commands."""

from __future__ import annotations

import click
import pytest
from rich.console import Console, RenderableType

from kvroute.cli.chat import Conversation
from kvroute.cli.explain_table import explain_table
from kvroute.cli.generate import prompt_input
from kvroute.cli.sampling import given
from kvroute.cli.table import bar, cluster_table, model_warnings
from kvroute.v1 import router_pb2
from tests.fakes.fake_router import cluster_state, explanation


def rendered(what: RenderableType) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def test_cluster_table_shows_links_and_caches() -> None:
    shown = rendered(cluster_table(cluster_state()))
    for part in ("demo", "worker-0", "up", "worker-1", "down", "5/100", "lbgr_plus"):
        assert part in shown


def test_cluster_table_says_what_is_wrong() -> None:
    model = router_pb2.ModelState(degraded=True)
    assert len(model_warnings(model)) == 3
    assert "no models" in rendered(cluster_table(router_pb2.ClusterStateResponse()))


@pytest.mark.parametrize(
    ("used", "total", "filled"), [(0, 0, 0), (0, 9, 0), (1, 999, 1), (998, 999, 7), (9, 9, 8)]
)
def test_bar_is_empty_or_full_only_at_the_ends(used: int, total: int, filled: int) -> None:
    assert bar(used, total).plain.count("█") == filled


def test_explain_table_marks_the_chosen_worker_and_sorts_by_cost() -> None:
    shown = rendered(explain_table(explanation()))
    assert "→ worker-0" in shown
    assert shown.index("→ worker-0") < shown.index("  worker-1")
    assert "no explanation" in rendered(explain_table(None))


def test_prompt_input_is_exactly_one_kind() -> None:
    assert prompt_input("a", False, "", False) == {"prompt": "a"}
    assert prompt_input("1 2,3", False, "", True) == {"token_ids": [1, 2, 3]}
    assert prompt_input("a", True, "", False) == {"messages": [{"role": "user", "content": "a"}]}
    for wrong in (("1", True, ""), ("1", False, "s"), ("x", False, "")):
        with pytest.raises(click.UsageError):
            prompt_input(*wrong, True)


def test_options_that_were_not_given_are_not_sent() -> None:
    options = {"max_tokens": 0, "seed": None, "stop": (), "policy": "", "temperature": 0.0}
    assert given(options) == {"max_tokens": 0, "temperature": 0.0}
    assert given({"stop": ("a",)}) == {"stop": ["a"]}


def test_conversation_takes_back_a_question_without_answer() -> None:
    talk = Conversation("sys")
    talk.user("a")
    talk.assistant("")
    assert [one["role"] for one in talk.messages] == ["system"]
    talk.user("a")
    talk.assistant("b")
    assert [one["role"] for one in talk.messages] == ["system", "user", "assistant"]
    talk.reset()
    assert talk.messages == [{"role": "system", "content": "sys"}]
