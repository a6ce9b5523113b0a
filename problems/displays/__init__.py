"""Pictures of models in scikit-learn's Display convention; matplotlib is imported when one is drawn.

``Display.from_estimator(model, ...)`` draws at once and returns a display, which keeps the plotted numbers as
attributes and can be drawn again by ``display.plot(ax=...)``. All elements can be distinguished without colour.
"""

from problems.displays.component_functions import ComponentFunctionsDisplay
from problems.displays.component_map import ComponentMapDisplay
from problems.displays.criterion import CriterionDisplay
from problems.displays.evolution import EvolutionDiagramDisplay
from problems.displays.intervals import IntervalDisplay
from problems.displays.residuals import ResidualsDisplay
from problems.displays.support_vectors import SupportVectorsDisplay

__all__ = [
    "ComponentFunctionsDisplay",
    "ComponentMapDisplay",
    "CriterionDisplay",
    "EvolutionDiagramDisplay",
    "IntervalDisplay",
    "ResidualsDisplay",
    "SupportVectorsDisplay",
]
