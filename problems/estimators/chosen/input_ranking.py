r"""The ranking of inputs by backward selection.

From all inputs on, one is removed at a time: the one without which the criterion of the machine, each with its own
gamma, is smallest,

.. math:: A_d = \{1, \dots, d\}, \qquad A_{k-1} = A_k \setminus \Big\{ \operatorname*{arg\,min}_{j \in A_k}
          \min_\gamma F(A_k \setminus \{j\}, \gamma) \Big\},

with F the variance of :mod:`substrate.left_out.criteria` unless another criterion is named: level 3 of the
evidence framework, as LS-SVMlab's ``bay_lssvmARD`` has it ([Suykens2002b]_ chapter 4). The gamma of every set is the
best of its range with a lower bound, so that a removal is proved where it is below the bounds of the others.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.chosen.rules import is_families
from problems.estimators.shared.checks import names_columns
from substrate.arrays import Array
from substrate.certificate import Certificate, Row, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.kernels import as_kernel
from substrate.left_out.criteria import OF_SPECTRUM
from substrate.robust_weights import check_choice
from substrate.values import Record

__all__ = ["InputRanking", "rank_inputs"]

#: Criteria this near to the smallest one are equal up to rounding, and the last input of them goes first.
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class InputRanking(Record):
    """The result of ``rank_inputs``.

    Attributes
    ----------
    order : array of shape (n_features,)
        Numbers of the inputs, from the one that was kept longest to the one that was removed first.
    criterion, criterion_lower_bound : array of shape (n_features,)
        Entry k belongs to the machine on the first k + 1 of them, at its best gamma.
    gamma : array of shape (n_features,)
        The gammas of these machines.
    selected : array
        The inputs of the machine with the smallest criterion, ascending.
    is_proved : array of bool of shape (n_features,)
        Whether the set of k + 1 inputs is proved to be the best that the removal of one input from the set before
        could give; True for the set of all inputs.
    certificate : Certificate
        The largest gap between criterion and lower bound along the way.
    """

    order: NDArray[np.intp]
    criterion: Array
    criterion_lower_bound: Array
    gamma: Array
    selected: NDArray[np.intp]
    is_proved: NDArray[np.bool_]
    certificate: Certificate


def rank_inputs(self: Any, X: Any, y: Any, sample_weight: Any = None, *, criterion: str = "evidence") -> InputRanking:
    """Rank the inputs by backward selection; the model itself does not change.

    Parameters
    ----------
    X, y, sample_weight
        As for :meth:`fit`, with one target.
    criterion : {"evidence", "loo", "gcv"}, default="evidence"
        How machines on fewer inputs are judged, in the place of ``cv``: d (d + 1) / 2 machines for d inputs.

    Returns
    -------
    InputRanking
        ``order``, the ``selected`` inputs, the criterion of every step with its lower bound, and a certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import LSSVMRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3.0, 3.0, (60, 3))
    >>> ranking = LSSVMRegressorCV().rank_inputs(X, np.sinc(X[:, 1]) + 0.1 * rng.standard_normal(60))
    >>> ranking.order[0], ranking.selected
    (np.int64(1), array([1]))
    """
    check_choice(criterion, tuple(OF_SPECTRUM), "criterion")
    for kernel in (self.kernel,) if self.kernels is None else () if is_families(self.kernels) else self.kernels:
        if kernel == "precomputed" or names_columns(as_kernel(kernel)):
            raise DeclarationError(
                f"rank_inputs removes inputs one by one, and {kernel!r} is bound to some of them, or to rows; use a "
                "kernel of all inputs, for instance RBF() or RBF(sigma='each')"
            )
    machine = clone(self).set_params(cv=criterion)
    checked, targets, _ = machine._check_data(X, y, sample_weight)
    if np.ndim(targets) != 1:
        raise DataError(f"rank_inputs ranks the inputs of one target, received {np.shape(targets)[1]}; rank each")
    count, inexact = int(checked.shape[1]), 0

    def fit(inputs: list[int]) -> Array:
        """Return the criterion, its lower bound and the gamma of the machine on some inputs."""
        nonlocal inexact
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # counted on the certificate
            fitted = clone(machine).fit(checked[:, inputs], targets, sample_weight=sample_weight)
        inexact += not fitted.certificate_.holds
        return np.array([fitted.criterion_, fitted.criterion_lower_bound_, fitted.gamma_], dtype=np.float64)

    inputs, removed = list(range(count)), list[int]()
    steps = [fit(inputs)]
    proved = [True]
    while len(inputs) > 1:
        tried = np.array([fit([k for k in inputs if k != number]) for number in inputs])
        least = _last_smallest(tried[:, 0])
        proved.append(bool((tried[least, 0] <= np.delete(tried[:, 1], least)).all()))
        steps.append(tried[least])
        removed.append(inputs.pop(least))
    order = np.array([*inputs, *reversed(removed)], dtype=np.intp)
    values, bounds, gammas = np.array(steps[::-1]).T
    best = _last_smallest(values[::-1])  # of equal ones the fewest inputs
    positive = values > 0.0
    gap = float(np.max(np.where(positive, (values - bounds) / np.where(positive, values, 1.0), 0.0)))
    rows = (
        Row("gap", gap, 1.0, float(self.gap), "(F - bound) / F, the largest"),
        Row("machines whose certificate fails", float(inexact), 1.0, 0.5, "number of sets of inputs"),
    )
    facts = (
        ("criterion", f"{criterion}, each set of inputs at its own gamma"),
        ("removals proved", f"{sum(proved)} of {count}"),
        ("conditional on", "removals that came before: other sets of as many inputs may be better"),
    )
    certificate = Certificate("Inputs by backward selection", rows, facts)
    warn_unless_holds(certificate, "print the certificate of the ranking")
    return InputRanking(
        order=order,
        criterion=values,
        criterion_lower_bound=bounds,
        gamma=gammas,
        selected=np.sort(order[: count - best]),
        is_proved=np.array(proved[::-1]),
        certificate=certificate,
    )


def _last_smallest(values: Array) -> int:
    """Return the last place of the smallest value, up to rounding."""
    least = float(values.min())
    return int(np.flatnonzero(values <= least + _EQUAL * abs(least))[-1])
