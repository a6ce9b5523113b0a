r"""Which columns of the LS-SVM's linear system to keep: by rank of the support values, or by echelon reduction.

*Ranking* keeps the n columns with the largest criterion: :math:`|\alpha_i|` in Ada-Pinv, :math:`\alpha_i` itself in
IP-LSSVM, where a negative value means a pattern well on its own side [Carvalho2006]_ sections 3.4 and 3.5.

*Echelon reduction* goes through the columns from left to right, eliminates what the kept ones explain with partial
pivoting over the rows, and drops a column of which nothing above a threshold is left [Carvalho2006]_ section 3.3. The
bias column comes first and stays. While row i is no pivot, column i still carries the :math:`1/\gamma` of its diagonal:
a threshold below :math:`1/\gamma` drops next to nothing whatever the kernel, and one slightly above drops what the
kernel explains. So the threshold is

.. math:: \frac1\gamma + \text{tolerance} \cdot \max_i k(x_i, x_i) ,

which makes the tolerance a share of the kernel's own size. The result depends on the order of the rows, as published.
"""

from numbers import Integral
from typing import Any

import numpy as np

from substrate.arrays import Array, positive
from substrate.errors import DeclarationError

__all__ = ["echelon_columns", "echelon_threshold", "ranked_columns", "support_count"]

#: Criteria this close, relative to the largest, are equal: the earlier row then goes first.
_DIGITS = 10
#: Columns that are brought up to date together.
_BLOCK = 16


def support_count(n_support: Any, n: int, name: str = "n_support") -> int:
    """How many of n patterns: an integer counts them, a float in (0, 1] is a fraction, rounded, at least one."""
    wanted = "a count from 1 to the number of patterns (an integer) or a fraction in (0, 1] (a float)"
    if isinstance(n_support, np.ndarray) and n_support.ndim == 0:
        n_support = n_support[()]
    if isinstance(n_support, Integral) and not isinstance(n_support, (bool, np.bool_)):
        count = int(n_support)
        if not 1 <= count <= n:
            received = repr(count) if abs(count) < 10**12 else "a number of more than twelve digits"
            raise DeclarationError(f"{name} must be {wanted}, received {received} for {n} patterns")
        return count
    try:
        fraction = positive(n_support, name)
    except DeclarationError as error:
        raise DeclarationError(f"{name} must be {wanted}, received {n_support!r}") from error
    if fraction > 1.0:
        raise DeclarationError(f"{name} must be {wanted}, received {n_support!r}")
    return max(1, round(fraction * n))


def ranked_columns(criterion: Array, count: int) -> Any:
    """The patterns with the largest criterion, in the order of the rows.

    :place [Carvalho2006]_ sections 3.4 and 3.5: Ada-Pinv and IP-LSSVM, columns by rank
    """
    largest = float(np.abs(criterion).max(initial=0.0))
    rounded = np.round(criterion / largest, _DIGITS) if largest > 0.0 else criterion
    return np.sort(np.argsort(-rounded, kind="stable")[:count])


def echelon_threshold(diagonal: Array, ridge: Array, tolerance: float) -> float:
    """What the tolerance means in the units of A: 1/gamma and a share of the largest kernel value."""
    return float(ridge.max() + positive(tolerance, "tolerance") * np.abs(diagonal).max())


def echelon_columns(A: Array, threshold: float) -> Any:
    """The patterns whose columns keep an entry above the threshold when the kept columns before them are eliminated.

    Gaussian elimination, a block of columns at a time: the kept columns of earlier blocks are applied to it at once,
    its own one by one, and dropped columns cost nothing afterwards.

    :place [Carvalho2006]_ section 3.3: LS2-SVM, echelon reduction under a tolerance
    """
    from scipy.linalg import solve_triangular

    n = A.shape[0]
    order, L, kept = np.arange(n), np.zeros((n, n), order="F"), list[int]()
    for start in range(0, n, _BLOCK):
        block, k = np.asfortranarray(A[order, start : start + _BLOCK]), len(kept)
        if k:
            block[:k] = solve_triangular(L[:k, :k], block[:k], lower=True, unit_diagonal=True, check_finite=False)
            block[k:] -= L[k:, :k] @ block[:k]
        for column in range(block.shape[1]):
            k = len(kept)
            pivot = k + int(np.abs(block[k:, column]).argmax())
            if start + column > 0 and abs(block[pivot, column]) <= threshold:
                continue
            for rows in (order, L[:, :k], block):
                rows[[k, pivot]] = rows[[pivot, k]]
            L[k, k] = 1.0
            if block[k, column] != 0.0:
                L[k + 1 :, k] = block[k + 1 :, column] / block[k, column]
                block[k + 1 :, column + 1 :] -= np.outer(L[k + 1 :, k], block[k, column + 1 :])
            kept.append(start + column)
    return np.array(kept[1:], dtype=np.intp) - 1
