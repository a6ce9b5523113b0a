"""Stub."""

from problems.command_line.fit import Fit


def report(fit: Fit, model_path: str | None) -> str:
    """Stub."""
    return ""
