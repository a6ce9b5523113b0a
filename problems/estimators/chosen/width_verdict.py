r"""The verdict between a shared width and one per input: paired errors on rows that neither search has seen.

With the squared errors :math:`e_i^2(s), e_i^2(w)` of the machines with a shared width s and with one width per input w,
and weights v of the rows that sum to one (1/N where there are none),

.. math:: d_i = e_i^2(s) - e_i^2(w), \qquad \bar d = \textstyle\sum_i v_i d_i, \qquad
          \mathrm{se}^2 = \tfrac{N}{N - 1} \sum_i v_i^2 (d_i - \bar d)^2,

one width per input has to be better by more than a standard error, :math:`\bar d > \mathrm{se}` ([Breiman1984]_
section 3.4.3).

For classes that is not enough. The squared errors of labels -1 and +1 fall where outputs come nearer to the labels,
also where every row was on its right side before: on tables with hardly a wrong row they fall by many standard errors
while the number of wrong rows stays, or grows. So one width per input must also have fewer wrong rows, by more than a
standard error: with b the weight of the rows that the shared width alone gets wrong, and c that of those that one width
per input alone gets wrong,

.. math:: b > c \quad \text{and} \quad (b - c)^2 > \sum_{i:\, \text{wrong once}} v_i^2 ,

the standard error being that of b - c if both were equally good [McNemar1947]_. Of rows of equal weight, one wrong row
less is never enough, and two are where no other row differs. (The right-hand side is taken a hundredth larger, so that
beside one wrong row less another one of hardly any weight does not decide.)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array

__all__ = ["WidthComparison", "Wrong", "wrong_rows"]

#: Factor of the squared standard error of wrong rows.
_MORE = 1.01
#: Whether a row is decoded to a wrong class.
Wrong = NDArray[np.bool_]


def wrong_rows(outputs: Array, codes: Array) -> Wrong:
    """Return whether the class whose code is nearest to the outputs is not that of the row; classes are the distinct
    codes.
    """
    book, numbers = np.unique(codes, axis=0, return_inverse=True)
    # all codes have the same length: the nearest one has the largest product
    return np.asarray((outputs @ book.T).argmax(axis=1) != numbers.ravel())


@dataclass(frozen=True, slots=True)
class WidthComparison:
    """Mean square errors: shared width, one width per input; the standard error of their difference; and wrong rows.

    ``wrong`` has the numbers of wrong rows of both, of those that one of them alone gets wrong, and whether one width
    per input has fewer by more than a standard error; None in regression.
    """

    shared: float
    each: float
    error: float
    wrong: tuple[int, int, int, bool] | None = None

    @classmethod
    def of(cls, losses: Array, wrong: Wrong | None, weights: Array | None, unit: float) -> "WidthComparison":
        """Build the comparison from squared errors and wrong rows, in columns for the shared width and for one per
        input.

        ``unit`` is that of the squared errors.
        """
        n = losses.shape[0]
        v = np.ones(n) if weights is None else np.asarray(weights)
        v = v / v.sum()
        gains = losses[:, 0] - losses[:, 1]
        error = float(np.sqrt(np.sum(np.square(v * (gains - v @ gains))) * n / max(n - 1, 1)))
        shared, each = unit * float(v @ losses[:, 0]), unit * float(v @ losses[:, 1])
        if wrong is None:
            return cls(shared, each, unit * error)
        v = v / v.max()  # ones where weights are equal: counts are whole numbers, and their squares exact
        sides = wrong[:, 0].astype(float) - wrong[:, 1]
        fewer = float(v @ sides)
        enough = bool(fewer > 0.0 and fewer**2 > _MORE * float(np.square(v) @ np.square(sides)))
        counts = (int(wrong[:, 0].sum()), int(wrong[:, 1].sum()), int(np.abs(sides).sum()))
        return cls(shared, each, unit * error, (*counts, enough))

    @property
    def takes_each(self) -> bool:
        """Whether one width per input is better by all that is asked for."""
        return self.shared - self.each > self.error and (self.wrong is None or self.wrong[3])

    def __str__(self) -> str:
        way = "one per input" if self.takes_each else "shared"
        numbers = f"{self.each:.4g} against {self.shared:.4g}, standard error of the difference {self.error:.2g}"
        said = f"{way}; halves of the rows predicted from the other half: one per input {numbers}"
        if self.wrong is None:
            return said
        shared, each, once, _ = self.wrong
        return f"{said}; wrong rows {each} against {shared}, {once} of them wrong by one of the two only"
