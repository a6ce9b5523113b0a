"""Source pages without links back: a name may be documented on two pages, and Sphinx may join one's page with the
other's anchor.
"""

import re
from typing import Any

from sphinx.application import Sphinx

BACK = re.compile(r'<a class="viewcode-back"[^>]*>.*?</a>')


def without_back(app: Sphinx, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Take the links out of a page of source."""
    if page.startswith("_modules/"):
        context["body"] = BACK.sub("", context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the step."""
    app.connect("html-page-context", without_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
