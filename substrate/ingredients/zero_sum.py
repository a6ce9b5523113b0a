r"""The condition :math:`1^T \alpha = 0`: stationarity in the bias, or, in the dual, a constraint whose multiplier is b.

In classification the condition reads :math:`y^T \alpha = 0`. [Pelckmans2005]_ below eq. (1) and in (5), [Suykens2002]_
eq. (4). It holds because the bias is not penalised.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["ZeroSum", "zero_sum", "zero_sum_row"]


@dataclass(frozen=True, slots=True)
class ZeroSum:
    """The labelled constraint and the reading of its dual as the bias."""

    constraint: Any
    terms: Any

    @property
    def multiplier(self) -> Array:
        """Return the bias b, in the paper's sign."""
        return np.asarray(self.constraint.dual_value, dtype=np.float64)


def zero_sum(terms: Any, letter: str = "1") -> ZeroSum:
    """Build 1'terms = 0, column by column, where the terms are alpha (letter 1) or y∘alpha (letter y).

    The dual maximises, so cvxpy minimises -y'alpha + ... + b (1'alpha): stationarity reads y = (K + D) alpha + b 1, and
    the multiplier is +b.
    """
    import cvxpy as cp

    constraint = cp.sum(terms, axis=0 if terms.ndim == 2 else None) == 0
    constraint.set_label(f"{letter}'alpha = 0")
    return ZeroSum(constraint, terms)


def zero_sum_row(
    terms: Array, tolerance: float, data: Array | None = None, letter: str = "1", of: str = "alpha"
) -> Row:
    """Compare |1'terms| of alpha or of the errors with the sum of absolute values: of the terms and, at a solver's
    point, of gamma v y.

    Against alpha alone, the noise that a solver leaves where alpha = 0 (a constant target) could never pass.
    """
    total = float(np.abs(terms).sum()) + (0.0 if data is None else float(np.abs(data).sum()))
    return Row(
        name=f"{letter}'{of} = 0",
        value=float(np.abs(terms.sum(axis=0)).max()),
        scale=total,
        tolerance=tolerance,
        formula=f"|{letter}'{of}|",
    )
