"""The bare HTML of a report: one page, no scripts, nothing fetched."""

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["code", "page", "paragraph", "section", "table"]

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 54rem; background: #fff; color: #1a1a1a;
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid #ccc; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p, ul { margin: .5rem 0; }
.verdict { padding: .7rem 1rem; border-left: 6px solid #1a6b3a; background: #eef6f0; }
.verdict.fails { border-color: #b00020; background: #fbecee; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #ddd; vertical-align: top;
         overflow-wrap: anywhere; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th { overflow-wrap: normal; }
td small, th small { display: block; color: #555; font-weight: normal; }
math { font-size: 1.1rem; max-width: 100%; }
math[display="block"] { margin: .5rem 0; overflow-wrap: normal; }
pre { background: #f5f5f5; padding: .7rem; font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: 1rem 0; break-inside: avoid; }
figure img { width: 100%; height: auto; display: block; }
figcaption { font-size: .9rem; color: #444; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 0 1rem; }
footer { margin-top: 2.5rem; font-size: .85rem; color: #555; }
@media (max-width: 34rem) {
  body { padding: .8rem; font-size: 15px; }
  .wide { display: none; }
  math { font-size: 1rem; }
  table { font-size: .85rem; }
}
@media print { body { max-width: none; font-size: 10.5pt; } h2, h3 { break-after: avoid; } }
"""
# nothing may be fetched, and nothing may run
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_ICON = "data:,"


def page(title: str, body: Iterable[str]) -> str:
    """A whole page; ``title`` is plain text, the parts of ``body`` are HTML."""
    name = escape(title)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<link rel="icon" href="{_ICON}"><title>{name}</title><style>{_STYLE}</style>'
    )
    content = "\n".join(body)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n<h1>{name}</h1>\n{content}\n</body></html>\n'


def section(heading: str, *parts: str) -> str:
    """A heading in plain text, and HTML below it."""
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(parts) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{escape(text)}</p>"


def code(text: str) -> str:
    """A program."""
    return f"<pre><code>{escape(text)}</code></pre>"


def table(head: Sequence[str], kinds: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text; ``kinds`` are classes of columns: "", "number", "wide" or both.

    In a cell, what follows a line break is printed small below.
    """
    heads = "".join(_cell("th", kind, text) for kind, text in zip(kinds, head, strict=True))
    lines = ["".join(_cell("td", kind, text) for kind, text in zip(kinds, row, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, kind: str, text: str) -> str:
    first, _, rest = text.partition("\n")
    small = f"<small>{escape(rest)}</small>" if rest else ""
    mark = f' class="{kind}"' if kind else ""
    return f"<{tag}{mark}>{escape(first)}{small}</{tag}>"
