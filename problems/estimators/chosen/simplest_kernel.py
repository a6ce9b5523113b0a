r"""The simplest of several kernels whose left-out errors no data of this size tell apart.

The smallest criterion of several families is that of the family that suits these rows, errors included: on
a few hundred rows of a smooth function a rough kernel is ahead by chance now and then, with many more degrees of
freedom. With the left-out errors :math:`e_i` of the best kernel and :math:`e_i(k)` of another one, and shares v of the
rows that sum to one,

.. math:: d_i = e_i^2(k) - e_i^2, \qquad \bar d = \textstyle\sum_i v_i d_i, \qquad
          \mathrm{se}^2 = \tfrac{N}{N - 1} \sum_i v_i^2 (d_i - \bar d)^2 ,

the kernel of fewest effective parameters :math:`\operatorname{tr} H` among those with :math:`\bar d \le \mathrm{se}` is
taken ([Breiman1984]_ section 3.4.3: the simplest tree within one standard error). Errors are paired by rows, so that
rows which all kernels miss do not make the standard error large.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel
from problems.estimators.chosen.families import family_name
from problems.estimators.chosen.tasks import Task, centred_points
from substrate.arrays import Array
from substrate.errors import DegenerateKernelWarning
from substrate.gram import Gram
from substrate.least_squares.leave_one_out import leave_one_out_residuals, projected_diagonal
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import solve_saddle_system, target_unit
from substrate.namespaces import is_device_array

__all__ = ["prefer_simplest"]

#: Most criterion of a kernel that is compared, as a multiple of the best one: what is beyond it is told apart.
_COMPARED = 1.5
#: By how much the price of the one that is taken exceeds its criterion over the smallest, to be above rounding.
_ABOVE = 1e-12
#: Most effective parameters of a simpler kernel, as a share of those of the best one.
_FEWER = 0.95
#: Most relative error of a decomposition at the gamma of a simpler kernel: beyond it rounding hides the machine.
_KNOWN = 1e-7
#: Rows below which a standard error says little.
_FEWEST = 10


@dataclass(frozen=True, slots=True)
class _Machine:
    """The squared left-out errors of a kernel at its gamma, and its effective number of parameters."""

    squares: Array
    freedom: float

    @classmethod
    def of(cls, candidate: EvaluatedKernel, task: Task) -> "_Machine":
        weights = np.ones(task.Y.shape[0]) if task.weights is None else np.asarray(task.weights)
        ridge = Regularization(float(candidate.search.gamma[0])).ridge(weights)
        (points,) = centred_points(candidate.kernel, task.X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateKernelWarning)  # of the chosen machine alone
            gram = Gram.of(candidate.kernel, points)
        alpha = solve_saddle_system(gram, task.Y[:, 0] / target_unit(task.Y), ridge).support_values
        diagonal = projected_diagonal(gram, ridge)
        residuals = leave_one_out_residuals(np.reshape(alpha, (-1, 1)), diagonal)[:, 0]
        return cls(np.square(residuals), float(ridge.size - ridge @ diagonal))


def prefer_simplest(judged: list[EvaluatedKernel], task: Task) -> list[EvaluatedKernel]:
    """Return the judged kernels, the simplest within a standard error of the best one at a price that makes it win.

    For one output by the squares of left-out rows; otherwise they are returned as they are.
    """
    best = min(judged, key=lambda candidate: candidate.score)
    n = int(task.Y.shape[0])
    usual = task.criterion == "loo" and task.Y.shape[1] == 1 and not task.pooled and task.border.plain
    if not usual or is_device_array(task.X) or n < _FEWEST or not 0.0 < best.score < np.inf:
        return judged
    near = [candidate for candidate in judged if candidate.score <= _COMPARED * best.score and _is_known(candidate)]
    near = [candidate for candidate in near if candidate is not best]
    if not near:
        return judged
    shares = np.full(n, 1.0 / n) if task.weights is None else np.asarray(task.weights) / float(np.sum(task.weights))
    first, simplest = _Machine.of(best, task), best
    fewest = _FEWER * first.freedom
    for candidate in near:
        machine = _Machine.of(candidate, task)
        differences = machine.squares - first.squares
        mean = float(shares @ differences)
        error = float(np.sqrt(n / (n - 1.0) * np.sum(np.square(shares * (differences - mean)))))
        if machine.freedom < fewest and mean <= error:
            simplest, fewest = candidate, machine.freedom
    if simplest is best:
        return judged
    price = max(simplest.score / best.score, 1.0) * (1.0 + _ABOVE)
    said = (
        f"{family_name(simplest.kernel)} with {fewest:.3g} effective parameters, for {family_name(best.kernel)} with "
        f"{first.freedom:.3g}, whose criterion is {best.score / simplest.score:.4g} of it"
    )
    fact = ("simplest kernel within a standard error", said)
    # the bound over all candidates is after this price, and criterion_lower_bound_ before it
    return [
        replace(candidate, facts=(*candidate.facts, fact), price=price if candidate is simplest else candidate.price)
        for candidate in judged
    ]


def _is_known(candidate: EvaluatedKernel) -> bool:
    """Return whether the best gamma is proved, and the machine there determined in double precision."""
    return candidate.error <= _KNOWN and all(row.passes for row in candidate.search.rows())
