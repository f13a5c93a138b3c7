"""`kvroute loadtest`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command("loadtest")
@click.option("--address", default="127.0.0.1:50050", show_default=True, help="gRPC front.")
@click.option("--http", metavar="URL", default="", help="OpenAI HTTP front instead.")
@click.option("--workload", default="gsp_random", show_default=True, metavar="NAME|FILE")
@click.option("--policy", default="", help="Ask the router for this policy.")
@click.option("--seed", default=1, show_default=True)
@click.option("--limit", default=0, metavar="N", help="Stop after N sessions.")
@click.option("--warm-up", default=0, metavar="N", help="First N requests are not counted.")
@click.option("--concurrency", default=0, metavar="N", help="Closed loop with N clients.")
@click.option("--stretch", default=1.0, show_default=True, help="Multiplies arrival times.")
@click.option("--shrink", default=1, show_default=True, help="Divides prompt lengths.")
@click.option("--output-cap", default=0, metavar="N", help="At most N tokens per answer.")
@click.option("--hints", is_flag=True, help="Declare sessions and shared prefixes.")
@click.option("--slo-ttft-ms", default=0.0, metavar="MS", help="For goodput.")
@click.option("--slo-tpot-ms", default=0.0, metavar="MS", help="For goodput.")
@click.option("--traces", type=click.Path(path_type=Path), help="Folder of traces.")
@click.option("--records", type=click.Path(path_type=Path), help="Write every request here.")
@click.option("--compare", type=click.Path(path_type=Path), help="Records of an earlier run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object as the last line.")
@click.option("--out", type=click.Path(path_type=Path), help="Append the JSON line to a file.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write the rows as CSV.")
def command(**flags: Any) -> int:
    """Loads a live router and measures what its clients see.

    Exit code 1 if a request failed or the sender fell behind its own times.

    \b
    Examples:
      kvroute loadtest --workload gsp_random --shrink 16 --limit 200 --stretch 4
      kvroute loadtest --workload chat --concurrency 16 --records new.jsonl --compare old.jsonl
    """
    from loadtest.cli.run_loadtest import run

    return run(**flags)
