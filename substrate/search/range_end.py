r"""Where the default range of a hyper-parameter ends: one rule for every search.

A search has a lower bound over a range, and the bound gets worse, or is lost, where rounding hides the machine. A range
may be ended before that, for a proof, at a price: with :math:`F` the criterion at the choice, :math:`F_\star` the least
criterion known of any range, and :math:`F_0` a criterion that needs no bound,

.. math:: F \le \max\big( (1 + p) F_\star, \; F_0 \big), \qquad p = 1/100, \qquad
          F_0 = 10^{-12} \operatorname{var}(y) ,

and p = 1/20 where nothing nearer to :math:`F_\star` can be proved.

The root of :math:`F_0` is a millionth of the spread of y, the default accuracy of fitted values: of nearly noise-free
targets the criterion falls with every decade until rounding decides, and machines below :math:`F_0` are as good as each
other. Among those the smoothest is chosen. A proof that costs more is not worth having: the better machine is returned,
and its certificate fails.

What is beyond the range is not bounded, but it is looked at. With :math:`B` the least criterion that was seen there, or
that is to be expected if the criterion goes on falling as it did in the last decade,

.. math:: F - B \le \tfrac{1}{11} F + F_0

is a row of the certificate, so that a choice which holds is within a tenth of what a wider range is expected to give.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = [
    "HIGHEST_PRICE",
    "NEGLIGIBLE",
    "PRICE",
    "STEP",
    "affordable_limit",
    "end_row",
    "is_affordable",
    "least_beyond",
]

#: How much worse, relatively, the best machine of a range with a proof may be, and where there is no other proof.
PRICE, HIGHEST_PRICE = 0.01, 0.05
#: Criterion, as a share of the variance of y, that needs no bound.
NEGLIGIBLE = 1e-12
#: Share of the criterion that a wider range may save where a certificate holds: 1 - 1/1.1.
_SAVED = 1.0 / 11.0
#: A criterion larger than the best one by this factor at the end of a range has turned before it.
_TURNED = 1.1
#: The factor of a step by which a fall is measured, half a decade, and over how many steps beyond it is continued.
STEP, _STEPS = 10.0**0.5, 20


def is_affordable(values: Any, best: Any, gap: float, negligible: Any = 0.0, price: float = PRICE) -> bool:
    """Return whether every criterion is worse than the best one by no more than a proof may cost, or negligible."""
    return bool((np.asarray(values) <= affordable_limit(best, gap, negligible, price)).all())


def affordable_limit(best: Any, gap: float, negligible: Any = 0.0, price: float = PRICE) -> Array:
    """Return the largest criterion that a proof may cost: the price, or the gap, above the best one, or negligible."""
    return np.asarray(np.maximum((1.0 + max(gap, price)) * np.asarray(best), negligible))


def least_beyond(best: Any, at_end: Any, before_end: Any, before_that: Any) -> Array:
    """Estimate the criterion ten decades beyond an end, from its values there and one and two steps before it.

    Where it is above the ``best`` one by more than a tenth at the end, it has turned: it is expected to stay.

    A step is half a decade, ``STEP``. The falls of one step after the other are continued as a geometric series, which
    is exact for a power of the parameter plus a constant, and never below zero; where the criterion does not fall, it
    is expected to stay.
    """
    last, before = np.asarray(before_end) - at_end, np.asarray(before_that) - np.asarray(before_end)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.clip(np.where(before > 0.0, last / before, 1.0), 0.0, 1.0)
    falls = np.maximum(last, 0.0) * np.sum([ratio**k for k in range(1, _STEPS + 1)], axis=0)
    return np.asarray(np.where(at_end <= _TURNED * np.asarray(best), np.maximum(at_end - falls, 0.0), at_end))


def end_row(name: str, values: Any, beyond: Any, negligible: Any, range_option: str | None = None) -> Row:
    """Return the certificate row of what the worst output could gain beyond a range.

    ``range_option`` is the parameter that widens the range.
    """
    rows = [
        Row(
            name=f"range of {name}",
            value=max(float(value - best), 0.0),
            scale=float(value + floor / _SAVED),
            tolerance=_SAVED,
            formula=f"criterion - least one to expect beyond the range; {range_option or f'{name}_range'} widens it",
        )
        for value, best, floor in np.broadcast(np.atleast_1d(values), np.atleast_1d(beyond), np.atleast_1d(negligible))
    ]
    return max(rows, key=lambda row: row.relative)
