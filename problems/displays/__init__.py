"""Pictures of models in scikit-learn's Display convention; matplotlib is imported when one is drawn.

``Display.from_estimator(model, ...)`` draws at once and returns a display, which keeps the plotted numbers as
attributes and can be drawn again by ``display.plot(ax=...)``. All elements can be distinguished without colour.
"""

from importlib import import_module
from typing import Any

#: The module of each display.
DISPLAYS = {
    "BasisSizeDisplay": "problems.displays.sizes",
    "CertificateDisplay": "problems.displays.residuals",
    "ClassificationDisplay": "problems.displays.classification",
    "ComponentFunctionsDisplay": "problems.displays.component_functions",
    "ComponentMapDisplay": "problems.displays.component_map",
    "CriterionDisplay": "problems.displays.criteria",
    "EvolutionDiagramDisplay": "problems.displays.paths",
    "IntervalDisplay": "problems.displays.intervals",
    "L1PathDisplay": "problems.displays.paths",
    "LeaveOneOutDisplay": "problems.displays.criteria",
    "PruningPathDisplay": "problems.displays.sizes",
    "RelevanceDisplay": "problems.displays.relevance",
    "ResidualsDisplay": "problems.displays.residuals",
    "RowInfluenceDisplay": "problems.displays.row_influence",
    "SupportVectorsDisplay": "problems.displays.support_vectors",
}

__all__ = [
    "BasisSizeDisplay",
    "CertificateDisplay",
    "ClassificationDisplay",
    "ComponentFunctionsDisplay",
    "ComponentMapDisplay",
    "CriterionDisplay",
    "EvolutionDiagramDisplay",
    "IntervalDisplay",
    "L1PathDisplay",
    "LeaveOneOutDisplay",
    "PruningPathDisplay",
    "RelevanceDisplay",
    "ResidualsDisplay",
    "RowInfluenceDisplay",
    "SupportVectorsDisplay",
]


def __getattr__(name: str) -> Any:
    if name in DISPLAYS:
        return getattr(import_module(DISPLAYS[name]), name)
    raise AttributeError(f"module 'problems.displays' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
