"""The model that a local fleet serves, ready before the first worker starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvroute.local.preflight import require_model

if TYPE_CHECKING:
    from rich.console import Console

DEMO = "demo"


def prepare_model(model: str, console: Console) -> str:
    """What workers get as `--model`: the name as it is, or the directory of the demo model.

    The demo model is fetched and converted here, once, with a progress bar, rather than by every
    worker at the same time. Raises StartError when the model is not there.
    """
    if model != DEMO:
        require_model(model)
        return model
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from worker_svc.demo_model import ensure_demo_model

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("demo model", total=1.0)

        def report(step: str, fraction: float) -> None:
            progress.update(task, description=f"demo model: {step}", completed=fraction)

        return str(ensure_demo_model(report))
