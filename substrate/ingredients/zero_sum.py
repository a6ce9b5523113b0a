r"""The condition :math:`1^T \alpha = 0`: stationarity in the bias, or, in the dual, a constraint whose multiplier is b.

[Pelckmans2005]_ below eq. (1), [Suykens2002]_ eq. (4). It is there because the bias is not penalised.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["ZeroSum", "zero_sum", "zero_sum_row"]

LABEL = "1'alpha = 0"


@dataclass(frozen=True, slots=True)
class ZeroSum:
    """The labelled constraint and the reading of its dual as the bias."""

    constraint: Any
    support_values: Any

    @property
    def multiplier(self) -> Array:
        """The bias b, in the paper's sign."""
        return np.asarray(self.constraint.dual_value, dtype=np.float64)


def zero_sum(support_values: Any) -> ZeroSum:
    """Build 1'alpha = 0.

    The dual maximises, so cvxpy minimises -y'alpha + ... + b (1'alpha): stationarity reads y = (K + D) alpha + b 1, and
    the multiplier is +b.
    """
    import cvxpy as cp

    constraint = cp.sum(support_values) == 0
    constraint.set_label(LABEL)
    return ZeroSum(constraint, support_values)


def zero_sum_row(support_values: Array, tolerance: float, data: Array | None = None) -> Row:
    """|1'alpha| against the sum of absolute values, of alpha and, for a solver's point, of the data gamma v y.

    Against alpha alone, the noise that a solver leaves where alpha = 0 (a constant target) could never pass.
    """
    total = float(np.abs(support_values).sum()) + (0.0 if data is None else float(np.abs(data).sum()))
    return Row(LABEL, float(abs(support_values.sum())), total, tolerance, "|1'alpha|")
