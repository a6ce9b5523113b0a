"""Checks the built pages, offline: every link and anchor leads somewhere, nothing is loaded from elsewhere.

``python docs/check_pages.py docs/build/html`` prints what is wrong, page by page, mathematics left as text included;
its exit status is 1 if anything is.
"""

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a page loads something, as opposed to leading to it.
LOADS = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "srcset"),
    ("object", "data"),
}
#: Inside these, dollars and backslashes are meant literally, or drawn by MathJax.
LITERAL = {"pre", "code", "script", "style"}
RAW_MATHEMATICS = re.compile(r"\\\(|\\\[|\$[^$\s][^$]*\$|:math:|\{math\}")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class Page(HTMLParser):
    """The targets of a page, its links, what it loads, and mathematics left as text."""

    ids: set[str] = field(default_factory=set)
    leads_to: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    raw: list[str] = field(default_factory=list)
    _literal: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Record targets and links, and where text is literal."""
        values = {name: value or "" for name, value in attributes}
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.leads_to.add(values["href"])
        self.loads |= {values[name] for loading, name in LOADS if loading == tag and values.get(name)}
        literal = tag in LITERAL or "math" in values.get("class", "").split()
        if tag not in VOID and (literal or self._literal):
            self._literal.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """End literal text."""
        if self._literal and tag not in VOID:
            self._literal.pop()

    def handle_data(self, data: str) -> None:
        """Record mathematics that is not rendered."""
        if not self._literal:
            self.raw += RAW_MATHEMATICS.findall(data)


def read(path: Path) -> Page:
    """Return a parsed page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def is_elsewhere(reference: str) -> bool:
    """Return whether a reference leaves these pages."""
    address = urlsplit(reference)
    return bool(address.netloc) or address.scheme not in ("", "data")


def complaints(root: Path) -> dict[str, list[str]]:
    """Return what is wrong, by page."""
    paths = (path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts)  # the theme's templates
    pages = {path: read(path) for path in paths}
    broken: dict[str, list[str]] = {}
    for path, page in pages.items():
        wrong = [f"loads {reference} from elsewhere" for reference in sorted(page.loads) if is_elsewhere(reference)]
        wrong += [f"raw mathematics {text!r}" for text in page.raw]
        for reference in sorted(page.leads_to | page.loads):
            address = urlsplit(reference)
            if is_elsewhere(reference) or address.scheme == "data" or reference == "#":
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not target.exists():
                wrong.append(f"{reference} is not there")
            elif address.fragment and target in pages and unquote(address.fragment) not in pages[target].ids:
                wrong.append(f"{reference} has no such anchor")
        if wrong:
            broken[str(path.relative_to(root))] = wrong
    if not pages:
        broken[str(root)] = ["there are no pages"]
    return broken


def main(root: str) -> int:
    """Print every complaint; 1 if there are any."""
    broken = complaints(Path(root).resolve())
    for page, wrong in broken.items():
        print(page, *wrong, sep="\n    ")
    print(f"{len(list(Path(root).rglob('*.html')))} pages, {sum(map(len, broken.values()))} complaints")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
