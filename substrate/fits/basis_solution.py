r"""The LS-SVM on a reduced basis, from sums over its rows, and how far it is from the exact one.

.. math::

    \min_{\beta, b} \; \tfrac{\lambda}{2} \beta^T K_{SS} \beta
        + \tfrac12 \sum_{i=1}^l v_i \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2, \quad \lambda = 1/\gamma

([Cawley2004]_ eq. (2)-(3), [Cawley2002]_ section 2, with our gamma.) It is solved in the features :math:`z = T^T k_S`
of :mod:`~substrate.operators.features`, where it is ridge regression with a free bias, by
:mod:`~substrate.operators.basis_spectrum`. A second pass over the rows computes the errors e of the machine as it
predicts, from beta; where the bound is above the tolerance, a Newton step from the same sums corrects it, as in
iterative refinement.

For any numbers e, the dual point V e, less its part along the columns without a penalty, gives with
:math:`w = \sum_j \beta_j \varphi(z_j)`

.. math::

    \|f - f^\star\|_v \le \frac{1}{2 \sqrt\lambda} \Big\| \lambda w - \sum_i v_i e_i P \varphi(x_i) \Big\|
        + \|y - f - e\|_v + \frac{|1^T V e|}{\sqrt{\sum_i v_i}} ,

P the projection on the span of the basis: the first term is the root of half of the duality gap. In the features it is
the norm of :math:`T^T (\lambda K_{SS} \beta - \hat K^T V e)`, up to the distance of :math:`T^T K_{SS} T` from the
identity. Rounding is added: of the kernel values, right to :math:`p \sqrt{k(x, x) k(z, z)}`, of the sums, and of what
``predict`` returns. Where the kernel values limit the bound, the pass is repeated with values from differences of
points, which lose fewer digits.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from substrate.arrays import Array, blas_threads, is_device_array, namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.certificate import ACCURATE, Accuracy, Tolerance, accuracy_of_outputs, on_basis
from substrate.numbers import Double, at_most, multiply_in_blocks, sum_rounding
from substrate.operators.basis_spectrum import ReducedSpectrum
from substrate.operators.features import Features
from substrate.operators.kernel_rows import PART, KernelRows, KernelValues
from substrate.operators.passes import Tally, TargetSummary
from substrate.operators.sources import Block

__all__ = [
    "UNKNOWN",
    "AnswerBound",
    "Penalty",
    "ReducedAnswer",
    "ReducedSolution",
    "Residuals",
    "solve_reduced",
]

FORMULA = "||T'(K_SS beta/gamma - K'e)|| sqrt(gamma)/2 + |1'e| / sqrt(1'v) + rounding"
UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; use a narrower kernel or fewer basis vectors, penalise "
    "more (a lower gamma, a higher zeta), or scale the columns",
)


@dataclass(frozen=True, slots=True)
class Residuals(Tally):
    """Sums over rows, one column per output: K'e, 1'e, e'e and t't.

    ``shifts`` and ``spreads`` are of the targets about a centre, and their squares; ``mass`` is the weight of all rows,
    ``diagonal`` the sum of all v k(x, x), and ``rounding`` the largest relative error of a kernel value.
    """

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"rounding": max}

    count: int
    mass: float
    slope: Array
    total: Array
    squares: Array
    targets: Array
    shifts: Array
    spreads: Array
    diagonal: float
    rounding: float

    def tolerances(self, unit: float, targets: TargetSummary, share: float) -> tuple[Tolerance, ...]:
        """Return the absolute errors that are permitted, from the sums over the user's targets.

        ``unit`` is that in which they were summed, ``share`` what is permitted relative to their spread.
        """
        sizes = np.abs(targets.extremes).max(axis=0)
        return tuple(
            Tolerance.of_sums(self.count, self.mass, float(shift), float(squares), float(largest), unit, share)
            for shift, squares, largest in zip(self.shifts, self.spreads, sizes, strict=True)
        )


def sum_residuals(
    values: KernelValues, unit: float, coefficients: Array, bias: Array, centre: Array, block: Block
) -> Residuals:
    """Return the errors e = t - f of the rows of a block, as sums: with kernel values, alone, and squared."""
    slope, xp = zeros_beside(bias, coefficients.shape), namespace_of(bias)
    sums, v = [zeros_beside(bias, bias.shape[0])] * 5, block.row_weights()
    for part, tile in values.of_block(block):
        targets, weights = part.Y / unit, part.row_weights()
        errors, about = targets - (tile @ coefficients + bias), targets - centre
        slope += _sum_products(tile, weights[:, None] * errors)
        squares = (weights @ (each * each) for each in (errors, targets, about))
        parts = (weights @ errors, weights @ about, *squares)
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
    total, shifts, errors, of_targets, spreads = (to_numpy(part) for part in sums)
    sizes = values.sum_diagonal(block), values.rounding(block.X)
    return Residuals(block.n_rows, float(xp.sum(v)), slope, total, errors, of_targets, shifts, spreads, *sizes)


def _sum_products(tile: Array, errors: Array) -> Array:
    """Return the sum over rows of the products of their entries; on a device in parts, all parts at once."""
    if not is_device_array(tile):
        return np.asarray((np.ascontiguousarray(errors.T) @ tile).T)
    xp, whole = namespace_of(tile), int(tile.shape[0]) // PART * PART
    products: Array = tile[whole:, :].T @ errors[whole:, :]
    if whole:
        left = xp.reshape(tile[:whole, :], (-1, PART, tile.shape[1]))
        right = xp.reshape(errors[:whole, :], (whole // PART, PART, -1))
        products = products + xp.sum(xp.matmul(xp.permute_dims(left, (0, 2, 1)), right), axis=0)
    return products


@dataclass(frozen=True, slots=True)
class Penalty:
    """K_SS, right to ``rounding`` times the ``sizes`` s of both vectors.

    ``deviation`` bounds the norm of E = T'K_SS T - I, and ``share`` times w w' bounds its entries, with w the sizes s
    multiplied by the absolute values of T.
    """

    matrix: Array
    rounding: float
    sizes: Array
    deviation: float
    share: float

    @classmethod
    def of(cls, values: KernelValues, K: Array, features: Features) -> "Penalty":
        """Return the penalty of a machine from the kernel matrix of its basis, from differences where that is known."""
        values, T = values.of_kernel, features.of_kernel.transform
        careful = None if is_device_array(K) else values.from_differences
        source = values if careful is None else careful
        matrix, p = K if careful is None else careful.matrix(careful.points), source.rounding(source.points)
        xp = namespace_of(T)
        sizes = xp.sqrt(xp.clip(xp.linalg.diagonal(matrix), min=0.0))
        with blas_threads(T.shape[0]):
            # a share of the squares of T is lost, which are large where vectors are nearly dependent: short sums
            inner, first = multiply_in_blocks(matrix, T)
            product, second = multiply_in_blocks(T.T, inner)
            off = product - xp.eye(T.shape[1], dtype=T.dtype, device=T.device)
        reach = sizes @ xp.abs(T)
        share, faint = p + sum_rounding(first + second + 6), float(xp.linalg.vector_norm(reach))
        off, reach = to_numpy(off), to_numpy(reach)
        entry = float((np.abs(off) / reach / reach[:, None]).max(initial=0.0))
        return cls(matrix, p, to_numpy(sizes), float(np.linalg.norm(off)) + share * faint**2, share + entry)


class ReducedAnswer(NamedTuple):
    """The row of all outputs, and what a step needs: the gradient in the features, and the sum of errors."""

    row: Accuracy
    gradient: Array
    total: Array


@dataclass(frozen=True, slots=True)
class AnswerBound:
    """The common data of the bounds of one machine; ``share`` is the permitted error relative to the spread of y."""

    rows: KernelRows
    features: Features
    penalty: Penalty
    lam: float
    unit: float
    targets: TargetSummary
    share: float = ACCURATE

    def __call__(self, beta: Array, bias: Array) -> ReducedAnswer:
        """Bound the distance of coefficients and biases from the exact optimum, in one pass over the rows."""
        centre = on_device_of(bias, self.targets.means_in(self.unit))
        residuals: Residuals = self.rows.sums(sum_residuals, self.unit, beta, bias, centre)
        beta, bias, slope = to_numpy(beta), to_numpy(bias), to_numpy(residuals.slope)
        T, penalty, free, lam = to_numpy(self.features.transform), self.penalty, self.features.free, self.lam
        m, r = T.shape[0] - free, T.shape[1] - free
        sizes = penalty.sizes if self.features.linear is None else np.append(penalty.sizes, self.features.linear)
        spread, root, length = math.sqrt(residuals.diagonal), math.sqrt(residuals.mass), np.sqrt(residuals.squares)
        summed = sum_rounding(self.rows.terms + 8)
        K = Double(to_numpy(penalty.matrix), penalty.rounding * penalty.sizes[:, None] * penalty.sizes)
        errors = Double(slope, (residuals.rounding + summed) * spread * sizes[:, None] * length)
        unpenalised = np.zeros((free, bias.size))
        penalised = (K @ Double(beta[:m]) * lam).apply(lambda first, last: np.concatenate([first, last]), unpenalised)
        gradient = Double(T.T) @ (penalised - errors)
        line = np.abs(residuals.total) / root + summed * length
        border = line + np.linalg.norm(gradient.sizes[r:], axis=0)
        effect = (np.linalg.norm(gradient.sizes[:r], axis=0) + spread * border) / (2.0 * math.sqrt(lam))
        # the norm of the rounding of the errors of all rows
        target_size = np.sqrt(residuals.targets) + root * np.abs(bias)
        share = residuals.rounding + sum_rounding(beta.shape[0] + 6)
        rounding = at_most(1.0) * (share * spread * (sizes @ np.abs(beta)) + sum_rounding(4) * target_size)
        distance = np.full(bias.size, math.inf)
        if penalty.deviation < 1.0 and not beta[~T.any(axis=1)].any():  # vectors that are left out have no coefficient
            distance = effect / math.sqrt(1.0 - penalty.deviation) + border + 3.0 * rounding
        radii, about = at_most(1.0) * self.unit * distance / root, f"fitted values{on_basis(r, m)}"
        tolerances = residuals.tolerances(self.unit, self.targets, self.share)
        each = [limit.row(float(radius), FORMULA, about) for limit, radius in zip(tolerances, radii, strict=True)]
        return ReducedAnswer(accuracy_of_outputs(each), gradient.midpoint, residuals.total)

    def best(self, beta: Array, bias: Array) -> ReducedAnswer:
        """Return the answer from plain kernel values, or from differences where those do not suffice."""
        answer = self(beta, bias)
        values = None if answer.row.passes or self.rows.on_device else self.rows.values.from_differences
        if values is None:
            return answer
        careful = replace(self, rows=replace(self.rows, values=values))
        return min(answer, careful(beta, bias), key=lambda each: each.row.value)


@dataclass(frozen=True, slots=True)
class ReducedSolution:
    """Beta, b and the weights u of the features, one column per output, in the units of y; the certificate row; whether
    a step corrected them.
    """

    coefficients: Array
    bias: Array
    weights: Array
    row: Accuracy
    is_refined: bool

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What a certificate states of a failing row."""
        return () if self.row.passes else (UNKNOWN,)


def solve_reduced(
    rows: KernelRows,
    spectrum: ReducedSpectrum,
    lam: float,
    K_basis: Array,
    targets: TargetSummary | None = None,
    share: float = ACCURATE,
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every column of the targets, refine where that is needed, and certify.

    ``targets`` summarises the targets; ``share`` is the accuracy required, relative to their spread.

    :equation [Cawley2002]_ (beta): the system in beta and b, errors of all rows
    :equation [Cawley2004]_ (3), (A.3): the normal equations of the sparse LS-SVM, solved in features
    """
    features, unit = spectrum.features, spectrum.origin.unit
    summary: Any = rows.target_summary() if targets is None else targets
    bound = AnswerBound(rows, features, Penalty.of(rows.values, K_basis, features), lam, unit, summary, share)
    weights = spectrum.weights(lam)
    bias = spectrum.bias(weights)
    answer, is_refined = bound.best(features.coefficients(weights), bias), False
    if not answer.row.passes:
        slope, total = (on_device_of(bias, array) for array in (-answer.gradient, answer.total))
        change, shift = spectrum.correction(slope, total, lam)
        second = bound.best(features.coefficients(weights + change), bias + shift)
        if second.row.value < answer.row.value:
            answer, weights, bias, is_refined = second, weights + change, bias + shift, True
    return ReducedSolution(
        coefficients=unit * features.coefficients(weights),
        bias=unit * bias,
        weights=unit * weights,
        row=answer.row,
        is_refined=is_refined,
    )
