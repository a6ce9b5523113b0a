"""Every tutorial can be downloaded as a notebook, which is made from its page when the documentation is built."""

import json
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))

from run_tutorials import PAGES, notebook

NAMES = {f"tutorials/{page.stem}": page for page in PAGES}


def offer(app: Sphinx, document: nodes.document) -> None:
    """Add a line under the title of a tutorial that leads to its notebook."""
    page = NAMES.get(app.env.docname)
    if page is not None and app.builder.format == "html":
        link = nodes.reference("", f"{page.stem}.ipynb", refuri=f"{page.stem}.ipynb", internal=True)
        line = nodes.paragraph("", "Download ", link, nodes.Text(", this page as a notebook that runs."))
        title = next(document.findall(nodes.title))
        title.parent.insert(title.parent.index(title) + 2, line)  # under the line that says whom it is for


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the notebooks next to the pages."""
    if error is None and app.builder.format == "html":
        for name, page in NAMES.items():
            target = Path(app.outdir, f"{name}.ipynb")
            target.write_text(json.dumps(notebook(page), indent=1, ensure_ascii=False), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect both steps."""
    app.connect("doctree-read", offer)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
