"""`kvroute bench`."""

from __future__ import annotations

import click

from kvroute.cli.lazy import Entry, LazyGroup

BENCHES = {
    "index": Entry("kvroute.cli.bench.index", "Lookups, events, memory, bootstrap of the index."),
    "route": Entry("kvroute.cli.bench.route", "Choose-and-book calls per second."),
    "evict": Entry("kvroute.cli.bench.evict", "Microseconds per evicted block."),
    "worker": Entry("kvroute.cli.bench.worker", "Prefill, decode, first token of the engine."),
}


@click.group("bench", cls=LazyGroup, entries=BENCHES)
def command() -> None:
    """Measures the parts of kvroute on this machine.

    With --json the last line is one JSON object with bench, commit, config, seed and machine. --vs
    measures rivals in the same run; those with an environment of their own need `make
    compare-NAME` first, and what cannot run is listed under "missing".

    \b
    Examples:
      kvroute bench route
      kvroute bench index --workers 64 --blocks 1000000 --vs dynamo
      kvroute bench evict --json
    """
    from kvroute.log import configure

    configure("warning", "bench")
