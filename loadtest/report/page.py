"""The page: one HTML file with its pictures and tables inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadtest.report.results import Row

STYLE = """
:root{color-scheme:light}
body{font:15px/1.5 system-ui,sans-serif;color:#1f2937;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.2rem 0 .5rem;border-bottom:1px solid #e5e7eb}
p.note{color:#6b7280;margin:.2rem 0 1rem}img{max-width:100%;display:block;margin:1rem 0}
div.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid #eef0f3;text-align:right;white-space:nowrap}
th{background:#f9fafb;font-weight:600}th.text,td.text{text-align:left}
tr.ours td{background:#fff7ed}
"""  # noqa: E501


@dataclass(slots=True)
class Section:
    """A heading, a sentence, pictures (file name and bytes) and one table."""

    title: str
    note: str = ""
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    table: list[Row] = field(default_factory=list)
    columns: Sequence[str] = ()


def page(title: str, note: str, sections: Sequence[Section]) -> str:
    body = [f"<h1>{html.escape(title)}</h1>", f'<p class="note">{html.escape(note)}</p>']
    for section in sections:
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        if section.note:
            body.append(f'<p class="note">{html.escape(section.note)}</p>')
        for name, picture in section.pictures:
            data = base64.b64encode(picture).decode()
            alt = html.escape(f"{section.title}: {name}")
            body.append(f'<img alt="{alt}" src="data:image/png;base64,{data}">')
        if section.table:
            body.append(_table(section))
    content = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>\n{content}\n</body></html>\n"
    )


def _table(section: Section) -> str:
    columns = section.columns or [
        name for name, value in section.table[0].items() if not isinstance(value, (list, dict))
    ]
    is_text = [isinstance(section.table[0].get(name), str) for name in columns]
    head = "".join(_cell("th", name, text) for name, text in zip(columns, is_text, strict=True))
    lines = []
    for row in section.table:
        ours = ' class="ours"' if str(row.get("policy", "")).startswith("lbgr_plus") else ""
        cells = "".join(
            _cell("td", _shown(row.get(name)), text)
            for name, text in zip(columns, is_text, strict=True)
        )
        lines.append(f"<tr{ours}>{cells}</tr>")
    body = "\n".join(lines)
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}\n</table></div>'


def _cell(tag: str, value: str, text: bool) -> str:
    kind = ' class="text"' if text else ""
    return f"<{tag}{kind}>{html.escape(value)}</{tag}>"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"
    return "" if value is None else str(value)
