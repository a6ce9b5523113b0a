"""What is asked of a machine's answer: the fitted values of each substrate, as rows over the columns of a program."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.cone_program import IntegerArray

__all__ = ["Question", "questions", "summed"]


@dataclass(frozen=True, slots=True)
class Question:
    """Fitted values F x (columns of the program; constants apart), the targets, and what ``predict`` returns now."""

    columns: IntegerArray
    F: Array
    y: Array
    fitted: Callable[[], Array]
    about: str


def questions(compiled: list[CompiledSubstrate], columns: dict[int, int]) -> list[Question]:
    """One for each substrate; ``columns`` says where the variables of each begin."""
    return [_question([one], columns, "fitted values") for one in compiled]


def summed(compiled: list[CompiledSubstrate], columns: dict[int, int]) -> Question | None:
    """The sum of the substrates' fitted values, which ``predict`` of the result returns; None where rows differ."""
    first = compiled[0].substrate
    same = all(
        one.substrate.X is first.X
        or (one.substrate.X.shape == first.X.shape and not bool((one.substrate.X != first.X).sum()))
        for one in compiled[1:]
    )
    return _question(compiled, columns, "sums of the substrates' fitted values") if same else None


def _question(compiled: list[CompiledSubstrate], columns: dict[int, int], about: str) -> Question:
    places, blocks = [], []
    for one in compiled:
        start = columns[one.z.id]
        places.append(np.arange(start, start + one.z.size))
        blocks.append(one.in_variables())
        if one.substrate.bias:
            places.append(np.array([columns[one.shift.id]]))
            blocks.append(np.ones((one.substrate.n, 1)))

    def fitted() -> Array:
        return np.asarray(np.sum([one.fitted_values() for one in compiled], axis=0))

    return Question(np.concatenate(places), np.hstack(blocks), compiled[0].substrate.y, fitted, about)
