"""The HTML of a page: one file without network."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["answers", "bullets", "code", "figure", "figures", "folded", "page", "paragraph", "section", "table"]

_STYLE = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 54rem; background: #fff; color: #1a1a1a;
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid #ccc; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p, ul { margin: .5rem 0; }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
           gap: .8rem; margin: 1rem 0; }
.answers div { padding: .6rem .9rem; border-left: 6px solid #ccc; background: #f4f4f4; }
.answers h2 { all: unset; display: block; font-size: .9rem; color: #555; }
.answers strong { display: block; font-size: 1.25rem; line-height: 1.3; margin: .1rem 0 .2rem; }
.answers p { margin: 0; font-size: .9rem; }
.answers .holds { border-color: #1a6b3a; background: #eef6f0; }
.answers .fails { border-color: #b00020; background: #fbecee; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #ccc; vertical-align: top;
         overflow-wrap: anywhere; }
th:first-child, td:first-child { min-width: 5.5em; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
td small, th small { display: block; color: #555; font-weight: normal; }
pre { background: #f4f4f4; padding: .7rem; font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: .5rem 1.2rem; }
figure { margin: .6rem 0; break-inside: avoid; }
figure img { width: 100%; height: auto; display: block; background: #fff; }
figcaption { font-size: .9rem; color: #555; }
footer { margin-top: 2.5rem; font-size: .85rem; color: #555; }
small { font-size: 12px; }
summary { cursor: pointer; }
@media (max-width: 34rem) { body { padding: .8rem; font-size: 15px; } table { font-size: .85rem; } }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #e6e6e6; }
  h2, th, td { border-color: #444; }
  .answers div, pre { background: #23262c; }
  .answers .holds { background: #17301f; }
  .answers .fails { background: #3a1a20; }
  .answers h2, td small, th small, figcaption, footer { color: #b0b0b0; }
}
@media print { body { max-width: none; font-size: 10.5pt; } h2, h3 { break-after: avoid; } }
"""
# nothing may be fetched, and nothing may run
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole page; ``title`` is plain text, ``body`` HTML."""
    name = escape(title)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<link rel="icon" href="data:,"><title>{name}</title><style>{_STYLE}</style>'
    )
    content = "\n".join(body)
    start = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n<h1>{name}</h1>\n'
    return f"{start}{content}\n</body></html>\n"


def section(heading: str, *elements: str) -> str:
    """Return a heading in plain text, and HTML below it."""
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(elements) + "\n</section>"


def folded(summary: str, *elements: str) -> str:
    """Return HTML that is shown when its summary in plain text is opened."""
    return f"<details><summary>{escape(summary)}</summary>\n" + "\n".join(elements) + "\n</details>"


def paragraph(text: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def bullets(lines: Iterable[str]) -> str:
    """Return a list of plain text."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def code(text: str) -> str:
    """Return a program."""
    return f"<pre><code>{escape(text)}</code></pre>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], n_texts: int = 1) -> str:
    """Return a table of plain text, whose first columns are texts and the others numbers.

    In a cell, text after a line break is printed small below.
    """
    heads = "".join(_cell("th", place >= n_texts, text) for place, text in enumerate(head))
    lines = ["".join(_cell("td", place >= n_texts, text) for place, text in enumerate(row)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, is_number: bool, text: str) -> str:
    first, _, remainder = text.partition("\n")
    small = f"<small>{escape(remainder)}</small>" if remainder else ""
    mark = ' class="number"' if is_number else ""
    return f"<{tag}{mark}>{escape(first)}{small}</{tag}>"


def answers(lines: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the first screen: questions, each with its answer in few words, a sentence, and a mark."""
    boxes = "".join(
        f'<div class="{kind}"><h2>{escape(question)}</h2><strong>{escape(short)}</strong><p>{escape(more)}</p></div>'
        for question, short, more, kind in lines
    )
    return f'<div class="answers">{boxes}</div>'


def figures(drawn: Iterable[str]) -> str:
    """Return figures side by side where there is room."""
    return f'<div class="figures">{"".join(drawn)}</div>'


def figure(title: str, caption: str, drawn: Any) -> str:
    """Return the HTML of a figure of matplotlib, which is closed."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(drawn)
    address = f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
    image = f'<img src="{address}" alt="{escape(title)}">'
    return f"<figure><h3>{escape(title)}</h3>{image}<figcaption>{escape(caption)}</figcaption></figure>\n"
