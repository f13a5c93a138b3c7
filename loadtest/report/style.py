"""One look for all pictures: sizes, colours, axes."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from loadtest.report.results import ReportError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS = "#c2410c"
INK = "#1f2937"
GREY = "#9ca3af"
COLOURS = (
    "#2563eb", "#059669", "#7c3aed", "#b45309", "#0891b2", "#be185d", "#4d7c0f", "#475569",
    "#dc2626", "#0d9488", "#9333ea", "#ca8a04",
)  # fmt: skip
DPI = 130


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches. Raises ReportError where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ReportError(
            "the Python package matplotlib is not installed: pip install 'kvroute[loadtest]'"
        ) from None
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")


def tidy(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Labels, a light grid, and no box."""
    axes.set_title(title, fontsize=10, color=INK, loc="left", fontweight="bold")
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK, length=3)
    axes.grid(True, color="#e5e7eb", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)


def colours(names: list[str]) -> dict[str, str]:
    """A colour per name, ours always the same."""
    others = [name for name in names if not name.startswith("lbgr_plus")]
    found = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(others)}
    ours = [name for name in names if name.startswith("lbgr_plus")]
    shades = (OURS, "#ea580c", "#fb923c", "#fdba74")
    found.update({name: shades[index % len(shades)] for index, name in enumerate(ours)})
    return found


def png(drawn: Figure) -> bytes:
    buffer = BytesIO()
    # No date or version in the file: same data, same bytes.
    drawn.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def milliseconds(value: float) -> str:
    """Short text for a time: 850 ms, 2.4 s, 28 s."""
    if value < 1000:
        return f"{value:.0f} ms"
    return f"{value / 1000:.1f} s" if value < 10_000 else f"{value / 1000:.0f} s"
