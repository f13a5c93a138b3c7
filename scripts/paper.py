"""`make paper`: every study behind docs/benchmarks.md, simulated; then the page and the tables.

Each study's result is one file; those that are there already are not run again, so that an
interrupted run goes on where it stopped. On 2 idle cores the quick form (one seed, the strongest
rivals) takes about 20 minutes, the full one (five seeds, every policy) a night.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRAME = ROOT / "docs" / "benchmarks.in.md"
TARGET = ROOT / "docs" / "benchmarks.md"
SEEDS = "1,2,3,4,5"


def studies(quick: bool) -> dict[str, list[str]]:
    """File name -> arguments of `kvroute sim`. Later files come later in the report."""
    seeds = ["--seeds", "1" if quick else SEEDS]
    rivals = [] if quick else ["--all-policies"]
    evictors = [
        part for name in ("arc_mix", "shadow", "rlt", "lru") for part in ("--evictor", name)
    ]
    chosen = ["--workload", "gsp_random", "--evictor", "arc_mix"]
    for policy in ("lbgr_plus", "cache_aware@0.3", "llmd", "lbgr"):
        chosen += ["--policy", policy]
    return {
        "ablation": ["--preset", "paper-ablation", *([] if not quick else ["--seeds", "1,2"])],
        "grid": ["--preset", "paper-grid", *seeds],
        "workloads": ["--preset", "all-workloads", *rivals, *seeds],
        "held_out": ["--preset", "all-workloads", "--held-out", *rivals, *seeds],
        "evictors": [
            "--preset", "all-workloads", "--policy", "lbgr_plus", *evictors, "--seeds", "1",
        ],
        "hints": [
            "--preset", "all-workloads", "--policy", "lbgr_plus", *evictors, "--hints",
            "--look-ahead", "--seeds", "1",
        ],
        "single": ["--preset", "single-worker"],
        "single_held_out": ["--preset", "single-worker", "--held-out"],
        "runs": chosen,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, the strongest rivals")
    parser.add_argument("--only", default="", help="names of studies, separated by commas")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "paper")
    parser.add_argument("--traces", type=Path, default=None)
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    for name, arguments in studies(options.quick).items():
        target = options.results / f"{name}.jsonl"
        if target.exists() or (wanted and name not in wanted):
            continue
        print(f"{name}: kvroute sim {' '.join(arguments)}", flush=True)
        run("sim", *arguments, "--jobs", str(options.jobs), "--out", str(target),
            *(["--traces", str(options.traces)] if options.traces else []))  # fmt: skip
    files = [
        str(path)
        for name in studies(options.quick)
        if (path := options.results / f"{name}.jsonl").exists()
    ]
    page = ["--out", str(options.results / "report")]
    run("report", *files, *page, "--markdown", str(TARGET), "--frame", str(FRAME))
    return 0


def run(*arguments: str) -> None:
    """Runs the command line of this checkout; ends everything when it fails."""
    subprocess.run([sys.executable, "-m", "kvroute", *arguments], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
