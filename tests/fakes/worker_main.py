"""A worker process that is real but for its model: `python -m tests.fakes.worker_main JSON`.

JSON: fields of `WorkerSettings`, and `fake` with those of `FakeEngine` (step_s, ms_per_token).
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

from kvroute.log import configure
from kvroute.server import wait_for_signal
from tests.fakes.engine import VOCAB, FakeEngine, FakeText
from worker_svc.base import Sink
from worker_svc.loaded import LoadedWorker, ModelFacts
from worker_svc.main import Worker
from worker_svc.settings import WorkerSettings
from worker_svc.text.tokenizer import TextService

MAX_CONTEXT = 8192


def load_fake(fake: dict[str, Any]) -> Any:
    """A `worker_svc.main.Load` that builds a fake engine."""

    def load(settings: WorkerSettings, sink: Sink) -> LoadedWorker:
        engine = FakeEngine(sink, blocks=settings.blocks, **fake)
        facts = ModelFacts(
            dtype="float32",
            vocab_size=VOCAB,
            max_context=settings.max_context or MAX_CONTEXT,
            tokenizer="numbers",
            chat_template="",
        )
        return LoadedWorker(engine, cast(TextService, FakeText()), facts)

    return load


async def serve(settings: WorkerSettings, fake: dict[str, Any]) -> None:
    async with Worker(settings, load_fake(fake)).running():
        await wait_for_signal()


def main() -> None:
    fields = json.loads(sys.argv[1])
    fake = fields.pop("fake", {})
    if fields.get("ready_file"):
        fields["ready_file"] = Path(fields["ready_file"])
    settings = WorkerSettings(**{"model": "fake", **fields})
    configure(settings.log_level, "worker")
    asyncio.run(serve(settings, fake))


if __name__ == "__main__":
    main()
