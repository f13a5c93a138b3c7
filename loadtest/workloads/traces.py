"""Where trace files lie, and which reader a file needs."""

from __future__ import annotations

import os
from pathlib import Path

from loadtest.workloads.azure import azure
from loadtest.workloads.bailian import bailian
from loadtest.workloads.base import Workload
from loadtest.workloads.mooncake import TraceOptions, mooncake
from loadtest.workloads.recorded import recorded
from loadtest.workloads.trace_lines import Skipped, TraceError, read_lines

VARIABLE = "KVROUTE_TRACES"
FILES = {
    "mooncake_conversation": "mooncake_conversation.jsonl.gz",
    "mooncake_synthetic": "mooncake_synthetic.jsonl.gz",
    "azure_code": "azure_llm_2023_code.csv.gz",
    "azure_conversation": "azure_llm_2023_conv.csv.gz",
}


def trace_folder(given: Path | None) -> Path | None:
    """`--traces`, else the environment's, else `shared/data` beside the working directory."""
    if given is not None:
        return given
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    for folder in (Path("shared/data"), Path("../shared/data")):
        if folder.is_dir():
            return folder
    return None


def find(name: str, folder: Path | None) -> Path | None:
    """The file of a known trace, or None where it is not at hand."""
    if folder is None:
        return None
    for candidate in (folder / FILES[name], folder / FILES[name].removesuffix(".gz")):
        if candidate.is_file():
            return candidate
    return None


def open_trace(
    path: Path, options: TraceOptions | None = None, skipped: Skipped | None = None
) -> Workload:
    """The reader that fits the file's first line.

    Raises:
        TraceError: the file is empty, unreadable, or of no known format.
    """
    name = path.name.split(".")[0]
    for line in read_lines(path, str, skipped=None):
        if line.startswith("TIMESTAMP,"):
            return azure(path, options, name, skipped=skipped)
        if '"kvroute_trace"' in line:
            return recorded(path, options, name, skipped=skipped)
        if '"parent_chat_id"' in line:
            return bailian(path, options, name, skipped=skipped)
        if '"hash_ids"' in line:
            return mooncake(path, options, name, skipped=skipped)
        break
    raise TraceError(
        f"{path}:1: unknown trace format (known: Mooncake and Bailian JSON lines, Azure CSV, "
        "kvroute recordings)"
    )
