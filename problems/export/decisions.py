r"""From the outputs of two-class machines to classes and probabilities, as formulas.

The same steps as :mod:`problems.estimators.shared.coded` and :mod:`substrate.intervals.calibration` take with arrays:
scores by the code book, the first class of the largest score, its margin :math:`s_c - \max_{j \ne c} s_j` through the
map of the calibration, moved to the side of the decision, and divided by the sum.
"""

from collections.abc import Sequence
from typing import Any

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.intervals.calibration import DECIDED, SigmoidMap
from substrate.kernels.nodes import Node, constant, greater, largest, select

__all__ = ["decide", "express_probabilities", "score_classes"]


def score_classes(outputs: Sequence[Node], coding: str, book: Array) -> list[Node]:
    """Return the decision values: f for two classes, one score per class for more."""
    if book.shape[0] == 2 or coding == "one_vs_rest":
        return list(outputs)
    columns = range(book.shape[1])
    return [sum((constant(row[k]) * outputs[k] for k in columns), constant(0.0)) / float(book.shape[1]) for row in book]


def decide(scores: Sequence[Node]) -> Node:
    """Return the number of the class that is decided for: the first of the largest scores."""
    if len(scores) == 1:
        return select(greater(scores[0], 0.0), 1.0, 0.0)
    number, best = constant(0.0), scores[0]
    for place, score in enumerate(scores[1:], start=1):
        is_better = greater(score, best)
        number, best = select(is_better, float(place), number), select(is_better, score, best)
    return number


def express_probabilities(maps: Sequence[Any], scores: Sequence[Node], decided: Node) -> list[Node]:
    """Return the probabilities of all classes, which sum to one, in addition to the decision."""
    if len(scores) == 1:
        second = _mapped(maps[0], scores[0])
        values = [1.0 - second, second]
    else:
        margins = [score - other for score, other in zip(scores, _largest_of_others(scores), strict=True)]
        values = [_mapped(map_, margin) for map_, margin in zip(maps, margins, strict=True)]
    sided = []
    for place, value in enumerate(values):
        is_other = greater(abs(decided - float(place)), 0.5)
        at_most_half = -largest(-value, -0.5)
        sided.append(select(is_other, at_most_half, largest(value, DECIDED)))
    total = sum(sided, constant(0.0))
    return [value / total for value in sided]


def _largest_of_others(scores: Sequence[Node]) -> list[Node]:
    """Return the largest score of all other classes, for every class, by the largest before and after it."""
    before, after = [scores[0]], [scores[-1]]
    for score in scores[1:]:
        before.append(largest(before[-1], score))
    for score in scores[-2::-1]:
        after.insert(0, largest(after[0], score))
    last = len(scores) - 1
    between = [largest(first, second) for first, second in zip(before, after[2:], strict=False)]
    return [after[1], *between, before[last - 1]]


def _mapped(map_: Any, score: Node) -> Node:
    """Return the probability of a score by the map of a calibration."""
    if not isinstance(map_, SigmoidMap):
        raise DeclarationError(
            "probabilities by isotonic regression are a table and no formula; fit with "
            "calibration='sigmoid', or export with probabilities=False"
        )
    return 1.0 / (1.0 + (-(map_.slope * score + map_.offset)).exp())
