"""Pictures of models in scikit-learn's Display convention; matplotlib is imported when one is drawn.

``Display.from_estimator(model, ...)`` draws at once and returns a display, which keeps the plotted numbers as
attributes and can be drawn again by ``display.plot(ax=...)``. All elements can be distinguished without colour.
"""

from importlib import import_module
from typing import Any

#: The module of each display.
DISPLAYS = {
    "ComponentFunctionsDisplay": "problems.displays.component_functions",
    "ComponentMapDisplay": "problems.displays.component_map",
    "CriterionDisplay": "problems.displays.criterion",
    "EvolutionDiagramDisplay": "problems.displays.evolution",
    "IntervalDisplay": "problems.displays.intervals",
    "ResidualsDisplay": "problems.displays.residuals",
    "SupportVectorsDisplay": "problems.displays.support_vectors",
}

__all__ = [
    "ComponentFunctionsDisplay",
    "ComponentMapDisplay",
    "CriterionDisplay",
    "EvolutionDiagramDisplay",
    "IntervalDisplay",
    "ResidualsDisplay",
    "SupportVectorsDisplay",
]


def __getattr__(name: str) -> Any:
    if name in DISPLAYS:
        return getattr(import_module(DISPLAYS[name]), name)
    raise AttributeError(f"module 'problems.displays' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
