r"""Regularization constants confined to a few columns, c = Z u, fused with validation: a projection on few directions.

.. math::

    \min_{u, \alpha, b, e, e^v} \; \|e\|^2 + \|e^v\|^2 \quad \text{s.t.} \quad
    \begin{cases} y = \Omega \alpha + b 1_N + e, \quad 1_N^T \alpha = 0, \quad e = \alpha + Z u, \\
    y^v = \Omega^v \alpha + b 1_n + e^v \end{cases}

For a given u the machine solves the linear system of the substrate, :math:`(\Omega + I) \alpha + b 1 = y - Z u`, whose
solution is affine in u: :math:`\alpha = \alpha_0 - A u`, :math:`b = b_0 - \beta^T u`, where every column of A and
:math:`\beta` belongs to one of Z as target. All errors together are

.. math:: r(u) = r_0 + M u, \qquad r_0 = \begin{bmatrix} \alpha_0 \\ y^v - \Omega^v \alpha_0 - b_0 1 \end{bmatrix},
          \qquad M = \begin{bmatrix} Z - A \\ \Omega^v A + 1 \beta^T \end{bmatrix} ,

and :math:`u = -M^+ r_0`. The columns of Z are measured by their lengths first; directions of M below a cut-off, those
of columns that depend on each other for instance, are left out, and u is the shortest one. The errors are unique.

How far any errors r are from those of the optimum, :math:`r^\star = (I - P) r_0` with P the projection on the range of
M, follows from computed numbers. Let Q have nearly orthonormal columns, W be any matrix and z any vector, and let
:math:`\eta \ge \|M W - Q\|` count all that M may be off by. A unit vector of the range of M W is :math:`(M W) x`, with
:math:`\|x\| \le 1/(\sigma_{min}(Q) - \eta)`, and :math:`Q z` is within :math:`\eta \|z\|` of that range, hence

.. math:: \|r - r^\star\| = \|P r + (I - P)(r - r_0)\|
          \le \frac{\|Q^T r\| + \eta \|r\|}{\sigma_{min}(Q) - \eta} + \|r - r_0 - Q z\| + \eta \|z\| .

Where all columns are kept, W is invertible and this range is that of M; where directions were left out, the optimum is
that over the kept ones.

What M and :math:`r_0` are off by follows from the residuals of the linear systems and the radii of the kernel values.
Since :math:`1^T \alpha = 0`, the bias absorbs what a vector m takes from the kernel values. The systems are those of

.. math:: \Omega_c = \Omega - 1 m^T - m 1^T + \bar m 1 1^T, \qquad
          \Omega^v_c = \Omega^v - 1 m^T - m^v 1^T + \bar m 1 1^T, \qquad b_c = b + m^T \alpha ,

m the means of the columns of :math:`\Omega`, :math:`m^v` those of the rows of :math:`\Omega^v`: features about their
mean, so that points far from the origin lose the digits of their kernel values and no others.
Let :math:`A = \Omega + \nu I` be positive semi-definite with :math:`\nu < 1`, p be the residual of
:math:`\Omega_c \alpha + \alpha + b_c 1` and s the sum of the support values. Their error is :math:`\delta - (s/N) 1`
with :math:`1^T \delta = 0`, and with :math:`q = p + (s/N) \Omega_c 1`

.. math:: \delta^T A \delta + (1 - \nu) \|\delta\|^2 \le \|\delta\| \|q\| \quad\Longrightarrow\quad
          \|\delta\| \le \frac{\|q\|}{1 - \nu}, \qquad
          |f_\delta(x) - \bar f_\delta| \le \sqrt{k_c(x, x)}\, \sqrt{\delta^T A \delta}
          \le \frac{\sqrt{k_c(x, x)}\, \|q\|}{2 \sqrt{1 - \nu}}

by Cauchy's inequality in the space of the kernel, :math:`\bar f_\delta` being the mean over the training rows and
:math:`k_c(x, x) = k(x, x) - 2 m^v(x) + \bar m`, where :math:`k(x, x)` of the validation points is known. The mean of
the N equations bounds the error of :math:`b_c` by
:math:`\|q\| / \sqrt N + |s| / N + \|\Omega_c 1\| \|\delta\| / N`, in which :math:`\Omega_c 1` is rounding alone.

[Pelckmans2005]_ section 4.2 proposes to confine c against over-fitting of the validation rows.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array, positive, real_array
from substrate.certificates import Row
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.certificates.rows import Accuracy, with_cutoff
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["CUTOFF", "ConfinedSolution", "ConfinedSystem", "checked_columns"]

#: Relative size of the directions of M left out.
CUTOFF = 1e-10


def checked_columns(Z: object, n: int) -> Array:
    """Return the columns that c is confined to, refused where they do not fit n rows.

    Columns that depend on each other confine c no less; as many independent ones as rows do not confine it.
    """
    columns = real_array(Z, "Z", ndim=(1, 2))
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.shape[0] != n:
        raise DataError(f"Z must have one row per training row: expected {n}, received {columns.shape[0]}")
    return np.asarray(columns)


@dataclass(frozen=True, slots=True)
class ConfinedSolution:
    """Coefficients u of the columns, constants c, support values in regression's sign, bias, and all errors."""

    levels: Array
    constants: Array
    support_values: Array
    bias: float
    errors: Array


@dataclass(frozen=True, slots=True)
class ConfinedSystem:
    """The errors of all rows as an affine function of u, with the machines that belong to y and to every column of Z.

    ``centre`` is taken from all targets first, and is part of the bias; ``means`` is m. ``start`` is r_0, ``slopes`` is
    M for columns of unit length, ``lengths`` are those of the given ones; ``machines`` has the support values of y and
    of the columns, ``biases`` their b_c; ``directions`` is the orthonormal basis Q of the range of M, ``levels_of``
    takes coordinates in it to u: W; ``errors`` bound what r_0 and M are off by.
    """

    columns: Array
    centre: float
    means: Array
    start: Array
    slopes: Array
    lengths: Array
    machines: Array
    biases: Array
    directions: Array
    levels_of: Array
    errors: tuple[float, float]

    @classmethod
    def of(
        cls,
        gram: Gram,
        target: Array,
        below: Array,
        target_val: Array,
        Z: Array,
        cutoff: float = CUTOFF,
        negative: float = 0.0,
    ) -> "ConfinedSystem":
        """Solve the linear systems of y and of every column; K + negative I is positive semi-definite."""
        positive(cutoff, "cutoff")
        centre = float(np.mean(target))  # rounding is then that of y about its mean, whatever the offset
        target, target_val = target - centre, target_val - centre
        sizes = np.abs(Z).max(axis=0)  # in two steps: squares of large or small columns leave the range
        scaled = Z / np.where(sizes > 0.0, sizes, 1.0)
        lengths = np.linalg.norm(scaled, axis=0)
        scaled = scaled / np.where(lengths > 0.0, lengths, 1.0)
        centred = _CentredValues.of(gram, below, negative)
        ridge = np.ones(gram.n)
        solved = [solve_saddle_system(centred.gram, column, ridge) for column in (target, *scaled.T)]
        machines = np.column_stack([one.support_values for one in solved])
        biases = np.array([one.bias for one in solved])
        moved = centred.below @ machines + biases
        start = np.append(machines[:, 0], target_val - moved[:, 0])
        slopes = np.vstack([scaled - machines[:, 1:], moved[:, 1:]])
        bounds = _errors_of_machines(centred, np.column_stack([target, scaled]), machines, biases)
        lost = relative_rounding(4.0) * float(np.linalg.norm(target_val))
        Q, s, Vt = np.linalg.svd(slopes, full_matrices=False)
        keep = s > max(cutoff, relative_rounding(float(slopes.shape[0]))) * max(float(s[0]), 1e-300)
        return cls(
            columns=Z,
            centre=centre,
            means=centred.means,
            start=start,
            slopes=slopes,
            lengths=sizes * lengths,
            machines=machines,
            biases=biases,
            directions=Q[:, keep],
            levels_of=Vt[keep].T / s[keep],
            errors=(at_most(float(bounds[0]) + lost), at_most(float(np.linalg.norm(bounds[1:])))),
        )

    @property
    def keeps_all(self) -> bool:
        """Whether every column that is not zero moves the errors in a direction of its own."""
        return bool(self.directions.shape[1] == np.count_nonzero(self.lengths))

    def solve(self) -> ConfinedSolution:
        """Project: the errors orthogonal to all directions in which c can move them."""
        scaled = -self.levels_of @ (self.directions.T @ self.start)
        levels = np.divide(scaled, self.lengths, out=np.zeros_like(scaled), where=self.lengths > 0.0)
        alpha = self.machines[:, 0] - self.machines[:, 1:] @ scaled
        bias = self.centre + float(self.biases[0] - self.biases[1:] @ scaled - self.means @ alpha)
        errors = self.start - self.directions @ (self.directions.T @ self.start)
        return ConfinedSolution(levels, self.columns @ levels, alpha, bias, errors)

    def rows(self, errors: Array, size: float, tolerance: float) -> tuple[Row, ...]:
        """Check that errors can be had by some c of the columns, and are orthogonal to what c can change."""
        moved = errors - self.start
        beside = moved - self.directions @ (self.directions.T @ moved)
        along = self.directions.T @ errors
        return (
            Row(
                name="errors of some c = Z u",
                value=float(np.linalg.norm(beside)),
                scale=size,
                tolerance=tolerance,
                formula="||(I - QQ')(r - r_0)||",
            ),
            Row(
                name="errors orthogonal to M",
                value=float(np.linalg.norm(along)),
                scale=size,
                tolerance=tolerance,
                formula="||Q'r||",
            ),
        )

    def radius(self, errors: Array) -> float:
        """Bound the distance of errors from those of the optimum with the cutoff, as a length."""
        Q, W = self.directions, self.levels_of
        rows, kept = Q.shape
        size, of_start = float(np.linalg.norm(errors)), float(np.linalg.norm(self.start))
        moved = errors - self.start
        z = Q.T @ moved
        size_z = float(np.linalg.norm(z))
        beside = float(np.linalg.norm(moved - Q @ z)) + relative_rounding(kept + 4.0) * (
            size + of_start + math.sqrt(kept + 1.0) * size_z
        )
        error_of_start, error_of_slopes = self.errors
        if kept == 0:
            return at_most(beside + error_of_start)
        size_Q, size_W = float(np.linalg.norm(Q)), float(np.linalg.norm(W))
        products = float(np.linalg.norm(self.slopes)) * size_W + size_Q
        turned = at_most(
            float(np.linalg.norm(self.slopes @ W - Q))
            + relative_rounding(W.shape[0] + 2.0) * products
            + error_of_slopes * size_W
        )
        skew = at_most(float(np.linalg.norm(Q.T @ Q - np.eye(kept))) + relative_rounding(rows + 2.0) * size_Q**2)
        if not skew + 2.0 * turned < 1.0:  # sqrt(1 - skew) >= 1 - skew
            return math.inf
        along = float(np.linalg.norm(Q.T @ errors)) + (relative_rounding(rows + 2.0) * size_Q + turned) * size
        return at_most(along / (1.0 - skew - turned) + beside + turned * size_z + error_of_start)

    def accuracy(self, errors: Array, evaluated: float, tolerance: Tolerance) -> Accuracy:
        """Return that bound as a row, root mean square over training and validation rows.

        ``evaluated`` bounds what the rounding of another evaluation of the fitted values may change, as a length.
        """
        radius = self.radius(errors) + evaluated
        row = tolerance.row_of_norm(radius, errors.size, "||Pr|| + ||(I - P)(r - r_0)|| + rounding")
        return row if self.keeps_all else with_cutoff(row)


@dataclass(frozen=True, slots=True)
class _CentredValues:
    """Kernel values less m: Omega_c and the rows below it, and m less half of its mean.

    ``lost`` and ``lost_below`` bound the norms of what rounding the differences may have changed in both.
    """

    gram: Gram
    below: Array
    means: Array
    negative: float
    lost: float
    lost_below: float

    @classmethod
    def of(cls, gram: Gram, below: Array, negative: float) -> "_CentredValues":
        K, n, n_val = gram.matrix, gram.n, below.shape[0]
        means, of_rows = K.mean(axis=0), below.mean(axis=1)
        middle = float(means.mean())
        shift = means - 0.5 * middle  # half of the mean for either index: the matrix stays symmetric to the last bit
        size, size_below, reach = (float(np.linalg.norm(part)) for part in (K, below, means))
        # any m, and any number taken from a row, will do: what counts is the rounding of the differences
        few = relative_rounding(8.0)
        lost = at_most(few * (size + 2.0 * math.sqrt(n) * reach))
        centred = gram.shift(shift)
        centred.cancelled += lost  # negative eigenvalues of this size say nothing of the kernel
        return cls(
            gram=centred,
            below=below - ((of_rows - 0.5 * middle)[:, None] + shift),
            means=shift,
            negative=negative,
            lost=lost,
            lost_below=at_most(few * (2.0 * size_below + math.sqrt(n_val) * reach)),
        )


def _errors_of_machines(centred: _CentredValues, targets: Array, machines: Array, biases: Array) -> Array:
    """Bound what every machine, a column of all errors, is off by: residuals, rounding and kernel values counted."""
    K, below, n = centred.gram.matrix, centred.below, centred.gram.n
    floor = 1.0 - at_most(centred.negative)
    if not floor > 0.0:
        return np.full(biases.size, np.inf)
    root, root_val, rounding = math.sqrt(n), math.sqrt(below.shape[0]), relative_rounding(n + 4.0)
    size, size_below = float(np.linalg.norm(K)), float(np.linalg.norm(below))
    lengths, sizes, shifts = np.linalg.norm(machines, axis=0), np.linalg.norm(targets, axis=0), np.abs(biases)
    # columns of unit length, and targets less their centre, are right to a few roundings, which this counts too
    lost = rounding * ((size + 1.0) * lengths + root * shifts + sizes) + centred.lost * lengths
    residual = np.linalg.norm(targets - K @ machines - machines - biases, axis=0) + lost
    total = np.abs(machines.sum(axis=0)) + relative_rounding(float(n)) * np.abs(machines).sum(axis=0)
    row_sums = float(np.linalg.norm(K.sum(axis=1))) + (rounding * size + centred.lost) * root
    pull = residual + total * row_sums / n
    off = pull / floor + total / root
    off_bias = pull / root + total / n + row_sums * pull / (n * floor)
    reach = size_below + centred.lost_below
    in_rows = rounding * (size_below * lengths + root_val * shifts) + centred.lost_below * lengths
    moved = reach * (pull / floor + total / root) + root_val * off_bias + in_rows
    bound: Array = off + relative_rounding(4.0) * (sizes + lengths) + moved
    return bound
