r"""The LS-SVM saddle system by conjugate gradients among the vectors that sum to zero, up to a stated accuracy.

On the subspace :math:`1^T a = 0` the bias drops out and :math:`A = K + D` remains positive definite: one system per
output, where eliminating the bias needs one more for the ones ([Suykens2002]_, end of section 2). A preconditioner M is
projected onto the subspace,

.. math:: z = M^{-1} r - M^{-1} 1\, \frac{1^T M^{-1} r}{1^T M^{-1} 1} ,

which makes no difference between r and r + c 1 [Gould2001]_. The residual that remains, about its weighted mean b,
bounds the distance of the fitted values from those of the exact optimum
(:mod:`substrate.least_squares.saddle_certificate`),

.. math:: \|f - f^\star\|_v \le \|y - K a - D a - b 1\|_v .

With further columns that are not penalised (:mod:`~substrate.least_squares.border`) Z is in the place of 1, and
residuals are taken about Z c.

So the iteration stops where the accuracy that was asked for is proved. The residual that decides is computed anew from
a product with K, not carried along.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.rows import scale_of, spread_of
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import target_unit
from substrate.least_squares.stored_kernel import SampledInverse, SymmetricMap
from substrate.progress import LateProgress

__all__ = ["Patience", "ProjectedSolution", "solve_by_projected_gradients"]

#: Share of the requested accuracy at which the iteration stops: the rest is for rounding.
_SHARE = 0.5
#: How often a residual computed anew may turn out larger than the one carried along.
_MOST_RESTARTS = 4


@dataclass(frozen=True, slots=True)
class Patience:
    """``most`` iterations; after every ``judged``, none where the condition seen so far would need more than that."""

    most: int
    judged: int


@dataclass(frozen=True, slots=True)
class ProjectedSolution:
    """Support values and bias of every output, K alpha, and a record of the iteration.

    ``reached`` is the residual as a share of the spread of y, of the output where that is largest; ``reason`` states
    why the iteration ended above the tolerance, and is empty where it did not. ``slopes`` are the coefficients of the
    columns of the border beside the constant.
    """

    support_values: Array
    bias: Array
    products: Array
    iterations: int
    reached: float
    reason: str = ""
    slopes: Array | None = None

    @property
    def converged(self) -> bool:
        """Whether every output is as accurate as requested."""
        return not self.reason


@np.errstate(all="ignore")  # what is not finite never counts as converged
def solve_by_projected_gradients(
    matrix: SymmetricMap,
    inverse: SampledInverse,
    Y: Array,
    ridge: Array,
    tolerance: float,
    patience: Patience,
    progress: LateProgress | None = None,
    border: Border = ONES,
) -> ProjectedSolution:
    """Solve for all columns of Y together, each with its own step lengths, to ``tolerance`` times its spread.

    The ``border`` is orthonormal by the weights 1/ridge.
    """
    run = _Run(matrix, inverse, Y, ridge, tolerance, border)
    iteration, restarts, reason = 0, 0, ""
    while True:
        active = ~(run.sizes() <= run.goal)  # so that NaN counts as not converged
        if not active.any():
            run.restart()
            active = ~(run.sizes() <= run.goal)
            if not active.any():
                return run.solution(iteration, "")
            restarts += 1
            if restarts > _MOST_RESTARTS:
                reason = "rounding keeps the residual above the tolerance"
        if iteration >= patience.most:
            reason = "no more were allowed"
        elif iteration and iteration % patience.judged == 0 and (needed := run.needed()) > patience.most:
            reason = f"by the eigenvalues that these show, {needed:.0f} would be needed"
        if not reason:
            if progress is not None:
                progress.piece(f"conjugate gradients, iteration {iteration + 1} of at most {patience.most}")
            reason = run.step(active)
        if reason:
            run.restart()
            return run.solution(iteration, reason)
        iteration += 1


class _Run:
    """The state of the iteration, in units in which no square of y overflows."""

    def __init__(
        self,
        matrix: SymmetricMap,
        inverse: SampledInverse,
        Y: Array,
        ridge: Array,
        tolerance: float,
        border: Border = ONES,
    ) -> None:
        self.matrix, self.inverse, self.ridge, self.border = matrix, inverse, ridge[:, None], border
        self.shares = ridge.min() / ridge
        self.shares /= self.shares.sum()
        self.unit = target_unit(Y)
        scaled = Y / self.unit
        self.shift = np.clip(self.shares @ scaled, scaled.min(axis=0), scaled.max(axis=0))
        self.shift = self.shift if border.constant else np.zeros_like(self.shift)
        self.target = scaled - self.shift  # exactly zero for constant targets
        self.scale = np.array([scale_of(*spread_of(column, self.shares), tolerance) for column in scaled.T])
        self.goal = _SHARE * tolerance * self.scale
        self.known = np.zeros((border.count, Y.shape[1]))  # what the border alone fits to the targets
        if border.slopes:
            self.known = border.means(self.shares, self.target)
            self.target = self.target - border.values(self.known)
        if border.constant:
            self.known[0] += self.shift
        self.eliminated = border.eliminate(inverse(border.matrix(self.target[:, :1])))
        self.a, self.c = np.zeros_like(self.target), np.zeros_like(self.known)
        self.products = np.zeros_like(self.target)
        self.residual = self.target.copy()
        self.first = self.sizes()
        self.lengths: list[list[float]] = [[] for _ in self.first]
        self.ratios: list[list[float]] = [[] for _ in self.first]
        self._renew()

    def sizes(self) -> Array:
        """The weighted norm of each residual about its mean."""
        return np.asarray(np.sqrt(self.shares @ np.square(self.residual)))

    def needed(self) -> float:
        """The iterations that the slowest output needs, by the eigenvalues that its steps so far have shown."""
        worst = 0.0
        for lengths, ratios, first, goal in zip(self.lengths, self.ratios, self.first, self.goal, strict=True):
            if first > goal and lengths:
                worst = max(worst, 0.5 * math.sqrt(_condition(lengths, ratios)) * math.log(2.0 * first / goal))
        return worst

    def restart(self) -> None:
        """The residual by a product with K, and new directions; Z'a is made zero again."""
        self.a = self.eliminated.balance(self.a)
        self.products = self.matrix.product(self.a)
        residual = self.target - self.products - self.ridge * self.a
        self.c = self.border.means(self.shares, residual)
        self.residual = residual - self.border.values(self.c)
        self._renew()

    def step(self, active: NDArray[np.bool_]) -> str:
        """One step of the columns that need it; why none is possible, or nothing."""
        P = self.direction[:, active]
        AP = self.matrix.product(P) + self.ridge * P
        curvature, energy = np.einsum("ij,ij->j", P, AP), self.energy[active]
        length = energy / curvature
        if not ((curvature > 0.0).all() and (energy > 0.0).all() and np.isfinite(length).all()):
            return "rounding has made the system indefinite"
        self.a[:, active] += length * P
        residual = self.residual[:, active] - length * AP
        residual -= self.border.values(self.border.means(self.shares, residual))
        self.residual[:, active] = residual
        Z = self._projected(residual)
        renewed = np.einsum("ij,ij->j", residual, Z)
        self.direction[:, active] = Z + (renewed / energy) * P
        self.energy[active] = renewed
        for k, column in enumerate(np.flatnonzero(active)):
            self.lengths[column].append(float(length[k]))
            self.ratios[column].append(float(renewed[k] / energy[k]))
        return ""

    def solution(self, iterations: int, reason: str) -> ProjectedSolution:
        """The present point, in the units of Y."""
        scale = np.where(self.scale > 0.0, self.scale, 1.0)
        reached = float((self.sizes() / scale).max())
        bias, slopes = self.border.split(self.unit * (self.c + self.known))
        return ProjectedSolution(
            self.unit * self.a, bias, self.unit * self.products, iterations, reached, reason, slopes
        )

    def _renew(self) -> None:
        self.direction = self._projected(self.residual)
        self.energy = np.einsum("ij,ij->j", self.residual, self.direction)

    def _projected(self, R: Array) -> Array:
        return np.asarray(self.eliminated.balance(self.inverse(R)))


def _condition(lengths: list[float], ratios: list[float]) -> float:
    """The condition of the preconditioned matrix as far as the steps show it: the largest over the smallest Ritz value.

    Steps and ratios of conjugate gradients are those of a tridiagonal matrix whose eigenvalues are the Ritz values
    ([Golub2013]_ section 11.3).
    """
    from scipy.linalg import eigvalsh_tridiagonal

    steps, energies = np.array(lengths), np.array(ratios)
    diagonal = 1.0 / steps
    diagonal[1:] += energies[:-1] / steps[:-1]
    values = eigvalsh_tridiagonal(diagonal, np.sqrt(energies[:-1]) / steps[:-1])
    return float(values[-1] / values[0]) if values[0] > 0.0 else math.inf
