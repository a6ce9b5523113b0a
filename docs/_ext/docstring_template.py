"""Compile the template of docstrings once: numpydoc makes an environment, and compiles it anew, for every docstring."""

from typing import Any

import numpydoc.docscrape_sphinx as docstrings
from jinja2.loaders import BaseLoader
from jinja2.sandbox import SandboxedEnvironment
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Let all docstrings share the environment of the first: the folders of their templates are the same."""
    environments: list[SandboxedEnvironment] = []

    def share_environment(loader: BaseLoader) -> SandboxedEnvironment:
        if not environments:
            environments.append(SandboxedEnvironment(loader=loader))
        return environments[0]

    docstrings.SandboxedEnvironment = share_environment
    return {"parallel_read_safe": True, "parallel_write_safe": True}
