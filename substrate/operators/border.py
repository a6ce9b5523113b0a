r"""The border of a kernel machine: the columns that are not penalised, off which all its quantities are projected.

.. math::

    \begin{bmatrix} 0 & Z^T \\ Z & K + D \end{bmatrix}
    \begin{bmatrix} c \\ \alpha \end{bmatrix} = \begin{bmatrix} 0 \\ y \end{bmatrix},
    \qquad f(x) = \sum_i \alpha_i k(x_i, x) + z(x)^T c

[Suykens2002]_ eq. (5) with :math:`Z = 1`, the bias; with further columns :math:`Z = [1, z]` the partially linear
machine of [Espinoza2005b]_; without any, a machine without bias. With :math:`A = K + D`, :math:`H = A^{-1} Z` and
:math:`S = Z^T H`,

.. math:: c = S^{-1} (Z^T A^{-1} y - \beta), \qquad \alpha = A^{-1} y - H c, \qquad
          B = A^{-1} - H S^{-1} H^T,

where :math:`Z^T \alpha = \beta`, mostly zero, and B maps y to :math:`\alpha`.

The span of the columns determines the machine, not the columns. Given ones are therefore measured from their weighted
mean ``center`` and made orthonormal by the weights of the rows, :math:`Z = [1, z - \text{center}]\, T` with an upper
triangle T, so that neither an offset of 1e8 nor a unit of 1e-12 costs digits: all systems contain Z, and with
coefficients c there ``predict`` adds :math:`b + (z - \text{center})^T \beta`, where :math:`(b, \beta) = T c` is in the
units of z.

In bounds the border takes the place of the ones: with :math:`Z^T d = 0` the proof of
:mod:`~substrate.operators.saddle_system` holds unchanged. An imbalance :math:`Z^T a`, computed from the given
columns, is removed by :math:`\tilde a = a - D^{-1} Z\, (Z^T D^{-1} Z)^{-1} Z^T a`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.certificate import Row
from substrate.errors import DataError, SolverError
from substrate.numbers import ROUNDED_ONCE, Double, at_most, relative_rounding

__all__ = [
    "NO_BORDER",
    "ONES",
    "Border",
    "BorderElimination",
    "column_factor",
    "column_units",
    "weighted_center",
]


@dataclass(frozen=True, slots=True)
class Border:
    """The columns Z that are not penalised, the constant first unless ``constant`` is False; see :meth:`of`.

    Parameters
    ----------
    constant
        Whether a bias is among the coefficients.
    columns
        z as given, n x k; empty if there are no columns besides the constant.
    center
        What is subtracted from z: its weighted mean, or zero without a bias.
    turn
        T, upper triangular: Z = [1, z - center] T, and its first column is the constant.
    basis
        Z, orthonormal by the weighted mean square; empty where the rows are not kept.
    names
        What the columns are called, for refusals.
    """

    constant: bool = True
    columns: Array = field(default_factory=lambda: np.empty((0, 0)))
    center: Array = field(default_factory=lambda: np.empty(0))
    turn: Array = field(default_factory=lambda: np.ones((1, 1)))
    basis: Array = field(default_factory=lambda: np.empty((0, 0)))
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Array,
        weights: Array,
        names: Sequence[str] | None = None,
        *,
        center: Array | None = None,
        constant: bool = True,
    ) -> "Border":
        """Make the border of the given columns; those that depend on each other are refused by name.

        ``weights`` has one weight per row; ``center`` is the weighted mean unless given.
        """
        z = np.ascontiguousarray(to_numpy(columns), dtype=np.float64)
        n, k = z.shape
        if k == 0:
            return ONES if constant else NO_BORDER
        named = tuple(f"column {name}" for name in range(k)) if names is None else tuple(names)
        _refuse_few_rows(n, k, constant)
        v = to_numpy(weights) / float(to_numpy(weights).max())
        with np.errstate(over="ignore", invalid="ignore"):
            if center is None:
                center = weighted_center(z, v) if constant else np.zeros(k)
            centred = z - center
            sizes = column_units(np.abs(centred).max(axis=0), named)
        scaled = _beside_constant(centred / sizes, constant)  # a power of two is no rounding
        R, mass = column_factor(scaled, v), float(v.sum())
        border = cls.of_factor(R, n, mass, sizes, np.asarray(center), named, constant=constant)
        basis = np.ascontiguousarray(np.linalg.solve(R.T, math.sqrt(mass) * scaled.T).T)
        basis[:, : int(constant)] = 1.0
        return replace(border, columns=z, basis=basis)

    @classmethod
    def of_factor(
        cls,
        R: Array,
        n: int,
        mass: float,
        units: Array,
        center: Array,
        names: tuple[str, ...],
        *,
        constant: bool = True,
    ) -> "Border":
        """Make the border of columns whose rows are not kept, from the sums of a pass; refuse as :meth:`of`.

        Parameters
        ----------
        R
            The triangular factor of [1, (z - center)/units], each row times the root of its weight.
        n, mass
            The number of rows, and the sum of their weights.
        units
            Powers of two.
        """
        k, lead = units.size, int(constant)
        _refuse_few_rows(n, k, constant)
        lengths, kept = np.sqrt(np.square(R).sum(axis=0)), np.abs(np.diagonal(R))
        for place in range(lead, R.shape[1]):
            # the factor belongs to columns which are off by a multiple of n u ([Higham2002]_ theorem 19.4)
            if not kept[place] > 100.0 * relative_rounding(n) * lengths[place]:
                columns_before = [*(["the constant"] if constant else []), *names[: place - constant]]
                raise DataError(
                    f"{names[place - constant]} of the linear part is determined by {' and '.join(columns_before[:4])}"
                    f"{' and others' if len(columns_before) > 4 else ''} on these rows, so that its coefficient is "
                    "not; take "
                    "it out of linear_columns"
                )
        turn = math.sqrt(mass) * np.triu(np.linalg.inv(R))
        turn[:lead, :lead] = 1.0
        with np.errstate(over="ignore"):
            turn[lead:] /= units[:, None]
        if not np.isfinite(turn).all():
            worst = int(np.argmin(np.isfinite(turn[lead:]).all(axis=1)))
            raise DataError(f"the values of {names[worst]} are too small to be told apart; use a smaller unit")
        none = np.empty((0, k))
        return cls(constant=constant, columns=none, center=center, turn=turn, basis=none, names=names)

    @property
    def count(self) -> int:
        """The number of columns, each of which takes a degree of freedom."""
        return int(self.turn.shape[1])

    @property
    def slopes(self) -> int:
        """The number of columns besides the constant."""
        return int(self.columns.shape[1])

    @property
    def plain(self) -> bool:
        """Return whether the constant is the only column."""
        return self.constant and not self.slopes

    @property
    def linear_basis(self) -> Array:
        """The columns of Z besides the constant."""
        return self.basis[:, int(self.constant) :]

    def matrix(self, like: Array) -> Array:
        """Return Z, with as many rows as ``like``, and where it is."""
        if self.slopes:
            return on_device_of(like, self.basis)  # type: ignore[no-any-return]
        return namespace_of(like).ones_like(like[:, : self.count])  # type: ignore[no-any-return]

    def line(self, linear: Array) -> Array:
        """Return Z of new points, from their columns less ``center``."""
        lines: Array = _beside_constant(linear, self.constant) @ on_device_of(linear, self.turn)
        return lines

    def linear(self, rows: Any) -> Array | None:
        """Return the columns of some of the rows less ``center``; None without columns."""
        if not self.slopes:
            return None
        centred: Array = self.columns[rows] - self.center
        return centred

    def take(self, rows: Any, weights: Array) -> "Border":
        """Return the border of some of the rows, orthonormal on them by their weights, with the same center."""
        if not self.slopes:
            return self
        return Border.of(self.columns[rows], weights, self.names, center=self.center, constant=self.constant)

    def without_rows(self, diagonal: Array, ridge: Array) -> Array:
        """Return the diagonal of B, exactly zero for a row without which the columns depend on each other."""
        if not self.slopes:
            return diagonal
        xp, v = namespace_of(diagonal), 1.0 / to_numpy(ridge)
        alone = on_device_of(diagonal, (v / v.sum()) * np.square(self.basis).sum(axis=1) > 1.0 - 1e-10)
        return xp.where(alone, xp.zeros_like(diagonal), diagonal)  # type: ignore[no-any-return]

    def take_up(self, Y: Array, shares: Array) -> tuple[Array, Array]:
        """Return targets less what the border alone fits to them by shares of the weights, and its coefficients.

        The bias absorbs any constant, so solve for y minus one: an offset of 1e8 then costs no digits, and for a
        constant y the difference, and with it alpha, is exactly zero. Weighted: light rows hardly determine the bias.
        """
        xp, shift = namespace_of(Y), 0.0
        if self.constant:
            shift = xp.clip(shares @ Y, xp.min(Y, axis=0), xp.max(Y, axis=0))
        targets, Z = Y - shift, self.matrix(Y)
        c = (shares[:, None] * Z).T @ targets
        targets = targets - Z @ c
        c[: int(self.constant), :] += shift
        return targets, c

    def split(self, c: Array) -> tuple[Array, Array]:
        """Return the bias, zero without one, and the slopes in the units of z, one column per output."""
        coefficients, lead = on_device_of(c, self.turn) @ c, int(self.constant)
        return namespace_of(c).sum(coefficients[:lead, :], axis=0), coefficients[lead:, :]

    def slope_values(self, slopes: Array | None) -> Array | float:
        """Return (z - center)'beta in working precision; zero without columns."""
        if not self.slopes or slopes is None:
            return 0.0
        values_of_slopes: Array = (self.columns - self.center) @ slopes
        return values_of_slopes

    def eliminate(self, solved: Array) -> "BorderElimination":
        """Prepare the elimination of c, from H = A^-1 Z; refuse a singular S."""
        Z = self.matrix(solved)
        schur = to_numpy(Z.T @ solved)
        schur = (schur + schur.T) / 2.0
        sizes = np.sqrt(np.abs(np.diagonal(schur)))
        # rough columns and smooth ones differ in size by gamma, which makes no system singular
        is_known = np.isfinite(schur).all() and (sizes > 0.0).all()
        scaled = schur / sizes / sizes[:, None] if is_known else schur
        if not is_known or (schur.size and not ROUNDED_ONCE * np.linalg.cond(scaled) <= 1.0):
            raise SolverError(
                "Z'(K + D)^{-1} Z is singular, so the bias, and the coefficients of a linear part, are not determined; "
                "use a positive definite kernel"
            )
        return BorderElimination(Z, solved, np.asarray(np.linalg.inv(scaled) / sizes / sizes[:, None]))

    def balance(self, a: Any, v: Any) -> Any:
        """Return the coefficients less D^-1 Z G^-1 Z'a as enclosed numbers; the weights v are D^-1 up to a factor.

        Z has the span of the given columns, and nearly G = I sum(v).
        """
        if not self.count:
            return a
        if self.plain:
            return a.absorb(v * (a.total() / v.total()))
        columns = self._lines(type(a))
        Z = columns @ self.turn
        # Z'a in this order: every column is summed in its own unit
        totals = Z.exact(self.turn.T) @ (columns.T * a).add_up()
        return a.absorb(v * (Z @ ((Z.T * v) @ Z).solve(totals)))

    def enclose(self, numbers: type[Any], n: int) -> Any:
        """Return the columns Z as n rows of enclosed numbers."""
        return self._lines(numbers) @ self.turn if self.slopes else numbers.exact(np.ones((n, self.count)))

    def _lines(self, numbers: type[Any]) -> Any:
        """Return [1, z - center] as enclosed numbers."""
        columns = numbers.exact(self.columns) - numbers.exact(self.center)
        return numbers.exact(np.ones((len(self.columns), 1))).beside(columns) if self.constant else columns

    def enclose_values(self, numbers: type[Any], slopes: Array) -> Any:
        """Return (z - center)'beta as enclosed numbers."""
        return (numbers.exact(self.columns) - numbers.exact(self.center)) @ numbers.exact(slopes)

    def misfit(self, v: Array) -> float:
        """Bound the distance of ``basis`` from Z, root mean square by the weights v."""
        if not self.slopes:
            return 0.0
        difference = self.enclose(Double, v.size) - self.basis
        return at_most(float(np.linalg.norm(np.sqrt(v / v.sum())[:, None] * difference.sizes)))

    def row(self, alpha: Array, tolerance: float) -> tuple[Row, ...]:
        """Return the certificate row of Q'alpha = 0; none if the constant is all."""
        if not self.slopes:
            return ()
        Q = self.linear_basis
        sizes = np.abs(Q).T @ np.abs(alpha)
        worst = int(np.argmax(np.abs(Q.T @ alpha) / np.where(sizes > 0.0, sizes, 1.0)))
        return (
            Row(
                name="Z'alpha = 0",
                value=float(np.abs(Q[:, worst] @ alpha)),
                scale=float(sizes[worst]),
                tolerance=tolerance,
                formula="|z'alpha|, worst linear column",
            ),
        )


def weighted_center(values: Array, v: Array) -> Array:
    """Return the mean of every column by weight, which rounding leaves among its values: a constant is its own."""
    return np.asarray(np.clip(v @ values / v.sum(), values.min(axis=0), values.max(axis=0)))


def column_factor(columns: Array, v: Array) -> Array:
    """Return the triangular factor of columns, each row times the root of its weight, with a positive diagonal."""
    R = np.linalg.qr(np.sqrt(v)[:, None] * columns, mode="r")
    return np.asarray(np.where(np.diagonal(R) < 0.0, -1.0, 1.0)[:, None] * R)


def _beside_constant(linear: Array, constant: bool) -> Array:
    """Return [1, z - center], or the columns alone without a constant."""
    if not constant:
        return linear
    xp = namespace_of(linear)
    return xp.concat([zeros_beside(linear, (linear.shape[0], 1)) + 1.0, linear], axis=1)  # type: ignore[no-any-return]


def column_units(largest: Array, names: Sequence[str]) -> Array:
    """Return powers of two, not below the largest sizes of columns; refuse what overflows by its name."""
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = 2.0 * largest
    if not np.isfinite(sizes).all():
        raise DataError(f"the values of {names[int(np.argmin(np.isfinite(sizes)))]} overflow; use a larger unit")
    return np.where(sizes > 0.0, 2.0 ** np.floor(np.log2(np.where(sizes > 0.0, sizes, 1.0))), 1.0)


def _refuse_few_rows(n: int, k: int, constant: bool) -> None:
    if n < k + constant:
        raise DataError(
            f"{n} rows do not determine {k} linear columns{' and the bias' if constant else ''}; use fewer linear "
            "columns or more rows"
        )


@dataclass(frozen=True, slots=True)
class BorderElimination:
    """Z, H = A^-1 Z, S = Z'H and its inverse: what solving and projecting need."""

    columns: Array
    solved: Array
    inverse: Array

    def __call__(self, nu: Array, wanted: Array) -> tuple[Array, Array]:
        """Return nu - H c, so that Z' times it is ``wanted``, and c."""
        inverse = on_device_of(nu, self.inverse)
        c = inverse @ (self.columns.T @ nu - wanted)
        alpha = nu - self.solved @ c
        # The difference may cancel, and the rounding of the sum then matters: subtract it once more.
        correction = inverse @ (self.columns.T @ alpha - wanted)
        return alpha - self.solved @ correction, c + correction

    @property
    def share(self) -> Array:
        """H S^-1, one column per column of the border."""
        share: Array = self.solved @ on_device_of(self.solved, self.inverse)
        return share

    @property
    def diagonal(self) -> Array:
        """The diagonal of H S^-1 H', which is subtracted from the diagonal of A^-1."""
        return namespace_of(self.solved).sum(self.share * self.solved, axis=1)  # type: ignore[no-any-return]


#: The border of most machines: a bias.
ONES = Border()

#: The border of a machine without a bias.
NO_BORDER = Border(constant=False, turn=np.empty((0, 0)))
