"""Names of this package in Markdown lead to their reference page: ``problems.LSSVMRegressor`` in a table is a link.

A file of the package (``problems/ls_svm_regression.py``) leads to its module. What is documented nowhere stays as it
is. In the cells of tables a long name may be broken after a dot, a slash or an underscore, never inside a word.
"""

import pkgutil
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode


def home(name: str) -> str:
    """Return where a name that its package re-exports is defined, and possibly documented."""
    try:
        value = pkgutil.resolve_name(name) if name.startswith(("problems.", "substrate.")) else None
    except (AttributeError, ImportError, ValueError):
        return name
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def spellings(text: str) -> tuple[str, ...]:
    """Return the dotted names under which a literal may be documented."""
    name = text.split("(")[0].removesuffix(".py").replace("/", ".").strip(".")
    if "." not in name and not name[:1].isupper():  # an ordinary word, or a parameter
        return ()
    return (
        name,
        home(name),
        f"problems.{name}",
        f"problems.displays.{name}",
        f"substrate.{name}",
        f"substrate.kernels.{name}",
    )


def breakable(literal: nodes.literal) -> None:
    """Allow a line to end after the separators of a name, which leaves its text as it is."""
    pieces = [piece for piece in re.split(r"(?<=[._/:=,])(?=\w)", literal.astext()) if piece]
    literal.children = []
    for number, piece in enumerate(pieces):
        if number:
            literal += nodes.raw("", "<wbr>", format="html")
        literal += nodes.Text(piece)


def spell(literal: nodes.literal) -> str:
    """Return the text of a literal, without what only its layout needs."""
    return "".join(child.astext() for child in literal.findall(nodes.Text) if not isinstance(child.parent, nodes.raw))


def link_names(app: Sphinx, document: nodes.document, page: str) -> None:
    """Wrap every literal that is a documented name into a link."""
    if app.env.doc2path(page).suffix != ".md":
        return
    documented = app.env.domains.python_domain.objects
    for cell in list(document.findall(nodes.entry)):
        for literal in list(cell.findall(nodes.literal)):
            breakable(literal)
    for literal in list(document.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference | nodes.title):
            continue
        entry = next((documented[name] for name in spellings(spell(literal)) if name in documented), None)
        if entry is not None:
            link = make_refnode(app.builder, page, entry.docname, entry.node_id, literal.deepcopy())
            literal.parent.replace(literal, link)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the step."""
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
