"""The model that a local fleet serves, ready before the first worker starts."""

from __future__ import annotations

from collections.abc import Callable
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
    if not console.is_terminal:
        return str(ensure_demo_model(_say_stages(console)))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("demo model", total=1.0)

        def report(step: str, done: int, total: int) -> None:
            progress.update(
                task, description=f"demo model: {step}", completed=done, total=max(1, total)
            )

        return str(ensure_demo_model(report))


def _say_stages(console: Console) -> Callable[[str, int, int], None]:
    """A line for each stage, where a bar cannot be drawn."""
    said: set[str] = set()

    def report(step: str, done: int, total: int) -> None:
        if step not in said:
            said.add(step)
            console.print(f"demo model: {step}", highlight=False)

    return report
