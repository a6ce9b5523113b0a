r"""Conjugate gradients: one method for the dense saddle system and for features, up to a stated accuracy.

A positive definite system :math:`A x = r`, many right-hand sides at once, each with its own step lengths, is a
:class:`System`: products with A, a preconditioner, and which columns are not finished. :class:`Descent` steps until
none is left by the residuals that are carried along; whoever runs it computes the residuals anew, which decide.

On the subspace :math:`1^T a = 0` the bias of the LS-SVM drops out of its bordered system, which is indefinite, and
:math:`A = K + D` remains positive definite: one system per output, where eliminating the bias needs one more for the
ones ([Suykens2002]_, end of section 2). A preconditioner M is projected onto the subspace,

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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import target_unit
from substrate.operators import KernelOperator
from substrate.progress import LateProgress

__all__ = [
    "BorderedSystem",
    "Descent",
    "GradientSolution",
    "IterationLimits",
    "System",
    "solve_by_conjugate_gradients",
]

#: Share of the requested accuracy at which the iteration stops: the rest is for rounding.
_SHARE = 0.5
#: How often a residual computed anew may turn out larger than the one carried along.
_MOST_RESTARTS = 4
#: A residual computed anew that is above this share of the one before shows that the products have too few digits.
_CONTRACTED = 0.25
_INDEFINITE = "rounding has made the system indefinite"
_NOT_FINITE = "their numbers left the range of floating point"

Columns = NDArray[np.bool_]


class System(Protocol):
    """A positive definite system, perhaps of a subspace, as conjugate gradients see it."""

    def product(self, V: Array) -> Array:
        """Return A V, one column per vector."""

    def precondition(self, R: Array) -> Array:
        """Return M^{-1} R, in the subspace."""

    def project(self, R: Array) -> Array:
        """Return R less what the subspace does not see of it."""

    def find_unfinished(self, R: Array, energy: Array) -> Columns:
        """Return which residuals are too large yet; ``energy`` is r' M^{-1} r. What is not a number is too large."""


@dataclass(frozen=True, slots=True)
class IterationLimits:
    """``most`` iterations; after every ``judged``, none where the condition seen so far would need more than that."""

    most: int
    judged: int

    @classmethod
    def plain(cls, most: int) -> "IterationLimits":
        """Allow ``most``, whatever they show on the way."""
        return cls(most, most)


class Descent:
    """Preconditioned conjugate gradients on every column at once, each with its own step lengths.

    ``point`` is moved in place; ``factors`` are those by which the first residuals are to be reduced, where the
    iterations that are needed are estimated on the way.
    """

    def __init__(self, system: System, point: Array, residual: Array, factors: Array | None = None) -> None:
        self.system, self.point, self.factors = system, point, factors
        self.lengths: list[list[float]] = [[] for _ in range(residual.shape[1])]
        self.ratios: list[list[float]] = [[] for _ in range(residual.shape[1])]
        self.restart(residual)

    def restart(self, residual: Array) -> None:
        """Begin with new directions from a residual."""
        self.residual = residual
        self.direction = self.system.precondition(residual)
        self.energy = np.einsum("ij,ij->j", residual, self.direction)

    @property
    def active(self) -> Columns:
        """The columns that are not finished."""
        return self.system.find_unfinished(self.residual, self.energy)

    def run(
        self, limits: IterationLimits, iterations: int = 0, progress: LateProgress | None = None
    ) -> tuple[int, str]:
        """Step until no column is active; return the iterations, those done before included, and why they ended."""
        while (active := self.active).any():
            if iterations >= limits.most:
                return iterations, "no more were allowed"
            if iterations and iterations % limits.judged == 0 and (needed := self.estimate_iterations()) > limits.most:
                return iterations, f"by the eigenvalues that these show, {needed:.0f} would be needed"
            if progress is not None:
                progress.piece(f"conjugate gradients, iteration {iterations + 1} of at most {limits.most}")
            if reason := self.step(active):
                return iterations, reason
            iterations += 1
        return iterations, ""

    def step(self, active: Columns) -> str:
        """Move the active columns; return why that is not possible, or nothing."""
        P = self.direction[:, active]
        AP = self.system.product(P)
        curvature, energy = np.einsum("ij,ij->j", P, AP), self.energy[active]
        length = energy / curvature
        if not ((curvature > 0.0).all() and (energy > 0.0).all() and np.isfinite(length).all()):
            return _INDEFINITE if np.isfinite(curvature).all() and np.isfinite(energy).all() else _NOT_FINITE
        self.point[:, active] += length * P
        residual = self.system.project(self.residual[:, active] - length * AP)
        self.residual[:, active] = residual
        Z = self.system.precondition(residual)
        renewed = np.einsum("ij,ij->j", residual, Z)
        self.direction[:, active] = Z + (renewed / energy) * P
        self.energy[active] = renewed
        for k, column in enumerate(np.flatnonzero(active)):
            self.lengths[column].append(float(length[k]))
            self.ratios[column].append(float(renewed[k] / energy[k]))
        return ""

    def estimate_iterations(self) -> float:
        """Estimate the iterations of the slowest column, by the eigenvalues that its steps so far have shown."""
        worst = 0.0
        factors = np.ones(len(self.lengths)) if self.factors is None else self.factors
        for lengths, ratios, factor in zip(self.lengths, self.ratios, factors, strict=True):
            if factor > 1.0 and lengths:
                worst = max(worst, 0.5 * math.sqrt(_condition(lengths, ratios)) * math.log(2.0 * factor))
        return worst


def _condition(lengths: list[float], ratios: list[float]) -> float:
    """Return the condition of the preconditioned matrix as far as the steps show it: the largest over the smallest Ritz
    value.

    Steps and ratios of conjugate gradients are those of a tridiagonal matrix whose eigenvalues are the Ritz values
    ([Golub2013]_ section 11.3).
    """
    from scipy.linalg import eigvalsh_tridiagonal

    steps, energies = np.array(lengths), np.array(ratios)
    diagonal = 1.0 / steps
    diagonal[1:] += energies[:-1] / steps[:-1]
    values = eigvalsh_tridiagonal(diagonal, np.sqrt(energies[:-1]) / steps[:-1])
    return float(values[-1] / values[0]) if values[0] > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class GradientSolution:
    """Support values and bias of every output, K alpha, and a record of the iteration.

    ``reached`` are the residuals, root mean square by the weights of the rows, in the units of Y; ``unfinished`` are
    the outputs that are less accurate than requested, and ``reason`` states why, if there is one. ``slopes`` are the
    coefficients of the columns of the border beside the constant.
    """

    support_values: Array
    bias: Array
    products: Array
    iterations: int
    reached: Array
    unfinished: Columns
    reason: str
    slopes: Array

    @property
    def is_converged(self) -> bool:
        """Whether every output is as accurate as requested."""
        return not self.reason

    def part(self, columns: slice) -> "GradientSolution":
        """Return some of the outputs, with the reason if one of them is not finished."""
        unfinished = self.unfinished[columns]
        return GradientSolution(
            support_values=self.support_values[:, columns],
            bias=self.bias[columns],
            products=self.products[:, columns],
            iterations=self.iterations,
            reached=self.reached[columns],
            unfinished=unfinished,
            reason=self.reason if unfinished.any() else "",
            slopes=self.slopes[:, columns],
        )


@np.errstate(all="ignore")  # what is not finite never counts as converged
def solve_by_conjugate_gradients(
    matrix: KernelOperator,
    inverse: Callable[[Array], Array] | None,
    Y: Array,
    ridge: Array,
    radii: Array,
    limits: IterationLimits,
    *,
    progress: LateProgress | None = None,
    border: Border = ONES,
) -> GradientSolution:
    """Solve for all columns of Y together, each with its own step lengths, to an absolute error of ``radii``.

    Fitted values are to be within these of the exact ones, one number per column in its units, root mean square by the
    weights 1/ridge. ``inverse`` is the preconditioner of K + D, the diagonal D if there is none. The
    ``border`` is orthonormal by the weights.

    :place [Suykens2002]_ end of section 2: conjugate gradients on the positive definite systems
    """
    system = BorderedSystem(
        matrix=matrix,
        inverse=inverse,
        Y=Y,
        ridge=ridge,
        radii=radii,
        border=border,
    )
    descent = Descent(system, system.a, system.residual(), system.factors())
    iterations, restarts, before = 0, 0, system.sizes(system.target)
    while True:
        iterations, reason = descent.run(limits, iterations, progress)
        if reason in (_INDEFINITE, _NOT_FINITE) and matrix.use_accurate_products():
            reason = ""
        descent.restart(system.renewed_residual())
        active, sizes = descent.active, system.sizes(descent.residual)
        if not active.any():
            return system.solution(descent, iterations, "")
        restarts += 1
        # products with fewer digits refine the solution while each run reduces its residual
        is_stalled = restarts > _MOST_RESTARTS or bool((sizes > _CONTRACTED * before)[active].any())
        before = sizes
        if not reason and is_stalled and matrix.use_accurate_products():
            restarts = 0
        elif not reason and restarts > _MOST_RESTARTS:
            reason = "rounding keeps the residual above the tolerance"
        if reason:
            return system.solution(descent, iterations, reason)


class BorderedSystem:
    """K + D on the vectors with Z'a = 0, in units in which no square of y overflows.

    ``a`` is the present point, ``products`` K a and ``c`` what the border adds, as of the last residual computed anew.
    """

    def __init__(
        self,
        matrix: KernelOperator,
        inverse: Callable[[Array], Array] | None,
        Y: Array,
        ridge: Array,
        radii: Array,
        border: Border = ONES,
    ) -> None:
        self.matrix, self.ridge, self.border = matrix, ridge[:, None], border
        self.inverse = inverse if inverse is not None else self._scale
        self.shares = ridge.min() / ridge
        self.shares /= self.shares.sum()
        self.unit = np.array([target_unit(column) for column in Y.T])
        scaled = Y / self.unit
        self.shift = np.clip(self.shares @ scaled, scaled.min(axis=0), scaled.max(axis=0))
        self.shift = self.shift if border.constant else np.zeros_like(self.shift)
        self.target = scaled - self.shift  # exactly zero for constant targets
        self.goal: Array = _SHARE * (radii / self.unit)
        self.known = np.zeros((border.count, Y.shape[1]))  # what the border alone fits to the targets
        if border.slopes:
            self.known = border.means(self.shares, self.target)
            self.target = self.target - border.values(self.known)
        if border.constant:
            self.known[0] += self.shift
        Z = border.matrix(self.target[:, :1])
        try:
            self.eliminated = border.eliminate(self.inverse(Z))
        except SolverError:  # rounding left nothing of M^-1 Z: the diagonal alone is worth more
            self.inverse = self._scale
            self.eliminated = border.eliminate(self.inverse(Z))
        self.a, self.c = np.zeros_like(self.target), np.zeros_like(self.known)
        self.products = np.zeros_like(self.target)

    def product(self, V: Array) -> Array:
        """Return (K + D) V."""
        return self.matrix.product(V) + self.ridge * V

    def precondition(self, R: Array) -> Array:
        """Return M^{-1} R, projected onto the vectors with Z'a = 0."""
        return np.asarray(self.eliminated.balance(self.inverse(R)))

    def project(self, R: Array) -> Array:
        """Return R less its best fit by the border."""
        return R - self.border.values(self.border.means(self.shares, R))

    def find_unfinished(self, R: Array, energy: Array) -> Columns:
        """Return the outputs whose residual about the border is above the goal."""
        above: Columns = ~(self.sizes(R) <= self.goal)  # so that NaN counts as not finished
        return above

    def sizes(self, R: Array) -> Array:
        """Return the weighted norm of each residual about its mean."""
        return np.asarray(np.sqrt(self.shares @ np.square(R)))

    def factors(self) -> Array:
        """Return the factor by which each of the first residuals is above its goal."""
        return self.sizes(self.target) / self.goal

    def residual(self) -> Array:
        """Return the first residual: that of a = 0."""
        return np.array(self.target)

    def renewed_residual(self) -> Array:
        """Return the residual by a product with K; Z'a is made zero again."""
        self.a[:] = self.eliminated.balance(self.a)
        self.products = self.matrix.accurate_product(self.a)
        residual = self.target - self.products - self.ridge * self.a
        self.c = self.border.means(self.shares, residual)
        return np.asarray(residual - self.border.values(self.c))

    def solution(self, descent: Descent, iterations: int, reason: str) -> GradientSolution:
        """Return the present point, in the units of Y."""
        reached = self.unit * self.sizes(descent.residual)
        bias, slopes = self.border.split(self.unit * (self.c + self.known))
        a, products = self.unit * self.a, self.unit * self.products
        return GradientSolution(
            support_values=a,
            bias=bias,
            products=products,
            iterations=iterations,
            reached=reached,
            unfinished=descent.active,
            reason=reason,
            slopes=slopes,
        )

    def _scale(self, R: Array) -> Array:
        return R / self.ridge
