r"""The simplest of several kernels whose left-out errors these data cannot distinguish.

The smallest criterion of several families belongs to the family that suits these rows, errors included: on
a few hundred rows of a smooth function a rough kernel is ahead by chance now and then, with many more degrees of
freedom. With the left-out errors :math:`e_i` of the best kernel and :math:`e_i(k)` of another one, and shares v of the
rows that sum to one,

.. math:: d_i = e_i^2(k) - e_i^2, \qquad \bar d = \textstyle\sum_i v_i d_i, \qquad
          \mathrm{se}^2 = \tfrac{N}{N - 1} \sum_i v_i^2 (d_i - \bar d)^2 ,

the kernel of fewest effective parameters :math:`\operatorname{tr} H` among those with :math:`\bar d \le \mathrm{se}` is
taken ([Breiman1984]_ section 3.4.3: the simplest tree within one standard error). Errors are paired by rows, so that
rows which all kernels miss do not make the standard error large. In the same way a search by slopes decides whether one
width for each input predicts better than a shared one (:mod:`~problems.estimators.chosen.kernel_search`), of classes by
the number of wrong rows: squares also fall where outputs come nearer to codes that were on their right side before, on
tables with hardly a wrong row by many standard errors.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from problems.estimators.chosen.families import family_name
from problems.estimators.chosen.judgement import EvaluatedKernel, Task, centred_points
from substrate.arrays import Array, is_device_array
from substrate.errors import DegenerateKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import leave_one_out_residuals, projected_diagonal
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system

__all__ = ["End", "LeftOutLosses", "prefer_simplest"]

#: Largest criterion of a kernel that is compared, as a multiple of the best one; beyond it kernels differ clearly.
_COMPARED = 1.5
#: Most effective parameters of a simpler kernel, as a share of the best kernel's.
_FEWER = 0.95
#: Most relative error of a decomposition at the gamma of a simpler kernel: beyond it rounding hides the machine.
_KNOWN = 1e-7
#: Rows below which a standard error says little.
_FEWEST = 10


class End(NamedTuple):
    """A kernel with its gamma, and the logarithm of the criterion there."""

    kernel: Kernel
    gamma: float
    value: float = np.inf


@dataclass(frozen=True, slots=True)
class LeftOutLosses:
    """The losses of a machine at rows left out, the shares of these rows, and its effective number of parameters."""

    losses: Array
    shares: Array
    freedom: float

    @classmethod
    def of(cls, end: End, task: Task) -> Self:
        """Leave every row out of the machine: squared errors, of several outputs the mean in units of their variances,
        and of classes, which share a gamma, whether the row is decoded to a wrong one.
        """
        weights = task.row_weights
        ridge = ridge_of(end.gamma, task.unit * weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateKernelWarning)  # of the chosen machine alone
            gram = Gram.of(end.kernel, centred_points(end.kernel, task.X))
        Y, diagonal = task.unit_targets(), projected_diagonal(gram, ridge)
        residuals = leave_one_out_residuals(solve_saddle_system(gram, Y, ridge).support_values, diagonal)
        losses = np.square(residuals).mean(axis=1)
        if task.pooled:
            book, numbers = np.unique(Y, axis=0, return_inverse=True)
            # all codes have the same length: the nearest one has the largest product
            losses = (((Y - residuals) @ book.T).argmax(axis=1) != numbers.ravel()).astype(np.float64)
        return cls(losses, weights / weights.sum(), float(ridge.size - ridge @ diagonal))

    def gain_over(self, other: "LeftOutLosses") -> tuple[float, float]:
        """Return by how much the mean of these losses is smaller than the mean of others, and its standard error."""
        n, gains = self.losses.size, other.losses - self.losses
        mean = float(self.shares @ gains)
        return mean, float(np.sqrt(n / (n - 1.0) * np.sum(np.square(self.shares * (gains - mean)))))


def prefer_simplest(judged: Sequence[EvaluatedKernel], task: Task) -> tuple[EvaluatedKernel, tuple[str, str] | None]:
    """Return the simplest of the judged kernels within a standard error of the best one, and a fact about it.

    For one output by the squares of left-out rows; otherwise the best one is returned.
    """
    best = min(judged, key=lambda candidate: candidate.score)
    n = int(task.Y.shape[0])
    usual = task.criterion == "loo" and task.Y.shape[1] == 1 and not task.pooled and task.border.plain
    if not usual or is_device_array(task.X) or n < _FEWEST or not 0.0 < best.score < np.inf:
        return best, None
    near = [candidate for candidate in judged if candidate.score <= _COMPARED * best.score and _is_known(candidate)]
    near = [candidate for candidate in near if candidate is not best]
    if not near:
        return best, None
    first, simplest = LeftOutLosses.of(_end_of(best), task), best
    fewest = _FEWER * first.freedom
    for candidate in near:
        machine = LeftOutLosses.of(_end_of(candidate), task)
        loss, error = first.gain_over(machine)
        if machine.freedom < fewest and loss <= error:
            simplest, fewest = candidate, machine.freedom
    if simplest is best:
        return best, None
    said = (
        f"{family_name(simplest.kernel)} with {fewest:.3g} effective parameters, for {family_name(best.kernel)} with "
        f"{first.freedom:.3g}, whose criterion is {best.score / simplest.score:.4g} of it"
    )
    return simplest, ("simplest kernel within a standard error", said)


def _end_of(candidate: EvaluatedKernel) -> End:
    return End(candidate.kernel, float(candidate.search.gamma[0]))


def _is_known(candidate: EvaluatedKernel) -> bool:
    """Return whether the best gamma is proved, and the machine there determined in double precision."""
    return candidate.error <= _KNOWN and all(row.passes for row in candidate.search.rows())
