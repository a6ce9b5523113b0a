"""The HTML of a page: one file, light or dark as the reader's system is, without network."""

import re
from collections.abc import Iterable, Iterator, Sequence
from colorsys import hls_to_rgb, rgb_to_hls
from dataclasses import dataclass
from html import escape
from itertools import groupby

__all__ = [
    "Picture",
    "answers",
    "both_themes",
    "code",
    "figure",
    "figures",
    "page",
    "paragraph",
    "section",
    "table",
]

#: The paper of a dark page.
_DARK = "#15171c"
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --quiet: #555; --rule: #ccc; --shade: #f4f4f4;
        --accent: #b03060; --good: #1a6b3a; --good-shade: #eef6f0; --bad: #b00020; --bad-shade: #fbecee; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #15171c; --ink: #e8e8e8; --quiet: #a9adb5; --rule: #454a54; --shade: #20232a;
          --accent: #f08ab0; --good: #5fcf8e; --good-shade: #16291f; --bad: #ff8a94; --bad-shade: #331a1e; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 54rem; background: var(--paper); color: var(--ink);
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
a { color: var(--accent); }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p, ul { margin: .5rem 0; }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
           gap: .8rem; margin: 1rem 0; }
.answers div { padding: .6rem .9rem; border-left: 6px solid var(--rule); background: var(--shade); }
.answers h2 { all: unset; display: block; font-size: .9rem; color: var(--quiet); }
.answers strong { display: block; font-size: 1.25rem; line-height: 1.3; margin: .1rem 0 .2rem; }
.answers p { margin: 0; font-size: .9rem; }
.answers .holds { border-color: var(--good); background: var(--good-shade); }
.answers .fails { border-color: var(--bad); background: var(--bad-shade); }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--rule); vertical-align: top;
         overflow-wrap: anywhere; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th { overflow-wrap: normal; }
td small, th small { display: block; color: var(--quiet); font-weight: normal; }
math { font-size: 1.1rem; max-width: 100%; }
math[display="block"] { margin: .5rem 0; overflow-wrap: normal; }
pre { background: var(--shade); padding: .7rem; font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: 1rem 0; break-inside: avoid; }
figure img { width: 100%; height: auto; display: block; }
figcaption { font-size: .9rem; color: var(--quiet); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 0 1rem; }
footer { margin-top: 2.5rem; font-size: .85rem; color: var(--quiet); }
@media (max-width: 34rem) {
  body { padding: .8rem; font-size: 15px; }
  .wide { display: none; }
  math { font-size: 1rem; }
  table { font-size: .85rem; }
  .answers { gap: .5rem; }
}
@media print {
  body { max-width: none; font-size: 10.5pt; }
  h2, h3 { break-after: avoid; }
}
"""
# nothing may be fetched, and nothing may run
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_ICON = "data:,"


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole page; ``title`` is plain text, ``body`` HTML."""
    name = escape(title)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<link rel="icon" href="{_ICON}"><title>{name}</title><style>{_STYLE}</style>'
    )
    content = "\n".join(body)
    start = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n<h1>{name}</h1>\n'
    return f"{start}{content}\n</body></html>\n"


def section(heading: str, *elements: str) -> str:
    """Return a heading in plain text, and HTML below it."""
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(elements) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{escape(text)}</p>"


def code(text: str) -> str:
    """Return a program."""
    return f"<pre><code>{escape(text)}</code></pre>"


def table(head: Sequence[str], kinds: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of plain text; ``kinds`` are classes of columns: "", "number", "wide" or both.

    In a cell, text after a line break is printed small below.
    """
    heads = "".join(_cell("th", kind, text) for kind, text in zip(kinds, head, strict=True))
    lines = ["".join(_cell("td", kind, text) for kind, text in zip(kinds, row, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, kind: str, text: str) -> str:
    first, _, remainder = text.partition("\n")
    small = f"<small>{escape(remainder)}</small>" if remainder else ""
    mark = f' class="{kind}"' if kind else ""
    return f"<{tag}{mark}>{escape(first)}{small}</{tag}>"


def answers(lines: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the first screen: a question, its answer in few words, a sentence, and how it is marked, all plain
    text.
    """
    boxes = "".join(
        f'<div class="{kind}"><h2>{escape(question)}</h2><strong>{escape(short)}</strong><p>{escape(more)}</p></div>'
        for question, short, more, kind in lines
    )
    return f'<div class="answers">{boxes}</div>'


#: A colour as matplotlib writes it into a style.
_COLOUR = re.compile(r"(?<=: )#([0-9a-f]{6})")


def both_themes(svg: str) -> str:
    """Return the image with a second set of colours, which the browser takes where the system is dark."""
    used = sorted({"000000", *_COLOUR.findall(svg)})
    light = "".join(f"--c{code}:#{code};" for code in used)
    dark = "".join(f"--c{code}:{_on_dark(code)};" for code in used)
    style = (
        f"<style>:root{{{light}fill:var(--c000000)}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    )
    start = svg.index(">", svg.index("<svg")) + 1
    return svg[:start] + style + _COLOUR.sub(r"var(--c\1)", svg[start:])


def _on_dark(code: str) -> str:
    """Return the same hue, as light as it was dark; white becomes the paper of a dark page."""
    if code == "ffffff":
        return _DARK
    hue, lightness, saturation = rgb_to_hls(*(int(code[k : k + 2], 16) / 255.0 for k in (0, 2, 4)))
    turned = hls_to_rgb(hue, 0.12 + 0.8 * (1.0 - lightness), saturation)
    return "#" + "".join(f"{round(255.0 * channel):02x}" for channel in turned)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as a data address with its title and caption; ``address`` is empty where ``caption`` states why."""

    title: str
    caption: str
    address: str
    small: bool = False


def figures(drawn: Iterable[Picture]) -> Iterator[str]:
    """Yield the HTML of pictures, small ones beside each other."""
    for small, group in groupby(drawn, key=lambda picture: picture.small):
        figures = "".join(figure(picture) for picture in group)
        yield f'<div class="grid">{figures}</div>' if small else figures


def figure(picture: Picture) -> str:
    """Return the HTML of a picture."""
    title, caption = escape(picture.title), escape(picture.caption)
    image = f'<img src="{picture.address}" alt="{title}">' if picture.address else ""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure><h3>{title}</h3>{image}{below}</figure>\n"
