"""`kvroute report`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    default=Path("report"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for report.html and the pictures.",
)
@click.option("--markdown", type=click.Path(path_type=Path), help="Also write tables as Markdown.")
@click.option("--frame", type=click.Path(path_type=Path), help="Text around the Markdown tables.")
def command(runs: tuple[Path, ...], out: Path, markdown: Path | None, frame: Path | None) -> None:
    """Draws result files (from `--out` of sim and loadtest) as one page and PNGs.

    \b
    Example:
      kvroute sim --preset paper-ablation --out runs.jsonl
      kvroute report runs.jsonl --out report
    """
    from loadtest.report.build import build

    click.echo(f"wrote {build(runs, out)}")
    if markdown is not None:
        from loadtest.report.markdown import FRAME, write_markdown

        write_markdown(runs, markdown, frame.read_text() if frame else FRAME)
        click.echo(f"wrote {markdown}")
