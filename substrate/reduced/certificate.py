r"""Certificate rows of a reduced-basis LS-SVM, from data and solution: sums over the errors of all rows.

With :math:`e_i = t_i - \sum_j \beta_j k(x_i, z_j) - b` and :math:`u = s^{1/2} V^T \beta`, the objective's gradients
are :math:`-\gamma 1^T e`, :math:`K_{SS} \beta - \gamma \hat K^T e`, the normal equations of [Cawley2004]_ eq. (3), and,
in the features, :math:`u - \gamma Z^T e`. The point :math:`\alpha = \gamma e` is dual feasible where
:math:`1^T e = 0`, and the duality gap, which bounds the distance of the objective from its minimum, is

.. math:: P - D = \tfrac12 \| u - \gamma Z^T e \|^2 - \gamma\, b\, 1^T e .

The distance of the fitted values from those of the exact optimum is bounded for the machine on all directions of the
span of the basis vectors, in exact arithmetic (:mod:`~substrate.reduced.basis_matrix`). Beta and b are stored. With the
errors e of all rows as ``predict`` computes them, features :math:`z(x) = T^T k_S(x)` and
:math:`g = T^T (\lambda K_{SS} \beta - \sum_i v_i (k_S(x_i) - \bar k)\, e_i)`, where no direction was cut,

.. math:: \|f - f^\star\|_v \le \|Z_c H^{-1} g\|_v + |1^T V e| \big/ \sqrt{\textstyle\sum_i v_i} ,

see :mod:`~substrate.reduced.curvature` for the first term. Where some were cut, beta has a part :math:`d = \beta - T u`
outside the others, which is counted twice, at the length :math:`\sum_j |d_j| k(z_j, z_j)^{1/2}` of its expansion, and
what the cut directions may change is added. All terms are computed from the sums over the rows. Rounding is added: of
the errors, where :math:`Z_c H^{-1} Z_c^T` is at most a projection, twice, once for the gradient and once for what
``predict`` returns; of the kernel values, accurate to :math:`p \sqrt{k(x, x) k(z, z)}`, those of the rows and those of
the basis; and of the sums.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.enclosed import LEAST, Double, Doubled, at_most, sum_rounding
from substrate.certificates.rows import Accuracy, roundoff
from substrate.certificates.tolerance import Tolerance
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.reduced.basis_matrix import BasisMatrix, change_by_cut
from substrate.reduced.curvature import Curvature, Reach
from substrate.reduced.features import EigenFeatures
from substrate.streaming.survey import TargetSummary
from substrate.streaming.tally import Tally

__all__ = [
    "ErrorsRounded",
    "ReducedBound",
    "Residuals",
    "cut_fact",
    "reduced_accuracy",
    "reduced_rows",
    "rounded_errors",
]

#: Share of the other parts of a bound up to which the rounding of the gradient in double precision is accepted.
_NEGLIGIBLE = 0.05


@dataclass(frozen=True, slots=True)
class Residuals(Tally):
    """Sums over rows, one column per output: K'e, 1'e, e'e and t't; and the squares of all kernel values.

    ``shifts`` and ``spreads`` are of the targets about a centre, and their squares; ``mass`` is the weight of all rows,
    ``diagonal`` the sum of all v k(x, x), and ``rounding`` the largest relative error of a kernel value.
    """

    count: int
    slope: Array
    total: Array
    squares: Array
    targets: Array
    kernel_squares: float
    shifts: Array
    spreads: Array
    mass: float
    diagonal: float
    rounding: Annotated[float, max]

    @property
    def norm(self) -> float:
        """The Frobenius norm of K."""
        return float(np.sqrt(self.kernel_squares))

    def tolerances(self, unit: float, targets: TargetSummary, share: float) -> tuple[Tolerance, ...]:
        """Return the absolute errors that are permitted, from the sums over the user's targets.

        ``unit`` is that in which they were summed, ``share`` what is permitted relative to their spread.
        """
        sizes = np.abs(targets.extremes).max(axis=0)
        return tuple(
            Tolerance.of_sums(self.count, self.mass, float(shift), float(squares), float(largest), unit, share)
            for shift, squares, largest in zip(self.shifts, self.spreads, sizes, strict=True)
        )


def reduced_rows(
    residuals: Residuals,
    features: EigenFeatures,
    K_basis: Array,
    coefficients: Array,
    weights: Array,
    bias: Array,
    lam: float,
    pull: Array | None = None,
) -> list[tuple[Row, ...]]:
    """Return rows for every output. Gradients are divided by gamma, so that a scale is never infinite.

    ``pull`` is lambda T'K_SS beta, where K_SS is known better than the features are; else it is lambda u.
    """
    xp = namespace_of(K_basis)
    tolerance = roundoff(features.n_basis + int(np.sqrt(residuals.count)))
    norm_basis = float(xp.linalg.vector_norm(K_basis))
    norm_transform = float(np.sqrt(float(xp.sum(1.0 / features.values))))
    # ||z||^2 is at most k(x, x), and features that are not penalised have the mean square one
    norm_features = float(np.sqrt(residuals.mass * (float(xp.mean(xp.linalg.diagonal(K_basis))) + features.free)))
    # matrix products are computed where the matrix is; a few vectors are checked on the host
    n, kept = features.n_basis - features.free, features.rank - features.free
    slopes_in_beta = to_numpy(_with_zeros(lam * (K_basis @ coefficients[:n, :]), features.free) - residuals.slope)
    gradients = to_numpy(features.transform.T @ residuals.slope)
    gradients = (to_numpy(features.pull(weights, lam)) if pull is None else pull) - gradients
    coefficients, weights = to_numpy(coefficients), to_numpy(weights)
    checks: list[tuple[Row, ...]] = []
    for k in range(bias.size):
        beta, u, b = coefficients[:, k], weights[:, k], float(bias[k])
        norm_beta = float(np.linalg.norm(beta))
        # the terms of the errors: their rounding is that of the largest of these
        terms = float(np.sqrt(residuals.targets[k])) + np.sqrt(residuals.mass) * abs(b) + residuals.norm * norm_beta
        in_beta = float(np.linalg.norm(slopes_in_beta[:, k]))
        in_w = float(np.linalg.norm(gradients[:, k]))
        # the rounding of e, which is small in the features, and that of the sums K'e, which the transform magnifies
        magnified = residuals.norm * norm_transform * float(np.sqrt(residuals.squares[k]))
        magnified += lam * norm_basis * norm_beta * norm_transform  # and that of K_SS beta
        scale_w = lam * float(np.linalg.norm(u)) + norm_features * terms + magnified
        norm_squared, total = float(u[:kept] @ u[:kept]), float(residuals.total[k])
        # lambda times the objectives: lambda/2 u'u + 1/2 e'e, and a gap of 1/(2 lambda) ||lambda u - Z'e||^2
        gradient_norm = float(np.linalg.norm(gradients[:kept, k])) if features.free else in_w
        gap = 0.5 * gradient_norm**2 / lam + abs(b * total) + float(np.abs(u[kept:]) @ np.abs(gradients[kept:, k]))
        value = 0.5 * lam * norm_squared + 0.5 * float(residuals.squares[k])
        spare = (tolerance * scale_w) ** 2 / lam + tolerance * float(np.sqrt(residuals.mass)) * abs(b) * terms
        spare += tolerance * float(np.abs(u[kept:]).sum()) * scale_w
        checks.append(
            (
                Row(
                    name="1'e = 0",
                    value=total,
                    scale=float(np.sqrt(residuals.mass)) * terms,
                    tolerance=tolerance,
                    formula="|1'e|",
                ),
                Row(
                    name="stationarity in beta",
                    value=in_beta,
                    scale=lam * norm_basis * norm_beta + residuals.norm * terms,
                    tolerance=tolerance,
                    formula="||K_SS beta / gamma - K'e||",
                ),
                Row(
                    name="stationarity in w",
                    value=in_w,
                    scale=scale_w,
                    tolerance=tolerance,
                    formula="||u / gamma - Z'e||",
                ),
                Row(
                    name="duality gap",
                    value=gap,
                    scale=value + spare / tolerance,
                    tolerance=tolerance,
                    formula="(primal - dual objective) / gamma",
                ),
            )
        )
    return checks


def _with_zeros(rows: Array, more: int) -> Array:
    """Return the rows and, after them, zeros: the penalty of columns that have none."""
    if not more:
        return rows
    xp = namespace_of(rows)
    return xp.concat([rows, zeros_beside(rows, (more, rows.shape[1]))], axis=0)  # type: ignore[no-any-return]


FORMULA = "||Z H^-1 T'(K_SS beta/gamma - K'e)||_v + |1'e| / sqrt(1'v) + cut directions + rounding"


@dataclass(frozen=True, slots=True)
class ErrorsRounded:
    """Bounds on the rounding of a pass: one number per output, in units of the targets.

    ``errors`` bounds the norm of the error of e; ``apart`` that of the distance between what ``predict``
    returns and the exact values; ``slopes`` is the relative error of the sums K'e, relative to their sizes. Where the
    errors are from sums of kernel values, ``pulled`` is the error of the sums of z e relative to the norms of the
    columns of z, and ``shifted`` that of the sum of e relative to the root of the mass. ``outside`` bounds the squared
    lengths of all rows outside the features, where the pass summed them.
    """

    errors: Array
    distance: Array
    kernel: float
    slopes: float
    pulled: Array | None = None
    shifted: Array | None = None
    outside: float | None = None


def rounded_errors(residuals: Residuals, sizes: Array, coefficients: Array, bias: Array, terms: int) -> ErrorsRounded:
    """Return the rounding of a pass in working precision, from the sizes of the terms."""
    m, beta = coefficients.shape[0], np.abs(coefficients)
    spread = math.sqrt(residuals.diagonal)
    values = residuals.norm * np.linalg.norm(beta, axis=0)
    target_size = np.sqrt(residuals.targets) + math.sqrt(residuals.mass) * np.abs(bias)
    radius = values * sum_rounding(m + 2) + residuals.rounding * spread * (sizes @ beta)
    radius = np.asarray(at_most(1.0) * (radius + sum_rounding(4) * (target_size + values)))
    return ErrorsRounded(radius, radius, residuals.rounding, sum_rounding(terms + 8))


@dataclass(frozen=True, slots=True)
class EnclosedSums:
    r"""Sums over the errors of all rows as numbers with a radius, one column per output.

    ``slope`` is :math:`\hat K^T V e`, ``total`` is :math:`1^T V e`, and ``length`` the norm of e. ``about`` is the mean
    feature by which an error of the total changes the gradient: about zero, or, where both sums are of kernel values
    about an origin, about that.
    """

    slope: Doubled
    total: Double
    length: Double
    about: Array

    @classmethod
    def of(cls, residuals: Residuals, rounded: ErrorsRounded, reach: Reach) -> "EnclosedSums":
        """Enclose the sums of a pass."""
        curvature, root = reach.curvature, math.sqrt(residuals.mass)
        length = Double(np.sqrt(residuals.squares), rounded.errors)
        slope, total = to_numpy(residuals.slope), np.asarray(residuals.total)
        # of the sums and of their kernel values, and of those in the mean that is multiplied by the total
        share = (rounded.kernel + rounded.slopes) * math.sqrt(residuals.diagonal)
        radius = to_numpy(curvature.sizes)[:, None] * (share * (length.sizes + 4.0 * np.abs(total) / root))
        if rounded.pulled is None or rounded.shifted is None:
            slope_radius = root * rounded.slopes * length.sizes
            return cls(Doubled(slope, None, radius), Double(total, slope_radius), length, curvature.mean)
        # the mean is right up to the rounding of its sum, and of its product with T
        mean = reach.summed + sum_rounding(curvature.features.n_basis + 4)
        radius = radius + to_numpy(curvature.columns)[:, None] * (rounded.pulled + mean * rounded.shifted)
        return cls(Doubled(slope, None, radius), Double(total, root * rounded.shifted), length, curvature.offsets)


def reduced_accuracy(
    residuals: Residuals,
    rounded: ErrorsRounded,
    curvature: Curvature,
    coefficients: Array,
    bias: Array,
    lam: float,
    unit: float,
    tolerances: Sequence[Tolerance],
) -> "ReducedBound":
    """Return the row of every output, in units of y, and whether the gradient is a large part of one that fails.

    ``tolerances`` state the absolute error that is permitted for each. Coefficients and bias are in units of the
    targets, on the host. Values of K_SS with more digits are computed where
    the rows do not pass otherwise; then lambda T'K_SS beta is returned too, for a step by the gradient.
    """
    best: ReducedBound | None = None
    basis = curvature.penalty_matrix
    for level in range(basis.first, 3):
        if basis.deviation(level) is None:
            continue
        bound = _bound_at(residuals, rounded, curvature, level, coefficients, bias, lam, unit, tolerances)
        if best is None or bound.share <= best.share:
            best = bound
        if best.share <= 1.0 or not bound.limited:
            break
        basis.first = min(level + 1, basis.best())
    assert best is not None
    return best


@dataclass(frozen=True, slots=True)
class ReducedBound:
    """The rows of all outputs by one computation of K_SS.

    ``helped`` states that the gradient is a large part of one that fails, ``limited`` that the rounding of K_SS is;
    ``pull`` is lambda T'K_SS beta, where K_SS is known better than the features are. ``lost`` states that the cut
    directions are a large part, whatever the rounding.
    """

    rows: list[Accuracy]
    helped: bool
    limited: bool
    pull: Array | None
    lost: bool = False

    @property
    def share(self) -> float:
        """The largest accuracy as a share of what is allowed."""
        return max(_share(row) for row in self.rows)


def _share(row: Accuracy) -> float:
    allowed = row.tolerance * row.scale
    if row.passes:
        return min(row.value / allowed, 1.0) if allowed > 0.0 else 0.0
    return max(row.value / allowed, math.nextafter(1.0, 2.0)) if allowed > 0.0 else math.inf


def _bound_at(
    residuals: Residuals,
    rounded: ErrorsRounded,
    curvature: Curvature,
    level: int,
    coefficients: Array,
    bias: Array,
    lam: float,
    unit: float,
    tolerances: Sequence[Tolerance],
) -> ReducedBound:
    r"""Return the rows by one computation of K_SS.

    .. math:: \|f - f^\star\|_v \le \|Z_c H^{-1} g\|_v + \frac{|1^T V e|}{\sqrt{\sum_i v_i}} + \|e - \hat e\|_v
              + \|\hat f - f\|_v + \text{cut directions}, \qquad g = T^T s + \bar z\, 1^T V e , \quad
              s = \lambda K_{SS} \beta - \hat K^T V e

    The radius of s is in the coordinates of the basis, where a direction of H is small or large with its vector, and
    is taken through :math:`H^{-1} T^T` there; that of the product with T is in the features.
    """
    features, basis = curvature.features, curvature.penalty_matrix
    mean, spread = to_numpy(curvature.mean), math.sqrt(residuals.diagonal)
    root_mass = math.sqrt(residuals.mass)
    deviation = basis.deviation(level)
    reach = curvature.at(lam, rounded.kernel, spread, deviation)
    matrix = basis.product(level)
    assert matrix is not None
    sums = EnclosedSums.of(residuals, rounded, reach)
    pull = matrix.product(coefficients[: features.n_basis - features.free]).above_zeros(features.free) * lam
    s = pull - sums.slope
    turned = features.transform.T
    product = (
        np.column_stack([np.ascontiguousarray(to_numpy(turned)) @ column for column in pull.high.T]) if level else None
    )
    if not reach.is_known:  # there is no bound, whatever the gradient is
        rows = [tolerance.row(math.inf, FORMULA) for tolerance in tolerances]
        return ReducedBound(rows, False, reach.bent > 0.0 and reach.eta - reach.bent <= 0.5, product)
    known = rounded.errors + rounded.distance + reach.of_radius(s.radius, sharp=False)
    # s is no larger than what rounding left of the pull, so that the sums of T's rarely need more than double precision
    for slope in (s.round(), s):
        product_of_slope = _multiply(turned, slope.without_radius())
        g = product_of_slope + slope.exact(mean[:, None]) * sums.total.without_radius()
        gradient = g.round()
        effect = reach.of_gradient(on_device_of(curvature.scatter, gradient.middle))
        rounding = reach.of_rounding(gradient.radius, lam)
        if (rounding <= _NEGLIGIBLE * (known + effect)).all():
            break
    length = sums.length.sizes
    further_radius = effect + rounding + rounded.errors + rounded.distance
    # an error of the total changes the mean of the fitted values, and g in one known direction
    further_radius += sums.total.sizes / root_mass + reach.of_gradient(sums.about[:, None])[0] * sums.total.radius
    outside = surely = 0.0
    if basis.n_cut:
        outside, surely = curvature.outside(residuals.diagonal, rounded.kernel, deviation)
        outside = outside if rounded.outside is None else min(outside, rounded.outside)
        inner, known_sizes = features.of_kernel, to_numpy(basis.sizes)
        lost = np.array([known_sizes @ _remainder(inner, beta) for beta in coefficients.T])
        further_radius += 2.0 * min(math.sqrt(outside), spread) * lost
    for sharp in (False, True):  # the sharper bound of the radii is computed where it may matter
        distance = further_radius + reach.of_radius(slope.radius, sharp=sharp)
        if outside > 0.0:
            distance = distance + change_by_cut(outside / lam, length + distance)
        radii = at_most(1.0) * unit * distance / root_mass
        rows = [tolerance.row(float(radius), FORMULA) for tolerance, radius in zip(tolerances, radii, strict=True)]
        if all(row.passes for row in rows):
            break
    failing = np.array([not row.passes for row in rows])
    helped = bool(np.any(failing & (effect > 0.25 * distance)))
    gone = bool(np.any(failing & (change_by_cut(surely / lam, length) > 0.1 * distance)))
    inexact = bool(np.any(failing)) and bool(
        np.any(failing & (reach.of_radius(pull.radius, sharp=sharp) > 0.1 * distance))
    )
    return ReducedBound(
        rows=rows, helped=helped, limited=inexact or (outside > 0.0 and not gone), pull=product, lost=gone
    )


def _multiply(matrix: Array, vectors: Double | Doubled) -> Double | Doubled:
    """The product with vectors on the host; in double precision it is computed where the matrix is."""
    if isinstance(vectors, Doubled) or not is_device_array(matrix):
        return vectors.exact(np.ascontiguousarray(to_numpy(matrix))) @ vectors
    columns = on_device_of(matrix, vectors.middle)
    sizes = to_numpy(abs(matrix) @ abs(columns))
    return Double(to_numpy(matrix @ columns), sum_rounding(matrix.shape[1]) * sizes + np.where(sizes > 0.0, LEAST, 0.0))


def cut_fact(basis: BasisMatrix) -> tuple[str, str]:
    """State the machine to which the accuracy refers, for the record."""
    text = "of the machine on all directions of the basis, in exact arithmetic"
    if basis.n_cut:
        text += f"; {basis.n_cut} of {basis.dimension} are below rounding and cut, and what they may change is included"
    return "accuracy", text


def _remainder(features: EigenFeatures, beta: Array) -> Array:
    """Bound the entries of beta - T u, for the weights u of beta."""
    beta, T = beta[: features.n_basis], np.ascontiguousarray(to_numpy(features.transform))
    remainder: Doubled = beta - Doubled.exact(T) @ np.asarray(features.weights(beta))
    return remainder.round().sizes
