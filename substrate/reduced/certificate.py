r"""Certificate rows of a reduced-basis LS-SVM, from data and solution: sums over the errors of all rows.

With :math:`e_i = t_i - \sum_j \beta_j k(x_i, z_j) - b` and :math:`u = s^{1/2} V^T \beta`, the objective's gradients
are :math:`-\gamma 1^T e`, :math:`K_{SS} \beta - \gamma \hat K^T e`, the normal equations of [Cawley2004]_ eq. (3), and,
in the features, :math:`u - \gamma Z^T e`. The point :math:`\alpha = \gamma e` is dual feasible where
:math:`1^T e = 0`, and the duality gap, which bounds the distance of the objective from its minimum, is

.. math:: P - D = \tfrac12 \| u - \gamma Z^T e \|^2 - \gamma\, b\, 1^T e .

The distance of the fitted values from those of the exact optimum is bounded for the fitted machine: over the directions
of the basis that were kept, in the features :math:`z(x) = T^T k_S(x)`,

.. math:: \min_{u, b} \tfrac{\lambda}{2} u^T u + \tfrac12 \sum_i v_i (y_i - z_i^T u - b)^2 .

Beta and b are stored. With the weights :math:`u = s^{1/2} V^T \beta`, :math:`d = \beta - T u`, the errors e of all rows
as ``predict`` computes them, and :math:`g = \lambda u - T^T \sum_i v_i (k_S(x_i) - \bar k)\, e_i`,

.. math:: \|f - f^\star\|_v \le \|Z_c H^{-1} g\|_v + 2 \|\hat K d\|_v + |1^T V e| \big/ \sqrt{\textstyle\sum_i v_i} ,

see :mod:`~substrate.reduced.spectrum` for the first term. All terms are computed from the sums over the rows. Rounding
is added: of the errors, where :math:`Z_c H^{-1} Z_c^T` is at most a projection, twice, once for the gradient and once
for what ``predict`` returns; of the kernel values, accurate to :math:`p \sqrt{k(x, x) k(z, z)}`; and of the sums.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates import Row
from substrate.certificates.doubled_precision import add, exact_product, minus
from substrate.certificates.rows import ACCURATE, Accuracy, accuracy_row, roundoff
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.reduced.curvature import Curvature, Reach
from substrate.reduced.features import EigenFeatures
from substrate.streaming.survey import TargetSummary

__all__ = ["ErrorsRounded", "Residuals", "cut_fact", "reduced_accuracy", "reduced_rows", "rounded_errors"]


@dataclass(frozen=True, slots=True)
class Residuals:
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
    rounding: float

    def __add__(self, other: "Residuals") -> "Residuals":
        return Residuals(
            self.count + other.count,
            self.slope + other.slope,
            self.total + other.total,
            self.squares + other.squares,
            self.targets + other.targets,
            self.kernel_squares + other.kernel_squares,
            self.shifts + other.shifts,
            self.spreads + other.spreads,
            self.mass + other.mass,
            self.diagonal + other.diagonal,
            max(self.rounding, other.rounding),
        )

    @property
    def norm(self) -> float:
        """The Frobenius norm of K."""
        return float(np.sqrt(self.kernel_squares))


def reduced_rows(
    residuals: Residuals,
    features: EigenFeatures,
    K_basis: Array,
    coefficients: Array,
    weights: Array,
    bias: Array,
    lam: float,
) -> list[tuple[Row, ...]]:
    """Rows for every output. Gradients are divided by gamma, so that a scale is never infinite."""
    xp = namespace_of(K_basis)
    tolerance = roundoff(features.n_basis + int(np.sqrt(residuals.count)))
    norm_basis = float(xp.linalg.vector_norm(K_basis))
    norm_transform = float(np.sqrt(float(xp.sum(1.0 / features.values))))
    # ||z||^2 is at most k(x, x)
    norm_features = float(np.sqrt(residuals.mass * float(xp.mean(xp.linalg.diagonal(K_basis)))))
    # matrix products are computed where the matrix is; a few vectors are checked on the host
    slopes_in_beta = to_numpy(lam * (K_basis @ coefficients) - residuals.slope)
    gradients = to_numpy(lam * weights - features.transform.T @ residuals.slope)
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
        scale_w = lam * float(np.linalg.norm(u)) + norm_features * terms + magnified
        norm_squared, total = float(u @ u), float(residuals.total[k])
        # lambda times the objectives: lambda/2 u'u + 1/2 e'e, and a gap of 1/(2 lambda) ||lambda u - Z'e||^2
        gap = 0.5 * in_w**2 / lam + abs(b * total)
        value = 0.5 * lam * norm_squared + 0.5 * float(residuals.squares[k])
        spare = (tolerance * scale_w) ** 2 / lam + tolerance * float(np.sqrt(residuals.mass)) * abs(b) * terms
        checks.append(
            (
                Row("1'e = 0", total, float(np.sqrt(residuals.mass)) * terms, tolerance, "|1'e|"),
                Row(
                    "stationarity in beta",
                    in_beta,
                    lam * norm_basis * norm_beta + residuals.norm * terms,
                    tolerance,
                    "||K_SS beta / gamma - K'e||",
                ),
                Row("stationarity in w", in_w, scale_w, tolerance, "||u / gamma - Z'e||"),
                Row("duality gap", gap, value + spare / tolerance, tolerance, "(primal - dual objective) / gamma"),
            )
        )
    return checks


FORMULA = "||Z H^-1 (u/gamma - Z'e)||_v + 2 ||K (beta - T u)||_v + |1'e| / sqrt(1'v) + rounding"
_HALF = EPS / 2.0


@dataclass(frozen=True, slots=True)
class ErrorsRounded:
    """Bounds on the rounding of a pass: one number per output, in units of the targets.

    ``errors`` bounds the norm of the error of e; ``apart`` that of the distance between what ``predict``
    returns and the exact values; ``slopes`` is the relative error of the sums K'e, relative to their sizes. Where the
    errors are from sums of kernel values, ``pulled`` is the error of the sums of z e relative to the norms of the
    columns of z, and ``shifted`` that of the sum of e relative to the root of the mass.
    """

    errors: Array
    apart: Array
    kernel: float
    slopes: float
    pulled: Array | None = None
    shifted: Array | None = None


def rounded_errors(residuals: Residuals, sizes: Array, coefficients: Array, bias: Array, terms: int) -> ErrorsRounded:
    """The rounding of a pass in working precision, from the sizes of the terms."""
    m, beta = coefficients.shape[0], np.abs(coefficients)
    spread = math.sqrt(residuals.diagonal)
    products = residuals.norm * np.linalg.norm(beta, axis=0) * (m + 2.0) * _HALF
    products += residuals.rounding * spread * (sizes @ beta)
    given = np.sqrt(residuals.targets) + math.sqrt(residuals.mass) * np.abs(bias)
    off = 1.01 * (products + 4.0 * _HALF * (given + residuals.norm * np.linalg.norm(beta, axis=0)))
    return ErrorsRounded(off, off, residuals.rounding, (terms + 8.0) * _HALF)


def reduced_accuracy(
    residuals: Residuals,
    rounded: ErrorsRounded,
    curvature: Curvature,
    coefficients: Array,
    bias: Array,
    lam: float,
    unit: float,
    targets: TargetSummary,
    *,
    tolerance: float = ACCURATE,
) -> tuple[list[Accuracy], bool]:
    """The row of every output, in units of y, and whether the gradient is a large part of one that fails.

    Coefficients and bias are in units of the targets, on the host.
    """
    features = curvature.features
    T = to_numpy(features.transform)
    slope, sizes = to_numpy(residuals.slope), to_numpy(curvature.sizes)
    mean, spread = to_numpy(curvature.mean), math.sqrt(residuals.diagonal)
    root_mass = math.sqrt(residuals.mass)
    reach = curvature.at(lam, rounded.kernel, spread)
    if not reach.known:  # there is no bound, whatever the gradient is
        return _rows(np.full(bias.size, math.inf), residuals, unit, targets, tolerance), False
    weights, apart = _nearest(features, T, coefficients)
    gradient, rest = _gradient(T, slope, residuals.total, mean, weights, lam)
    effect = reach.of_gradient(on_device_of(curvature.scatter, gradient))
    # the error of the sums and of their kernel values, per basis vector and relative to its size
    length = np.sqrt(residuals.squares) + rounded.errors
    relative = (rounded.kernel + rounded.slopes) * spread * length
    relative += 4.0 * (rounded.kernel + rounded.slopes) * spread / root_mass * np.abs(residuals.total)
    others = effect + rest / math.sqrt(lam) + rounded.errors + rounded.apart
    others += 2.0 * (residuals.norm + rounded.kernel * spread * float(np.linalg.norm(sizes))) * apart
    others += np.abs(residuals.total) / root_mass + rounded.slopes * length
    for sharp in (False, True):  # the sharper bound of the slopes is computed where it may matter
        moved = others + reach.of_slopes(1.0, sharp=sharp) * relative
        if rounded.pulled is not None and rounded.shifted is not None:
            pulled = rounded.pulled + reach.summed * rounded.shifted
            moved = moved + reach.of_slopes(1.0, sharp=sharp, summed=True) * pulled
            moved = moved + _of_shift(reach, lam) * rounded.shifted
        made = _rows(1.01 * unit * moved / root_mass, residuals, unit, targets, tolerance)
        if all(row.passes for row in made):
            break
    pulled = 1.01 * unit * effect / root_mass
    helped = any(not row.passes and part > 0.25 * row.value for row, part in zip(made, pulled, strict=True))
    return made, helped


def _of_shift(reach: Reach, lam: float) -> float:
    """The effect of an error of 1'e on the fitted values, relative to the root of the mass.

    It changes their mean, and g by a multiple of the mean feature about the origin of the sums. That is one known
    direction, so the effect is far smaller than that of as large an error in any direction. The mean feature itself is
    right up to the rounding of the sums, which :meth:`Reach.of_slopes` bounds, and of its product with T.
    """
    c = reach.curvature
    T = np.abs(c.features.transform)
    product = (T.shape[0] + 4.0) * _HALF * float(np.linalg.norm(c.columns @ T)) / math.sqrt(lam)
    return float(1.0 + math.sqrt(c.mass) * reach.of_gradient(c.offsets[:, None])[0] + product)


def _rows(bounds: Array, residuals: Residuals, unit: float, targets: TargetSummary, tolerance: float) -> list[Accuracy]:
    """The row of every output, from bounds in units of y."""
    made = []
    for k in range(bounds.size):
        shift = float(residuals.shifts[k]) / residuals.mass
        about = unit * math.sqrt(max(float(residuals.spreads[k]) / residuals.mass - shift**2, 0.0))
        largest = float(np.abs(targets.extremes[:, k]).max())
        bound = float(bounds[k]) if math.isfinite(bounds[k]) else math.inf
        made.append(accuracy_row(bound, about, FORMULA, tolerance=tolerance, rounding=residuals.count * EPS * largest))
    return made


def cut_fact(features: EigenFeatures) -> tuple[str, str]:
    """The machine to which the accuracy refers, for the record."""
    cut = features.n_basis - features.rank
    if cut == 0:
        return "accuracy", "of the machine on all directions of K_SS, none of which is below rounding"
    return (
        "accuracy",
        f"of the machine on the {features.rank} directions of K_SS that were kept; the other {cut} are below rounding, "
        "and their effect is not included: prove(X, y) bounds the distance from the uncut machine",
    )


def _nearest(features: EigenFeatures, T: Array, beta: Array) -> tuple[Array, Array]:
    """Weights u of beta, and a bound on the norm of beta - T u per output."""
    values = to_numpy(features.values)
    weights = np.asarray((T.T @ beta) * values[:, None])
    lengths = np.empty(beta.shape[1])
    for k in range(beta.shape[1]):
        product, check = exact_product(T, weights[:, k])
        rest = add((beta[:, k], np.zeros_like(beta[:, k])), minus(product))
        lengths[k] = np.linalg.norm(np.abs(rest[0] + rest[1]) + check)
    return weights, lengths


def _gradient(T: Array, slope: Array, total: Array, mean: Array, weights: Array, lam: float) -> tuple[Array, Array]:
    """g = lambda u - T'K'e + mean 1'e, one column per output, and a bound on the norm of its rounding."""
    gradient, rest = np.empty_like(weights), np.empty(weights.shape[1])
    columns = np.ascontiguousarray(T.T)
    for k in range(weights.shape[1]):
        product, check = exact_product(columns, slope[:, k])
        pull = lam * weights[:, k]
        shift = mean * float(total[k])
        zero = np.zeros_like(pull)
        made = add(add((pull, zero), (shift, zero)), minus(product))
        gradient[:, k] = made[0] + made[1]
        rest[k] = np.linalg.norm(check + EPS * (np.abs(pull) + np.abs(shift) + np.abs(gradient[:, k])))
    return gradient, rest
