"""What a router knows of its fleet, as a table for people."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvroute.v1 import router_pb2

BAR = 8
"""Width of a cache bar in characters."""


def cluster_table(state: router_pb2.ClusterStateResponse) -> RenderableType:
    """One table per model; a line of text when the router knows none. Pure."""
    if not state.models:
        return Text(f"router {state.router_id}: no models; start a worker", style="yellow")
    return Group(*(_model_table(state, model) for model in state.models))


def _model_table(
    state: router_pb2.ClusterStateResponse, model: router_pb2.ModelState
) -> RenderableType:
    identity = model.identity
    title = Text(identity.served_name, style="bold")
    title.append(
        f"  {identity.dtype}, context {identity.max_context}, {identity.block_size} tokens a block"
        f"  (router {state.router_id} of {model.routers}, policy {model.default_policy})",
        style="not bold dim",
    )
    # Nine columns fit in 80 characters only without frames.
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("worker", style="bold", no_wrap=True)
    table.add_column("address", no_wrap=True)
    table.add_column("link", no_wrap=True)
    table.add_column("blocks", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    # Requests under way; milliseconds of work waiting, for 1,000 missing tokens, for a decode step.
    for name in ("open", "queue", "miss/1k", "step"):
        table.add_column(name, justify="right")
    for worker in sorted(model.workers, key=lambda one: one.worker_id):
        step = worker.costs.step_base_ms + worker.costs.step_ms_per_request
        table.add_row(
            worker.worker_id,
            worker.address,
            link_text(worker),
            f"{worker.cached_blocks}/{worker.total_blocks}",
            bar(worker.cached_blocks, worker.total_blocks),
            str(worker.outstanding),
            f"{worker.queue_ms:.0f}",
            f"{worker.costs.miss_ms_per_1k:.0f}" if worker.costs.miss_ms_per_1k else "-",
            f"{step:.0f}" if step else "-",
        )
    warnings = model_warnings(model)
    return Group(title, table, *(Text(line, style="yellow") for line in warnings))


def link_text(worker: router_pb2.WorkerState) -> Text:
    if worker.draining:
        return Text("draining", style="yellow")
    return Text("up", style="green") if worker.connected else Text("down", style="red")


def bar(used: int, total: int) -> Text:
    """A bar of `BAR` characters; empty only at 0, full only at `total`."""
    filled = 0 if total == 0 else round(BAR * min(used, total) / total)
    if 0 < used < total:
        filled = min(max(filled, 1), BAR - 1)
    text = Text("█" * filled, style="cyan")
    return text.append("░" * (BAR - filled), style="dim")


def model_warnings(model: router_pb2.ModelState) -> list[str]:
    """What is not as it should be, in words."""
    found = []
    if not model.workers:
        found.append("no worker serves this model")
    if not model.view_complete:
        found.append("the router does not know every worker's cache yet")
    if model.degraded:
        found.append("Redis does not answer: the router decides by what it knows itself")
    return found
