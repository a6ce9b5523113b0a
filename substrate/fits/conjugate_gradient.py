r"""Conjugate gradients for the dense saddle system, many right-hand sides at once, up to a stated accuracy.

On the subspace :math:`1^T a = 0` the bias of the LS-SVM drops out of its bordered system, which is indefinite, and
:math:`A = K + D` remains positive definite: one system per output, where eliminating the bias needs one more for the
ones ([Suykens2002]_, end of section 2). A preconditioner M is projected onto the subspace,

.. math:: z = M^{-1} r - M^{-1} 1\, \frac{1^T M^{-1} r}{1^T M^{-1} 1} ,

which makes no difference between r and r + c 1 [Gould2001]_. The residual that remains, about its weighted mean b,
bounds the distance of the fitted values from the exact optimum (:mod:`substrate.operators.saddle_system`),

.. math:: \|f - f^\star\|_v \le \|y - K a - D a - b 1\|_v .

With further columns that are not penalised (:mod:`~substrate.operators.border`) Z is in the place of 1, and
residuals are taken about Z c.

So the iteration stops where the accuracy that was asked for is proved. The residual that decides is computed anew from
a product with K, not carried along.

The preconditioner is made of the columns of a few sampled rows, inverted with the diagonal by the Woodbury identity.
With the n x m columns :math:`C = K_{\cdot J}` of a sample J, and :math:`G = K_{JJ}`,

.. math:: M = C G^{-1} C^T + D, \qquad
          M^{-1} = D^{-1} - D^{-1} C \left(G + C^T D^{-1} C\right)^{-1} C^T D^{-1} ,

the Nystrom approximation of K, for the price of :math:`N m` kernel values and one product. Random rows follow the
density of the data, and leave out isolated rows.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import (
    Array,
    blas_threads,
    cholesky,
    diagonal_of,
    diagonal_set,
    has_room,
    is_device_array,
    namespace_of,
    on_device_of,
    room_on_device,
    solve_triangular,
    strips,
    take_rows,
    target_unit,
    to_numpy,
    zeros_beside,
)
from substrate.errors import SolverError
from substrate.kernels.kernel import Kernel
from substrate.operators.border import ONES, Border
from substrate.operators.kernel_tiles import KernelTiles
from substrate.operators.saddle_system import SaddleSolution
from substrate.progress import LateProgress

__all__ = ["SampledInverse", "sample_rows", "solve_by_conjugate_gradients"]

#: Jitter of the small matrix, as a share of its trace; increased until a factor exists.
_JITTERS = (1e-15, 1e-13, 1e-11, 1e-9)


#: Rows of which the small matrix is added up at a time.
_STRIP = 4096


#: A product of a device computes kernel values anew, so that more sampled rows are worth their price than on the host;
#: and the room for their columns there: with a copy of them, and tiles.
_MORE_ON_DEVICE, _BESIDE_SAMPLE = 2, 2.5


def sample_rows(kernel: Kernel, X: Any, ridge: Array) -> Any:
    """Return the numbers of random rows, more where the diagonal of K is large in units of 1/(gamma v).

    They are always the same for a number of rows and a size.
    """
    n = int(X.shape[0])
    with np.errstate(all="ignore"):
        relative = float(np.mean(to_numpy(kernel.diag(X)) / ridge))
    digits = math.log10(1.0 + relative) if math.isfinite(relative) else 4.0
    size = min(n // 2, round(math.sqrt(n) * min(2.0 + 2.0 * digits, 10.0)))
    if is_device_array(X):
        size = min(n // 2, _MORE_ON_DEVICE * size)
        while size > 1 and not has_room(X, _BESIDE_SAMPLE * 8.0 * n * size):
            size //= 2
    return np.sort(np.random.default_rng(0).permutation(n)[:size])


class SampledInverse:
    """M^{-1} for vectors on the host; points may be on a device."""

    def __init__(self, kernel: Kernel, points: Any, rows: Any, ridge: Array) -> None:
        n, sample, columns = ridge.size, take_rows(points, rows), None
        what = f"the preconditioner of {rows.size} sampled rows"
        advice = "Take a reduced set of rows, or give LSSVMRegressor or LSSVMClassifier a basis of few."
        room_on_device(points, 8.0 * n * rows.size, what, advice)
        roots, core, self._ridge = np.sqrt(ridge)[:, None], None, ridge[:, None]
        with blas_threads(n), np.errstate(over="ignore", invalid="ignore"):  # what overflows has no factor
            for strip in strips(n, _STRIP):
                values = kernel(points[strip, :], sample)
                columns = zeros_beside(values, (n, rows.size)) if columns is None else columns
                columns[strip, :] = values
                pulled = values / on_device_of(values, roots[strip])
                core = pulled.T @ pulled if core is None else core + pulled.T @ pulled
            self._columns: Any = columns
            self._factor: Any = None
            if bool(namespace_of(columns).any(columns != 0.0)):  # otherwise M is D
                small = take_rows(columns, rows)
                self._factor = _factor(core + (small + small.T) / 2.0, ridge)

    def __call__(self, R: Array) -> Array:
        """Return M^{-1} R."""
        pulled = R / self._ridge
        if self._factor is not None:
            on_device = on_device_of(self._columns, pulled)
            inner = solve_triangular(self._factor, self._columns.T @ on_device)
            small = solve_triangular(self._factor, inner, transposed=True)
            pulled -= to_numpy(self._columns @ small) / self._ridge
        return pulled


def _factor(core: Any, ridge: Array) -> Any:
    """Return a lower factor of G + C'D^-1 C."""
    diagonal = diagonal_of(core)
    trace = float(namespace_of(core).sum(diagonal))
    for jitter in _JITTERS if math.isfinite(trace) else ():  # some LAPACK factors infinite numbers without a word
        diagonal_set(core, diagonal + jitter * trace)
        try:
            return cholesky(core)
        except (SolverError, ValueError):  # rounding
            continue
    raise SolverError(
        f"conjugate gradients have no preconditioner in double precision for 1/(gamma v) between {ridge.min():.1e} and "
        f"{ridge.max():.1e}; use solver='cholesky', lower gamma, or bring the weights closer together"
    )


#: Share of the requested accuracy at which the iteration stops: the rest is for rounding.
_SHARE = 0.5
#: How often a residual computed anew may turn out larger than the one carried along.
_MOST_RESTARTS = 4
#: A residual computed anew that is above this share of the one before shows that the products have too few digits.
_CONTRACTED = 0.25
_INDEFINITE = "rounding has made the system indefinite"
_NOT_FINITE = "their numbers left the range of floating point"

Columns = NDArray[np.bool_]


@np.errstate(all="ignore")  # what is not finite never counts as converged
def solve_by_conjugate_gradients(
    matrix: KernelTiles,
    inverse: Callable[[Array], Array],
    Y: Array,
    ridge: Array,
    radii: Array,
    most: int,
    *,
    progress: LateProgress,
    border: Border = ONES,
) -> SaddleSolution:
    """Solve for all columns of Y together, each with its own step lengths, to an absolute error of ``radii``.

    Fitted values are to be within these of the exact ones, one number per column in its units, root mean square by the
    weights 1/ridge. ``inverse`` is the preconditioner of K + D, and ``most`` the number of iterations allowed. The
    ``border`` is orthonormal by the weights.

    :place [Suykens2002]_ end of section 2: conjugate gradients on the positive definite systems
    """
    descent = _Descent(matrix, inverse, Y, ridge, radii, border)
    iterations, restarts, reason, before = 0, 0, "", descent.sizes(descent.target)
    while not reason:
        while (active := descent.active).any() and not reason:
            progress.piece(f"conjugate gradients, iteration {iterations + 1} of at most {most}")
            reason = descent.step(active) if iterations < most else "no more were allowed"
            iterations += not reason
        if reason in (_INDEFINITE, _NOT_FINITE) and matrix.is_single:
            reason, matrix.is_single = "", False
        descent.restart()
        active, sizes = descent.active, descent.sizes(descent.residual)
        if not active.any():
            return descent.solution(iterations, "")
        restarts += 1
        # products with fewer digits refine the solution while each run reduces its residual
        is_stalled = restarts > _MOST_RESTARTS or bool((sizes > _CONTRACTED * before)[active].any())
        before = sizes
        if not reason and is_stalled and matrix.is_single:
            restarts, matrix.is_single = 0, False
        elif not reason and restarts > _MOST_RESTARTS:
            reason = "rounding keeps the residual above the tolerance"
    return descent.solution(iterations, reason)


class _Descent:
    """An iteration with K + D on the vectors with Z'a = 0, in units in which no square of y overflows.

    ``a`` is the present point, ``products`` K a and ``c`` what the border adds, as of the last residual computed anew.
    """

    def __init__(
        self,
        matrix: KernelTiles,
        inverse: Callable[[Array], Array],
        Y: Array,
        ridge: Array,
        radii: Array,
        border: Border,
    ) -> None:
        self.matrix, self.ridge, self.border, self.inverse = matrix, ridge[:, None], border, inverse
        self.shares = ridge.min() / ridge
        self.shares /= self.shares.sum()
        self.unit = np.array([target_unit(column) for column in Y.T])
        self.goal: Array = _SHARE * (radii / self.unit)
        self.target, self.fit_by_border = border.take_up(Y / self.unit, self.shares)
        self.Z = border.matrix(self.target[:, :1])
        try:
            self.share = border.eliminate(inverse(self.Z)).share
        except SolverError:  # rounding left nothing of M^-1 Z: the diagonal alone is worth more
            self.inverse = lambda R: R / self.ridge
            self.share = border.eliminate(self.Z / self.ridge).share
        self.a, self.products = np.zeros_like(self.target), np.zeros_like(self.target)
        self.c = np.zeros_like(self.fit_by_border)
        self._begin(self.target)

    def _begin(self, residual: Array) -> None:
        """Begin with new directions from a residual, whose part along the border is taken off."""
        self.c = (self.shares[:, None] * self.Z).T @ residual
        self.residual = residual - self.Z @ self.c
        self.direction = self._balance(self.inverse(self.residual))
        self.energy = np.einsum("ij,ij->j", self.residual, self.direction)

    def restart(self) -> None:
        """Begin again from the residual by a product with K; Z'a is made zero again."""
        self.a = self._balance(self.a)
        self.products = self.matrix.product(self.a)
        self._begin(self.target - self.products - self.ridge * self.a)

    def sizes(self, R: Array) -> Array:
        """Return the weighted norm of each residual about its mean."""
        return np.asarray(np.sqrt(self.shares @ np.square(R)))

    @property
    def active(self) -> Columns:
        """The outputs whose residual about the border is above the goal."""
        above: Columns = ~(self.sizes(self.residual) <= self.goal)  # so that NaN counts as not finished
        return above

    def step(self, active: Columns) -> str:
        """Move the active columns; return why that is not possible, or nothing."""
        P = self.direction[:, active]
        AP = self.matrix.step_product(P) + self.ridge * P
        curvature, energy = np.einsum("ij,ij->j", P, AP), self.energy[active]
        length = energy / curvature
        if not ((curvature > 0.0).all() and (energy > 0.0).all() and np.isfinite(length).all()):
            return _INDEFINITE if np.isfinite(curvature).all() and np.isfinite(energy).all() else _NOT_FINITE
        self.a[:, active] += length * P
        residual = self.residual[:, active] - length * AP
        residual -= self.Z @ ((self.shares[:, None] * self.Z).T @ residual)
        self.residual[:, active] = residual
        preconditioned = self._balance(self.inverse(residual))
        renewed = np.einsum("ij,ij->j", residual, preconditioned)
        self.direction[:, active] = preconditioned + (renewed / energy) * P
        self.energy[active] = renewed
        return ""

    def _balance(self, a: Array) -> Array:
        """Return a less H S^-1 Z'a, so that nothing is left of Z'a."""
        return np.asarray(a - self.share @ (self.Z.T @ a))

    def solution(self, iterations: int, reason: str) -> SaddleSolution:
        """Return the present point, in the units of Y."""
        bias, slopes = self.border.split(self.unit * (self.c + self.fit_by_border))
        return SaddleSolution(
            support_values=self.unit * self.a,
            bias=bias,
            products=self.unit * self.products,
            slopes=slopes,
            steps=iterations,
            reason=reason,
        )
