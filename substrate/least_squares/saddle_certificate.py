r"""Certificate rows of the LS-SVM saddle system, recomputed from data and solution, and a bound on its fitted values.

The KKT conditions ([Suykens2002]_ eq. (4)) with w eliminated: the fit equalities with :math:`e = \alpha/(\gamma v)`
inserted, stationarity in e with :math:`e = y - f` inserted, :math:`1^T \alpha = 0`, the duality gap of

.. math:: P = \tfrac12 \alpha^T K \alpha + \tfrac12 \sum_i \gamma v_i (y_i - f_i)^2, \qquad
          D = y^T \alpha - \tfrac12 \alpha^T K \alpha - \tfrac12 \sum_i \frac{\alpha_i^2}{\gamma v_i},

and the normwise backward error of the bordered system (2).

The distance of the fitted values from those of the exact optimum is bounded as follows. Let :math:`f = K a + b 1`,
:math:`D = \operatorname{diag}(1/(\gamma v_i))` and :math:`r = y - f - D a`, with
:math:`1^T a = 0`. For the exact optimum :math:`(a^\star, b^\star, f^\star)` and :math:`d = a^\star - a`,

.. math::

    (K + D)\, d + (b^\star - b)\, 1 = r, \quad 1^T d = 0
    \quad\Longrightarrow\quad d^T K d + d^T D d = d^T r .

K is positive semi-definite, so :math:`\|D^{1/2} d\| \le \|D^{-1/2} r\|`, and from :math:`f - f^\star = D d - r`

.. math::

    \|D^{-1/2}(f - f^\star)\|^2 = \|D^{-1/2} r\|^2 - 2 d^T K d - d^T D d
    \quad\Longrightarrow\quad \|f - f^\star\|_v \le \|r\|_v ,

where gamma cancels. A nonzero sum :math:`1^T a` is removed first, in proportion to :math:`D^{-1} 1`. With other columns
that are not penalised Z is in the place of 1 (:mod:`~substrate.least_squares.border`).

:func:`bound_expansion` is this formula, over numbers with a radius (:mod:`~substrate.certificates.enclosed`), so that
rounding is part of them. With :math:`s_i = \sqrt{k(x_i, x_i)}` and a computed kernel value within :math:`p\, s_i s_j`
of the true one, K a has in double precision the radius :math:`(p + n u)\, s_i \sum_j s_j |a_j|`, once in the residual
and once in what ``predict`` returns. Where that exceeds the tolerance and the matrix of the fit is at hand, K a is
formed in blocks, which lose :math:`w u \ll n u`; and where the kernel bounds the error of a value by the value itself,
:math:`|\hat k_{ij} - k_{ij}| \le (q_i + q_j)\, \hat k_{ij}` with :math:`\hat k_{ij} \ge 0`, the radius is

.. math:: (q_i + w u) (\hat K |a|)_i + (\hat K (q \circ |a|))_i .

Where that is too large, too, the formula is evaluated in doubled precision,
with kernel values from plain differences, and the distance of what ``predict`` returns is measured, not bounded. In
balls, with kernel values from their formulas, it is a proof (:mod:`substrate.proof.least_squares`).

A user's matrix or function is exact by definition, made symmetric. Where only
:math:`K + \lambda I` is semi-definite and :math:`\sigma = \lambda / \min_i D_{ii} < 1`, the identity above gives
:math:`(1 - \sigma) \|D^{1/2} d\| \le \|D^{-1/2} r\|` and

.. math:: \|f - f^\star\|_v \le \max\!\left(1, \frac{\sigma}{1 - \sigma}\right) \|r\|_v .
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.doubled_precision import Pair, SymmetricProduct, exact_product, exact_sum
from substrate.certificates.enclosed import LEAST, Double, Doubled, Enclosed, sum_rounding
from substrate.certificates.rounding import at_most, block_rounding, relative_rounding
from substrate.certificates.rows import Accuracy, accuracy_of_outputs, gap_row, roundoff
from substrate.gram import Gram
from substrate.ingredients import error_row, fit_row, zero_sum_row
from substrate.kernels import Kernel
from substrate.kernels.base import strips, symmetric_rounding
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import target_unit

__all__ = [
    "BLOCK_FORMULA",
    "CAREFUL_FORMULA",
    "FORMULA",
    "BlockRows",
    "CarefulRows",
    "Expansion",
    "PlainRows",
    "bound_carefully",
    "bound_expansion",
    "bound_plainly",
    "kernel_roots",
    "saddle_rows",
    "worst_rows",
]


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its row fails
def saddle_rows(
    products: Array,
    diagonal: Array,
    y: Array,
    ridge: Array,
    support_values: Array,
    bias: float,
    *,
    tolerance: float | None = None,
    border: Border = ONES,
    slopes: Array | None = None,
) -> tuple[Row, ...]:
    """Return rows for one output, in units of :func:`~substrate.least_squares.saddle_system.target_unit`.

    :equation [Suykens2002]_ (4): the conditions for optimality, with w eliminated

    Parameters
    ----------
    products
        K alpha, computed from the alpha that is certified.
    diagonal
        The diagonal of K.
    y, ridge
        Target and the diagonal 1/(gamma v).
    support_values, bias
        The solution.
    tolerance
        LAPACK's threshold for a direct method unless given; an iterative method states its own.
    border, slopes
        The columns that are not penalised, and the coefficients of those beside the constant.
    """
    unit = target_unit(y)
    p, t, alpha, b = products / unit, y / unit, support_values / unit, float(bias) / unit
    tolerance = roundoff(y.size) if tolerance is None else tolerance
    # Without the mean of y, which the bias absorbs: an offset must not make the check easier or less accurate.
    root, center = float(np.sqrt(y.size)), float(np.mean(t))
    linear = border.slope_values(slopes) / unit
    rounded = relative_rounding(4.0) * float((np.abs(t) + border.slope_sizes(slopes) / unit).max())
    # what the linear part fits is taken off the targets: the bias and the kernel fit the rest
    t, b = t - linear - center, b - center
    f = p + b
    e = t - f
    implied = ridge * alpha
    norm_alpha = float(np.linalg.norm(alpha))
    # A lower bound of ||K|| (its action on alpha, its diagonal): the scale is never too large.
    norm_k = max(float(np.linalg.norm(p)) / norm_alpha if norm_alpha > 0.0 else 0.0, float(diagonal.max()))
    # The border of ones is part of the matrix, so the scale includes its norm times alpha, and the rounding of y.
    scale = norm_k * norm_alpha + float(np.linalg.norm(implied)) + root * (abs(b) + norm_alpha)
    scale += float(np.linalg.norm(t)) + root * rounded / tolerance
    norm_squared, total = float(alpha @ p), exact_sum(alpha)
    gap = gap_row(
        primal=(0.5 * norm_squared, 0.5 * float(e @ (e / ridge))),
        dual=(float(t @ alpha) + center * total, -0.5 * norm_squared, -0.5 * float(alpha @ implied)),
        tolerance=tolerance,
    )
    residual = float(np.linalg.norm(np.append(t - f - implied, alpha.sum())))
    return (
        fit_row(t, f, implied, tolerance, scale),
        error_row(alpha, 1.0 / ridge, e, tolerance, t, scale),
        zero_sum_row(alpha, tolerance),
        *border.row(alpha, tolerance),
        # alpha'K alpha may be far smaller than ||K|| ||alpha||^2, which determines its rounding; errors are known to
        # the rounding of y, whose square is in the objective
        replace(gap, scale=gap.scale + scale * norm_alpha + float(np.sum(1.0 / ridge)) * rounded**2 / tolerance),
        Row(
            name="backward error",
            value=residual,
            scale=scale,
            tolerance=tolerance,
            formula="||rhs - M x|| / (||M|| ||x|| + ||rhs||)",
        ),
    )


def worst_rows(outputs: list[tuple[Row, ...]]) -> tuple[Row, ...]:
    """Return, of several outputs' rows of the same name, the one that comes closest to failing; the accuracy of every
    output.

    Where one output has no bound on its answer, there is none for all.
    """
    if len(outputs) == 1:
        return outputs[0]
    answers = [row for rows in outputs for row in rows if isinstance(row, Accuracy)]
    named: dict[str, list[Row]] = {}
    for rows in outputs:
        for row in rows:
            if not isinstance(row, Accuracy):
                named.setdefault(row.name, []).append(row)
    bounded = (accuracy_of_outputs(answers),) if outputs and len(answers) == len(outputs) else ()
    return bounded + tuple(
        replace(
            max(rows, key=lambda row: row.relative / row.tolerance),
            formula=f"{rows[0].formula}, worst of {len(rows)} outputs" if len(rows) > 1 else rows[0].formula,
        )
        for rows in named.values()
    )


FORMULA = "||y - f - alpha/(gamma v)||_v + rounding"
BLOCK_FORMULA = f"{FORMULA}, in blocks"
CAREFUL_FORMULA = f"{FORMULA}, in doubled precision"
#: Rows of a given matrix, and rows and columns of kernel values, that are sliced at a time.
_BLOCK, _TILE = 128, 256
#: Rounding of kernel values, as a share of s_i s_j, up to which they are at most sqrt(2) s_i s_j.
_LARGEST_ROUNDING = 0.4
#: Below this k(x, x) may have lost digits to underflow; as a floor it keeps the bounds valid at no cost.
_LEAST_DIAGONAL = 1e-290
#: A share of s_i s_j that is more than values lose to underflow.
_UNDERFLOW = 1e-300

N = TypeVar("N", bound=Enclosed)


class Expansion(NamedTuple):
    """One output of a stored machine, and the data it was fitted to.

    ``negative`` bounds the distance of K from positive semi-definite, zero for kernels whose formula excludes it.
    ``slopes`` are the coefficients of the columns of the border beside the constant.
    """

    y: Array
    gamma: float
    weights: Array
    a: Array
    b: float
    negative: float = 0.0
    border: Border = ONES
    slopes: Array | None = None


def bound_expansion(
    machine: Expansion, numbers: type[N], kernel: Callable[[N], N], fitted: Array | None = None
) -> tuple[Enclosed, N]:
    r"""Bound the distance of the fitted values from those of the exact optimum, and return the residual with it.

    .. math:: \|f - f^\star\|_v \le \|f - \tilde f\|_v + \max\!\left(1, \frac{\sigma}{1 - \sigma}\right)
              \|y - \tilde f - D \tilde a\|_v, \qquad \tilde f = K \tilde a + Z c

    Parameters
    ----------
    machine
        What is stored.
    numbers
        The arithmetic: double, doubled precision or balls.
    kernel
        The map of coefficients to K a, in these numbers.
    fitted
        What predict returns; None where that is as far from K a + Z c as the values in these numbers may be.
    """
    v = numbers.exact(machine.weights)
    a = machine.border.balance(numbers.exact(machine.a), v)
    pulls = v * machine.gamma
    f = kernel(a) + machine.b
    if machine.slopes is not None and machine.border.slopes:
        f = f + machine.border.enclose_values(numbers, machine.slopes)
    residual = machine.y - f - a / pulls
    distance = f.error() if fitted is None else fitted - f
    factor = _indefinite_factor(machine.negative, pulls)
    norm = residual.bound_norm(machine.weights)
    return (norm if factor == 1.0 else norm * factor) + distance.bound_norm(machine.weights), residual


def _indefinite_factor(negative: float, pulls: Enclosed) -> float:
    """Return the factor where only K + negative I is semi-definite; infinite where D does not compensate for it."""
    if negative == 0.0:
        return 1.0
    share = pulls.largest() * negative
    return max(1.0, (share / (1.0 - share)).upper()) if share.upper() < 1.0 else math.inf


@dataclass(frozen=True, slots=True)
class PlainRows:
    """K a of the certified coefficients in working precision, ``products``.

    ``roots`` are upper bounds of s_i, ``rounding`` is the kernel's p.
    """

    products: Array
    roots: Array
    rounding: float

    def __call__(self, a: Double) -> Double:
        """Return K a for coefficients with these midpoints."""
        share = self.rounding + sum_rounding(self.roots.size)
        return Double(self.products, kernel_radius(self.roots, share, a.middle, a.radius))


@dataclass(frozen=True, slots=True)
class BlockRows:
    """K a of the certified coefficients by a stored matrix, in blocks: ``products`` within ``radius``, as are values
    that ``predict`` returns.

    ``roots`` are upper bounds of s_i.
    """

    products: Array
    radius: Array
    roots: Array

    @classmethod
    def of(cls, gram: Gram, points: Any, a: Array, roots: Array, rounding: float) -> "BlockRows":
        """Multiply by the matrix; ``points`` are those of ``predict``, ``rounding`` is the kernel's p."""
        lost, shares = block_rounding(a.size), _value_shares(gram, points)
        if shares is None:
            radius = kernel_radius(roots, rounding + lost, a, 0.0)
            return cls(gram.product_in_blocks(a[:, None])[:, 0], radius, roots)
        sizes = np.abs(a)
        products, each, with_share = gram.product_in_blocks(np.stack([a, sizes, shares * sizes], axis=1)).T
        # what is left out is at most as large as the numbers here, each right to its own rounding
        radius = at_most(1.0) * ((shares + lost) * each + with_share)
        return cls(products.copy(), radius + kernel_radius(roots, _UNDERFLOW, a, 0.0), roots)

    def __call__(self, a: Double) -> Double:
        """Return K a for coefficients with these midpoints."""
        return Double(self.products, self.radius + kernel_radius(self.roots, 0.0, a.middle, a.radius))


def _value_shares(gram: Gram, points: Any) -> Array | None:
    """Return q of all values of the matrix and of those that ``predict`` computes; None where they are not known."""
    kernel = gram.kernel
    if kernel is None or gram.points is None:
        return None
    stored, predicted = symmetric_rounding(kernel, gram.points), kernel.pair_rounding(points, points)
    if stored is None or predicted is None:
        return None
    return np.maximum(stored, np.maximum(*predicted))


@dataclass(frozen=True, slots=True)
class CarefulRows:
    """K a by accurate kernel values, block by block, in doubled precision; ``roots`` are upper bounds of s_i.

    A user's matrix or function is taken as its values, made symmetric: the matrix of the fit.
    """

    kernel: Kernel
    points: Any
    roots: Array

    @property
    def rounding(self) -> float:
        """The kernel's p for accurate values, by its envelope."""
        envelope = self.kernel.envelope
        factor = 1.0 if envelope is self.kernel else 2.0
        return factor * envelope.careful_rounding(self.points) if self.kernel.trusted else 0.0

    def __call__(self, a: Doubled) -> Doubled:
        """Return K a."""
        n, rounding = self.roots.size, self.rounding
        if not self.kernel.trusted:
            matrix = Gram.of(self.kernel, self.points).matrix
            high, low, radius = (np.empty(n) for _ in range(3))
            for rows in strips(n, _BLOCK):
                (high[rows], low[rows]), radius[rows] = exact_product(matrix[rows], a.high)
        elif rounding <= _LARGEST_ROUNDING:
            (high, low), radius = self._add_tiles(SymmetricProduct(a.high, self.roots))
        else:  # nothing is known
            high, low, radius = np.zeros(n), np.zeros(n), np.full(n, math.inf)
        return Doubled(high, low, radius + kernel_radius(self.roots, rounding, a.high, a.radius))

    def _add_tiles(self, product: SymmetricProduct) -> tuple[Pair, Array]:
        """Return the product of one triangle of accurate values, which the other one mirrors."""
        buffer = np.empty(_TILE * _TILE)
        tiles = [(rows, self.points[rows]) for rows in strips(self.roots.size, _TILE)]
        for number, (rows, left) in enumerate(tiles):
            for columns, right in tiles[number:]:
                shape = rows.stop - rows.start, columns.stop - columns.start
                tile = buffer[: shape[0] * shape[1]].reshape(shape)
                self.kernel.fill_carefully(left, right, tile)
                product.add(rows, columns, tile)
        return product.result()


def kernel_roots(diagonal: Array, negative: float = 0.0) -> Array:
    """Return upper bounds of s_i, by which no kernel value exceeds s_i s_j, from k(x_i, x_i)."""
    return np.asarray(np.sqrt(np.maximum(diagonal, _LEAST_DIAGONAL) + negative))


def kernel_radius(roots: Array, share: float, a: Array, radius: Any) -> Array:
    """Bound the error of K a for entries of K known to ``share`` of s_i s_j, and a to its radius."""
    sizes = share * np.abs(a) + radius
    weight = float(roots @ sizes)
    return np.asarray(roots * max(weight, LEAST)) if a.any() else np.zeros_like(roots)


def bound_plainly(machine: Expansion, rows: "PlainRows | BlockRows", fitted: Array | None = None) -> float:
    """Return the bound in double precision; ``fitted`` is what predict returns, where it must be measured."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is no bound
        return bound_expansion(machine, Double, rows, fitted)[0].upper()


def bound_carefully(machine: Expansion, rows: CarefulRows, fitted: Array) -> tuple[float, Array]:
    """Return the bound in doubled precision, and the residual; ``fitted`` is what predict returns."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        bound, residual = bound_expansion(machine, Doubled, rows, fitted)
        return bound.upper(), residual.midpoint
