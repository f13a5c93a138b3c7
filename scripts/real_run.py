"""Four CPU workers with the demo model, three systems, measured and predicted side by side.

    python scripts/real_run.py --rate 3 --out build/paper/real.jsonl

Takes about a quarter of an hour on two idle cores; with fewer prompts per group most of a run is
cold start, where nothing routes well. Exit code 1 if the simulator ranks the systems otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from kvroute.bench.common import common, one_line
from kvroute.local.model import prepare_model
from loadtest.cli.output import emit
from loadtest.cli.tables import table
from loadtest.live.real_run import RealOptions, real_run, same_order


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="demo")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--rate", type=float, default=3.0)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = vars(parser.parse_args())
    model, out = given.pop("model"), given.pop("out")
    options = RealOptions(**given)
    console = Console(stderr=True)
    rows = asyncio.run(real_run(prepare_model(model, console), options, console.print))
    print(table(rows))
    alike = same_order(rows)
    print("ranked alike" if alike else "ranked otherwise than predicted")
    content = {"rows": rows, "ranked_alike": alike}
    line = one_line(common("real_run", asdict(options), options.seed) | content)
    emit(line, out, True)
    return 0 if alike else 1


if __name__ == "__main__":
    sys.exit(main())
