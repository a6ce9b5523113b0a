"""Author-year keys lead to the references page: ``[Key]_`` in docstrings, ``[Key]`` in Markdown.

The page stays plain Markdown, a list whose items begin with a bold key; an item becomes a target, and a key that is on
no item stays unresolved, which a build with warnings as errors refuses.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PAGE = "references"
LEFT_ALONE = (nodes.literal, nodes.literal_block, nodes.reference, nodes.math, nodes.raw)
KEY = re.compile(r"\[([A-Z][A-Za-z]+\d{4}[a-z]?)\]")


def mark_items(document: nodes.document) -> None:
    """Give each reference a target named by its key."""
    for item in document.findall(nodes.list_item):
        match = KEY.fullmatch(next((strong.astext() for strong in item.findall(nodes.strong)), ""))
        if match:
            item["ids"].append(match[1].lower())


def mark_keys(document: nodes.document) -> None:
    """Turn keys in running text into citation references."""
    for text in list(document.findall(nodes.Text)):
        pieces = KEY.split(text)
        if len(pieces) == 1 or isinstance(
            text.parent, nodes.literal | nodes.literal_block | nodes.reference | nodes.math
        ):
            continue
        new: list[nodes.Node] = []
        for place, piece in enumerate(pieces):  # text, key, text, key, ..., text
            if place % 2:
                reference = pending_xref("", nodes.inline("", f"[{piece}]"), refdomain="citation", reftype="ref")
                reference["reftarget"] = piece
                new.append(reference)
            elif piece:
                new.append(nodes.Text(piece))
        text.parent.replace(text, new)


def on_read(app: Sphinx, document: nodes.document) -> None:
    """Mark the references page, and the keys of other Markdown pages."""
    name = app.env.docname
    if name == PAGE:
        mark_items(document)
        app.env.reference_keys = {i for item in document.findall(nodes.list_item) for i in item["ids"]}  # type: ignore
    elif app.env.doc2path(name).suffix == ".md":
        mark_keys(document)


def on_missing(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Any) -> nodes.Node | None:
    """Resolve a citation by its key."""
    if node.get("refdomain") != "citation" or node["reftarget"].lower() not in getattr(env, "reference_keys", ()):
        return None
    key = node["reftarget"]
    link = nodes.reference("", f"[{key}]", internal=True, classes=["citation"])
    link["refuri"] = app.builder.get_relative_uri(node.get("refdoc", env.docname), PAGE) + f"#{key.lower()}"
    return link


def on_merge(app: Sphinx, env: BuildEnvironment, names: set[str], other: BuildEnvironment) -> None:
    """Take the keys from the process that read the references page, where several read (``-j``)."""
    if PAGE in names:
        env.reference_keys = other.reference_keys  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the steps."""
    app.connect("doctree-read", on_read)
    app.connect("env-merge-info", on_merge)
    app.connect("missing-reference", on_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
