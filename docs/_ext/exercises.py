"""Solutions of exercises that a reader opens: the directive ``solution``, closed until it is clicked."""

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx


class HiddenPart(nodes.General, nodes.Element):
    """A part of a page that is shown when its heading is clicked."""


class Solution(Directive):
    """Hide its content under the word "Solution"."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the content inside one node."""
        node = HiddenPart()
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


def open_html(self: Any, node: nodes.Node) -> None:
    """Begin the part that is closed."""
    self.body.append('<details class="solution"><summary>Solution</summary>\n')


def close_html(self: Any, node: nodes.Node) -> None:
    """End it."""
    self.body.append("</details>\n")


def _ignore(self: Any, node: nodes.Node) -> None:
    """Write the content as it is."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_node(HiddenPart, html=(open_html, close_html), latex=(_ignore, _ignore), text=(_ignore, _ignore))
    app.add_directive("solution", Solution)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
