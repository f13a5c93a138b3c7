"""Trace readers: what they read, and what they say of files that are broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from loadtest.workloads.base import summarize
from loadtest.workloads.mooncake import TraceOptions, mooncake
from loadtest.workloads.recorded import Recorded, Recorder
from loadtest.workloads.tokens import text, token_ids
from loadtest.workloads.trace_lines import Skipped, TraceError
from loadtest.workloads.traces import find, open_trace, trace_folder


def line(at: int, length: int, ids: list[int], output: int = 3) -> str:
    fields = {"timestamp": at, "input_length": length, "output_length": output, "hash_ids": ids}
    return json.dumps(fields) + "\n"


def write(folder: Path, text_: str, name: str = "trace.jsonl") -> Path:
    path = folder / name
    path.write_text(text_)
    return path


def test_mooncake_blocks_and_times(tmp_path: Path) -> None:
    path = write(
        tmp_path, line(0, 1100, [7, 8, 9]) + line(3000, 1600, [7, 8, 10, 11]) + line(6000, 5, [3])
    )
    workload = open_trace(path)
    first, second, third = workload.calls()
    assert workload.block_size == 512
    assert (first.prompt_tokens, first.prompt_blocks, first.output_tokens) == (1100, 2, 3)
    assert second.blocks[:2] == first.blocks and second.prompt_blocks == 3
    assert third.blocks == ()
    assert 0.0 <= first.at < 3.0 <= second.at < 6.0 <= third.at < 9.0


def test_same_id_under_another_parent_is_another_prefix(tmp_path: Path) -> None:
    path = write(tmp_path, line(0, 1024, [1, 5]) + line(0, 1024, [2, 5]))
    first, second = mooncake(path).calls()
    assert first.blocks[1] != second.blocks[1]


def test_stretch_limit_and_longest_prompt(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(line(3000 * i, 600 * (i + 1), [i]) for i in range(6)))
    calls = list(mooncake(path, TraceOptions(stretch=0.5, limit=3, max_prompt=1800)).calls())
    assert [call.prompt_tokens for call in calls] == [600, 1200, 1800]
    assert 3.0 <= calls[2].at < 4.5


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{not json\n", "Expecting property name"),
        ('{"timestamp": 1}\n', "'input_length' is missing|'hash_ids' is missing"),
        (line(0, 0, [1]), "input_length is 0, less than 1"),
        (line(-5, 600, [1]), "timestamp is -5"),
        ("[1, 2]\n", "not a JSON object"),
    ],
)
def test_broken_lines_name_file_and_line(tmp_path: Path, broken: str, said: str) -> None:
    path = write(tmp_path, line(0, 600, [1]) + broken + line(3000, 600, [1]))
    with pytest.raises(TraceError, match=said) as caught:
        list(mooncake(path).calls())
    assert f"{path}:2:" in str(caught.value)
    skipped = Skipped()
    lenient = TraceOptions(lenient=True)
    assert len(list(mooncake(path, lenient, skipped=skipped).calls())) == 2
    assert skipped.count == 1 and f"{path}:2:" in skipped.messages[0]


def test_times_that_go_back_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, line(5000, 600, [1]) + line(4000, 600, [1]))
    with pytest.raises(TraceError, match="time goes back"):
        list(mooncake(path).calls())


def test_empty_missing_and_unknown_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="the trace is empty"):
        open_trace(write(tmp_path, "\n\n"))
    with pytest.raises(TraceError, match="cannot be read"):
        open_trace(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match="unknown trace format"):
        open_trace(write(tmp_path, '{"a": 1}\n'))


def test_azure_csv(tmp_path: Path) -> None:
    rows = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:50.9951690,396,0\n"
    )
    first, second = open_trace(write(tmp_path, rows, "azure.csv")).calls()
    assert (first.at, first.prompt_tokens, first.output_tokens) == (0.0, 374, 44)
    assert second.at == pytest.approx(4.3145790)
    assert second.output_tokens == 1
    assert not set(first.blocks) & set(second.blocks)
    bad = rows + "2023-11-16 18:15:51.0,x,1\n"
    with pytest.raises(TraceError, match=r"azure.csv:4: could not convert"):
        list(open_trace(write(tmp_path, bad, "azure.csv")).calls())


def test_bailian_sessions_are_closed_loops(tmp_path: Path) -> None:
    def turn(chat: int, parent: int, at: float, ids: list[int]) -> str:
        fields = {
            "chat_id": chat,
            "parent_chat_id": parent,
            "timestamp": at,
            "input_length": 16 * len(ids) + 3,
            "output_length": 9,
            "turn": 1,
            "hash_ids": ids,
        }
        return json.dumps(fields) + "\n"

    rows = turn(1, -1, 0.0, [1]) + turn(2, -1, 1.0, [9]) + turn(3, 1, 5.5, [1, 2])
    first, second = open_trace(write(tmp_path, rows)).calls()
    assert first.next is not None and first.next.blocks == (1, 2)
    assert first.next.think_s == pytest.approx(5.5)
    assert second.next is None


def test_a_recording_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with path.open("w") as file:
        recorder = Recorder(file, 16)
        # The later one ended first.
        recorder.write(Recorded(0.5, 40, 7, (11, 13), session="s"))
        recorder.write(Recorded(0.25, 40, 7, (11, 12)))
    workload = open_trace(path)
    first, second = workload.calls()
    assert workload.block_size == 16
    assert (first.at, first.prompt_tokens, first.blocks) == (0.25, 40, (11, 12))
    assert second.blocks == (11, 13)


def test_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(line(0, 600, [1]))
    assert len(list(open_trace(path).calls())) == 1


def test_block_ids_become_the_same_tokens_everywhere(tmp_path: Path) -> None:
    path = write(tmp_path, line(0, 1100, [7, 8, 9]) + line(3000, 1600, [7, 8, 10, 11]))
    first, second = mooncake(path).calls()
    one, two = (token_ids(call, 512, 1000, first=5) for call in (first, second))
    assert len(one) == 1100 and len(two) == 1600
    assert one[:1024] == two[:1024] and one[1024:1100] != two[1024:1100]
    assert one[:4] == [350, 341, 122, 923] and min(one) >= 5
    assert len(text(first, 512).split()) == 1100


def test_real_traces_have_the_published_numbers() -> None:
    folder = trace_folder(None)
    path = find("mooncake_synthetic", folder)
    if path is None:
        pytest.skip("no traces at hand (set KVROUTE_TRACES)")
    summary = summarize(mooncake(path, TraceOptions(max_prompt=1 << 30)).flat(), 512)
    assert summary.calls == 3993
    # 64.0 % of the blocks, a little more of the tokens.
    assert summary.endless_hit_rate == pytest.approx(0.6504, abs=0.001)
