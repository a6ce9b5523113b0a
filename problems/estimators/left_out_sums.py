"""Leave-one-out of rows that are read in a pass and not kept: the criteria, from sums over them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.closed_form.reduced_left_out import LeftOutRows

__all__ = ["LeftOutSums", "sum_left_out"]


@dataclass(frozen=True, slots=True)
class LeftOutSums:
    """What the machines say of rows when fitted without each, one number or one an output.

    ``press`` is the predicted residual sum of squares, ``degrees_of_freedom`` the trace of H, ``misclassification`` the
    share of rows decoded to a wrong class, None in regression.
    """

    n_rows: int
    press: Any
    mean_absolute: Any
    gcv: Any
    degrees_of_freedom: float
    misclassification: float | None
    certificate: Certificate

    @property
    def mean_square(self) -> Any:
        """PRESS over the number of rows."""
        return self.press / self.n_rows


def sum_left_out(
    parts: Iterable[LeftOutRows], n_rows: int, one: bool, wrong: Callable[[Array, Array], int | None]
) -> LeftOutSums:
    """Sums over consecutive parts; ``wrong`` counts the rows of a part that are decoded to a wrong class."""
    squares: Any = 0.0
    sizes: Any = 0.0
    errors: Any = 0.0
    freedom, strange = 0.0, 0
    classified = False
    for part in parts:
        part.refuse_undetermined()
        residuals = part.residuals
        squares = squares + np.square(residuals).sum(axis=0)
        sizes = sizes + np.abs(residuals).sum(axis=0)
        errors = errors + np.square(part.Y - part.fitted).sum(axis=0)
        freedom += float(part.leverages.sum())
        outputs = part.Y - residuals
        count = wrong(outputs[:, 0] if one else outputs, part.Y)
        classified, strange = count is not None, strange + (count or 0)
    gcv = n_rows * errors / (n_rows - freedom) ** 2
    press, absolute, gcv = (float(value[0]) if one else value for value in (squares, sizes / n_rows, gcv))
    share = strange / n_rows if classified else None
    return LeftOutSums(n_rows, press, absolute, gcv, freedom, share, Certificate("", (), ()))
