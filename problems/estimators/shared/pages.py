"""The pages that estimators declare, imported when they are declared: a page imports cvxpy, and fast paths do not."""

from importlib import import_module
from typing import Any

__all__ = ["page_named"]


def page_named(name: str) -> Any:
    """The page of that name."""
    return import_module(f"problems.{name}")
