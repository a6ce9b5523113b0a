r"""The paths of three machines: LS-SVMs over gamma, L1 substrates over zeta, maximal variation over rho.

.. math:: \alpha = U \frac{U^T y}{\sigma + 1/\gamma}, \qquad b = \bar y - \bar k^T \alpha

for gamma (:mod:`substrate.least_squares.spectrum`); for the others see :mod:`substrate.penalized.homotopy.homotopies`,
whose knots are what a page needs.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from problems.command_line.report.model_path import Affine, KnotPath, ModelPath, space_geometrically
from problems.estimators.full.l1_fit import L1Model
from problems.estimators.full.ls_svm import LSSVMModel
from problems.estimators.full.variation_fit import Variation, VariationModel
from problems.estimators.shared.additive import kernel_matrices
from problems.estimators.shared.model import has_part
from substrate.arrays import Array, is_sparse
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.spectrum import centred_spectrum
from substrate.namespaces import to_numpy
from substrate.penalized.homotopy.homotopies import l1_path, variation_path
from substrate.penalized.homotopy.knots import SparseRows
from substrate.penalized.variation.active_rows import divide_from_right
from substrate.penalized.variation.component_coordinates import ComponentCoordinates
from substrate.search.gamma_search import lambda_range

__all__ = ["GammaPath", "RhoPath", "ZetaPath", "path_of"]

#: Share of the values that rounding of the decomposition may reach at the largest gamma that is shown.
_KNOWN = 3e-7


@dataclass(frozen=True, slots=True)
class GammaPath(ModelPath):
    """The LS-SVM at every gamma; ``eigenvalues`` are distinct, ``multiplicity`` says how many each stands for."""

    parameter = "gamma"
    X: Array
    y: Array
    chosen: float
    kernel: Any
    eigenvalues: Array
    multiplicity: Array
    multipliers: Affine
    leverages: Affine
    mean: float
    mean_row: Array
    back: Array
    ends: tuple[float, float]

    @classmethod
    def of(cls, estimator: Any, X: Array, y: Array, chosen: float) -> Self:
        """Make the path from the rows of the fit."""
        spectrum = centred_spectrum(Gram.of(estimator.kernel_, X), estimator.kernel_.rounding(X))
        if spectrum.lift > 0.0:
            raise DeclarationError(
                f"the kernel matrix has the eigenvalue {-spectrum.lift:.3g}, so that the machine does not exist at "
                "every gamma; a page that moves needs a positive semi-definite kernel"
            )
        targets = spectrum.targets(y)
        values, group = np.unique(spectrum.values, return_inverse=True)
        gather = np.zeros((spectrum.values.size, values.size))
        gather[np.arange(group.size), group] = 1.0
        z, zeros = targets.unit * targets.coordinates[:, 0], np.zeros(y.size)
        back = spectrum.basis @ (z[:, None] * gather)
        low, high = lambda_range([spectrum])
        lowest = min(max(low, spectrum.unknown_below(_KNOWN)), 1.0 / chosen)
        return cls(
            X=X,
            y=y,
            chosen=chosen,
            kernel=estimator.kernel_,
            eigenvalues=values,
            multiplicity=gather.sum(axis=0),
            multipliers=Affine(zeros, back),
            leverages=Affine(zeros, np.square(spectrum.basis) @ gather),
            mean=float(targets.unit * (targets.mean + targets.rest)[0]),
            mean_row=spectrum.mean_row,
            back=back,
            ends=(1.0 / max(high, 1.0 / chosen), 1.0 / lowest),
        )

    def states(self, values: Array) -> Array:
        """Return 1/(s + 1/gamma)."""
        return np.asarray(1.0 / (self.eigenvalues + 1.0 / np.asarray(values)[:, None]))

    def stops(self) -> Array:
        """Return weights from where the machine is the mean of y to where rounding would show."""
        return space_geometrically(*self.ends, self.chosen)

    def predictions(self, points: Array) -> Affine:
        """Return f(x) = mean + (k(x) - mean row)' alpha."""
        rows = np.asarray(self.kernel(points, self.X)) - self.mean_row
        return Affine(np.full(len(points), self.mean), rows @ self.back)

    def degrees_of_freedom(self, values: Array) -> Array:
        """Return the trace of the hat matrix."""
        return np.asarray(self.y.size - self.states(values) @ self.multiplicity / np.asarray(values))


def _dense(rows: Array | SparseRows) -> tuple[Array, NDArray[np.intp]]:
    """Return the columns of a path that are anywhere different from zero, and their numbers."""
    if not isinstance(rows, SparseRows):
        return np.asarray(rows), np.arange(rows.shape[1])
    used, place = np.unique(rows.index, return_inverse=True)
    dense = np.zeros((len(rows), used.size))
    np.add.at(dense, (np.repeat(np.arange(len(rows)), np.diff(rows.starts)), place), rows.value)
    return dense, used


@dataclass(frozen=True, slots=True)
class ZetaPath(KnotPath):
    """The L1 substrate at every zeta; its state is the coefficients ever used, the bias and nu."""

    parameter = "zeta"
    #: Phi_i'e - nu, which is within zeta of zero.
    correlations: Affine

    @classmethod
    def of(cls, estimator: Any, X: Array, y: Array, chosen: float) -> Self:
        """Make the path from the rows of the fit."""
        K = np.array(Gram.of(estimator.kernel_, X).matrix)
        center = float(np.clip(y.mean(), y.min(), y.max()))  # the bias absorbs it; otherwise it would hide small zetas
        path = l1_path(K, y - center)
        if not path.covers(chosen) and chosen > 0.0:
            path = l1_path(K, y - center, chosen)
        a, used = _dense(path.primal)
        nu = np.asarray([path.dual[k][0] for k in range(len(path))])
        rows = np.column_stack([a, path.bias + center, nu])
        place = np.zeros((y.size, used.size + 2))
        place[used, np.arange(used.size)] = 1.0
        centred = K - K.mean(axis=0)
        pull = np.column_stack([-centred.T @ centred[:, used], np.zeros(y.size), -np.ones(y.size)])
        correlations = Affine(centred.T @ (y - y.mean()), pull)
        return cls(
            X=X,
            y=y,
            chosen=chosen,
            kernel=estimator.kernel_,
            path=path,
            rows=rows,
            used=used,
            multipliers=Affine(np.zeros(y.size), place),
            correlations=correlations,
        )

    def predictions(self, points: Array) -> Affine:
        """Return f(x) = k(x)' a + b."""
        rows = np.asarray(self.kernel(points, self.X[self.used])) if self.used.size else np.zeros((len(points), 0))
        count = np.zeros(len(points))
        return Affine(count, np.column_stack([rows, count + 1.0, count]))


@dataclass(frozen=True, slots=True)
class RhoPath(KnotPath):
    """Maximal variation at every rho; its state is u, and the multipliers xi that are ever different from zero."""

    parameter = "rho"
    coordinates: ComponentCoordinates

    @classmethod
    def of(cls, estimator: Any, X: Array, y: Array, chosen: float) -> Self:
        """Make the path from the rows of the fit."""
        choices = Variation(
            rho=1.0, expansion=estimator.expansion, ridge=estimator.ridge, cutoff=estimator.cutoff, solver="auto"
        )
        coordinates = choices.coordinates(kernel_matrices(estimator.kernel_, X))
        path = variation_path(list(divide_from_right(coordinates.parts, coordinates.metric)), coordinates.targets(y))
        u, (xi, used) = np.asarray(path.primal), _dense(path.dual)
        none = Affine(np.zeros(0), np.zeros((0, u.shape[1] + used.size)))
        return cls(
            X=X,
            y=y,
            chosen=chosen,
            kernel=estimator.kernel_,
            path=path,
            rows=np.hstack([u, xi]),
            used=used,
            multipliers=none,
            coordinates=coordinates,
        )

    def _of_u(self, rows: Array) -> Array:
        """Turn rows that multiply v into rows that multiply the state."""
        rows_of_u = solve_triangular(self.coordinates.metric, np.atleast_2d(rows).T, trans="T").T
        return np.hstack([rows_of_u, np.zeros((len(rows_of_u), self.used.size))])

    def predictions(self, points: Array) -> Affine:
        """Return f = sum of components + b."""
        components = self.kernel.components(self.X.shape[1])
        rows = self.coordinates.rows_at([component(points, self.X) for component in components])
        middle = self.coordinates.parts.sum(axis=0).mean(axis=0)
        return Affine(np.full(len(points), float(self.y.mean())), self._of_u(rows - middle))

    def component(self, number: int, points: Array) -> Affine:
        """Return f^l at the points, without bias."""
        kernel, a = self.kernel.components(self.X.shape[1])[number], self.coordinates.coefficients
        rows = kernel(points, self.X) @ (a[number] if self.coordinates.is_decoupled else a)
        return Affine(np.zeros(len(points)), self._of_u(rows))

    def component_multipliers(self, number: int) -> Affine:
        """Return xi^l at the training rows."""
        n = self.y.size
        rows = self.used - number * n
        inside = np.flatnonzero((rows >= 0) & (rows < n))
        matrix = np.zeros((n, self.rows.shape[1]))
        matrix[rows[inside], self.rows.shape[1] - self.used.size + inside] = 1.0
        return Affine(np.zeros(n), matrix)


def path_of(estimator: Any, X: Any, y: Array) -> ModelPath:
    """Return the path of a fitted machine with one target (codes -1 and +1 for classes), from the rows of its fit.

    Raises
    ------
    DeclarationError
        Where the machine has no path in one weight; the message says why.
    """
    name = type(estimator).__name__
    if is_sparse(X) or estimator.kernel_.pairwise:
        raise DataError(f"a page that moves needs a table of numbers; this {name} has a matrix that is sparse or given")
    X = np.ascontiguousarray(to_numpy(X), dtype=np.float64)
    if has_part(estimator, LSSVMModel):
        ridge = to_numpy(estimator.ridge_)
        ridge = ridge if ridge.ndim == 1 else ridge[:, 0]
        if np.ptp(ridge) > 1e-12 * float(ridge.max()):
            raise DeclarationError(f"the rows of this {name} have weights, which an interactive page does not support")
        return GammaPath.of(estimator, X, y, Regularization.from_lambda(float(ridge[0])).gamma)
    if has_part(estimator, L1Model):
        if estimator._model.ridge_of_w() != 0.0:
            raise DeclarationError(f"this {name} has a ridge beside zeta, and two weights have no path in one number")
        return ZetaPath.of(estimator, X, y, _weight(estimator, "zeta"))
    if has_part(estimator, VariationModel):
        if estimator.groups is not None:
            raise DeclarationError(f"this {name} has one rho for each group, which is a map and no path in one number")
        if getattr(estimator, "refit", False):
            raise DeclarationError(f"this {name} refits its components, so that it is not on the path in rho")
        return RhoPath.of(estimator, X, y, _weight(estimator, "rho"))
    raise DeclarationError(
        f"a {name} has no path in closed form; those with one are LS-SVMs on all rows (gamma), L1 substrates (zeta) "
        "and maximal variation (rho): --model lssvm, fused, l1 or structure"
    )


def _weight(estimator: Any, name: str) -> float:
    """Return the weight that was chosen, or given."""
    return float(getattr(estimator, f"{name}_") if hasattr(estimator, f"{name}_") else getattr(estimator, name))
