r"""A substrate inside one machine: its coordinates, its solver variables, and the values of its place-holders.

The coordinates describe the same functions in a form in which a conic solver converges. What is mentioned decides on
the points that the expansion is built on (:mod:`substrate.declare.span`) and on the coordinates: every frame
writes the coefficients as :math:`a = A z` and the machine as

.. math:: f(x) = (k(x) - \bar k)^T A z + \tilde b, \qquad b = \tilde b - \bar k^T A z,

with :math:`\bar k` the mean of the rows of K, or zero. Which it is follows from what a machine mentions:

- *coefficients*, where alpha is: A = I, uncut, since cut coordinates would not leave alpha sparse; :math:`1^T a = 0` is
  a constraint.
- *features*, where the norm of w is: with :math:`P = I - 11^T/N` and :math:`P K P = U S U^T`, :math:`A = U S^{-1/2}`,
  so that :math:`1^T a = 0` is built in and the norm is :math:`\|z\|`. Further representers may join the training rows
  (:mod:`substrate.declare.span`); only the coefficients of values of f take part in the sum to zero, so P centres
  these and is the identity for the others. For many rows A comes from a factor with pivots in place of eigenvectors.
- *fitted values* or *stacked components*: the singular value decomposition
  :math:`[\Omega^1; \dots; \Omega^d] P = Q \Sigma V^T`, or of K alone, centred, and :math:`A = V \Sigma^{-1}`: the
  values are orthonormal in z.

On a basis the same choices hold for an expansion on n vectors, from their n x n matrix and the N x n kernel values of
the training rows; its coefficients need not sum to zero.

Features leave out what rounding hides, and the certificate counts it. Where w is not penalised, fitted values at N
distinct points can be anything for a strictly positive definite kernel: all directions are kept if they can be
represented, that is above ``REPRESENTED`` times the largest, and then the machine is exact in its fitted values.
Elsewhere ``DEFAULT_CUTOFF`` is part of the model: ``missing`` counts the directions that the kernel may have
besides the ones kept, and the certificate says so in its first line.

*Pivots.* With :math:`K \approx L L^T` (centred where there is a bias), f = L z has :math:`w^T w = \|z\|^2`, as with
eigenvectors, at a tenth of their price for many rows. The coefficients of the expansion have least norm,

.. math:: a = Q R^{-T} z, \qquad L = Q R ,

so that :math:`K a = L z` up to the remainder :math:`K - L L^T`. The factor ends where all pivots left are below the
cut-off, by which the remainder of a matrix without negative eigenvalues is small ([Higham2002]_ section 10.3); kernels
that are not positive by their formula are left to the eigenvalues, which say what is wrong.
"""

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from substrate.arrays import Array, blas_threads
from substrate.certificate import Row, power_of_two
from substrate.declare.place_holders import PlaceHolder
from substrate.declare.span import READ, KernelExpansion, Reading, SubstrateSpan, penalises, reading_of
from substrate.fits.coordinates import CUTOFF, stacked_directions
from substrate.fits.stacked_least_squares import reflect
from substrate.ingredients import zero_sum, zero_sum_row
from substrate.numbers import relative_rounding
from substrate.operators.gram import Coordinates

__all__ = [
    "CompiledSubstrate",
]


# --- coordinates ------------------------------------------------------------------------------------------------------

#: Default cut-off without a norm on w, where the machine is ill posed in directions of small singular values.
DEFAULT_CUTOFF = CUTOFF
#: Smallest share of the largest singular value at which coefficients represent fitted values to a millionth.
REPRESENTED = 1e-10


#: Number of rows from which features come from pivots: a solver gains from the zeros of their triangle.
_PIVOTED = 400


@dataclass(frozen=True, slots=True)
class Frame:
    """Plain numbers of one choice of coordinates: the directions kept; A as ``coefficients``, None for the identity."""

    kind: str
    size: int
    coefficients: Any
    training: Array
    centre: Array
    cutoff: float
    #: A factor F with w'w = ||F z||^2, None where that is the squared length of z, or not asked for.
    norm_factor: Array | None = None
    #: The values of all representers in z, centred as f is; None where they are the training rows alone.
    representers: Array | None = None
    #: How many directions the kernel may have besides the ones kept.
    missing: int = 0

    def expand(self, z: Array) -> Array:
        """Return a = A z."""
        return z if self.coefficients is None else np.asarray(self.coefficients @ z)

    def map_from(self, K: Array) -> Array:
        """Return the matrix that takes z to K a, for rows K of kernel values at any points."""
        return K if self.coefficients is None else np.asarray(K @ self.coefficients)


def coefficient_frame(span: SubstrateSpan, with_norm: bool) -> Frame:
    """Return the coefficients themselves, uncut."""
    return Frame(
        kind="coefficients",
        size=span.size,
        coefficients=None,
        training=span.rows(Reading()),
        centre=np.zeros(span.size),
        cutoff=0.0,
        norm_factor=span.substrate.gram.coordinates().factor.T if with_norm else None,
    )


def value_frame(span: SubstrateSpan, count: int, reads_more: bool) -> Frame:
    """Return orthonormal coordinates of the fitted values, or of the stacked values of so many components.

    Fitted values have all directions that can be represented, unless more is read than these: values at other points
    are ill determined in small directions.
    """
    s, K = span.substrate, span.rows(Reading())
    if not s.kernel.trusted:
        s.gram.coordinates()  # refuses a negative eigenvalue
    centre = K.mean(axis=0) if s.bias and not count else np.zeros(span.size)
    components = tuple(span.rows(Reading(part=part)) for part in range(count))
    relative, complete = DEFAULT_CUTOFF, False
    if not (count or reads_more or s.basis is not None):
        A, size = stacked_directions((K - centre,), span.balanced, REPRESENTED)
        complete = size >= span.rank
    if complete:
        relative = REPRESENTED
    else:
        A, size = stacked_directions(components or (K - centre,), span.balanced, relative)
    return Frame(
        kind="stacked components" if count else "fitted values",
        size=size,
        coefficients=A,
        training=(K - centre) @ A,
        centre=centre,
        cutoff=relative,
        missing=max(span.rank - size, 0),
    )


def feature_frame(span: SubstrateSpan) -> Frame:
    """Return coordinates in which the norm of w is Euclidean, on all representers of a span.

    The norm determines all directions, so that all are kept that rounding does not hide.
    """
    s, lengths, m, relative = span.substrate, span.lengths(), span.values, relative_rounding(span.size)
    G = lengths[:, None] * span.matrix() * lengths
    inner = _reflect(_reflect(G, m).T, m)[1:, 1:] if span.balanced else G
    inner = (inner + inner.T) / 2.0
    with blas_threads(inner.shape[0]):
        if s.kernel.trusted and span.size >= _PIVOTED and inner.any():
            packed, pivots, size, _ = dpstrf(inner, tol=relative * float(np.linalg.norm(inner)), lower=1)
            L = np.empty((inner.shape[0], size))
            L[pivots - 1] = np.tril(packed[:, :size])
            Q, R = np.linalg.qr(L)
            A = Q @ np.linalg.inv(R).T
        else:
            # of what centring leaves; beyond it a negative eigenvalue is refused
            coordinates = Coordinates.of(inner, relative, relative_rounding(1.0) * float(np.linalg.norm(G)))
            L, size = coordinates.factor, coordinates.rank
            A = L / coordinates.values if size else L
    if span.balanced:
        L, A = (_reflect(np.vstack([np.zeros((1, each.shape[1])), each]), m) for each in (L, A))
    A, values = lengths[:, None] * A, L / lengths[:, None]
    return Frame(
        kind="features",
        size=size,
        coefficients=A,
        training=np.ascontiguousarray(values[: s.n]) if s.basis is None else span.rows(Reading()) @ A,
        centre=G[:m].mean(axis=0) / lengths if span.balanced else np.zeros(span.size),
        cutoff=relative,
        representers=values,
        missing=max(span.rank - size, 0),
    )


def _reflect(V: Array, count: int) -> Array:
    """Return the reflection of the first entries of every column."""
    return np.vstack([reflect(V[:count]), V[count:]])


# --- the compiled substrate -------------------------------------------------------------------------------------------


class CompiledSubstrate:
    """The choice of coordinates for the place-holders a machine mentions, and the way back."""

    def __init__(
        self, substrate: Any, mentioned: tuple[PlaceHolder, ...], label: str = "", summed: frozenset[int] = frozenset()
    ) -> None:
        self.substrate = substrate
        self.label = label
        self.span = SubstrateSpan.of(substrate, mentioned)
        self.frame = _choose(self.span, mentioned)
        self.mentioned = mentioned
        self._matrices: dict[int, Array] = {}
        #: The place-holders of values, each with the variable that stands for it in the solved problem.
        self.defined = [
            (holder, cp.Variable(holder.leaf.shape, name="values"))
            for holder in mentioned
            if holder.role in READ and holder.leaf.size and id(holder.leaf) not in summed
        ]
        name = "alpha" if self.frame.kind == "coefficients" else "z"
        self.z = cp.Variable((self.frame.training.shape[1], *substrate.columns), name=name)
        self.shift = cp.Variable(substrate.columns, name="b") if substrate.bias else cp.Constant(0.0)
        # In the frame of coefficients the variable is alpha itself, in the paper's sign.
        signed = self.frame.kind == "coefficients" and substrate.task == "classification"
        self._a = cp.multiply(substrate.signs, self.z) if signed else self.z
        self._signed = signed
        self.constraints: list[Any] = []
        if self.frame.kind == "coefficients" and self.span.balanced:
            self.constraints.append(zero_sum(self._a, letter="y" if signed else "1").constraint)

    @property
    def complete(self) -> bool:
        """Return whether the coordinates describe the machine exactly: the coefficients, or all fitted values and no
        others.

        Features do not: directions are cut, and they have the rounding of the kernel.
        """
        if self.frame.kind == "coefficients":
            return True
        return (
            self.frame.kind == "fitted values"
            and not self.frame.missing
            and not _reads_more_than_values(self.mentioned)
        )

    @property
    def unit(self) -> float:
        """The size of the targets; without targets, the size of the present fitted values."""
        if self.substrate.y is None:
            values = None if self._a.value is None or self.shift.value is None else self.fitted_values()
            size = 0.0 if values is None else float(np.abs(values).max())
            return size if 0.0 < size < np.inf else 1.0
        return float(np.abs(self.substrate.y).max()) or 1.0

    @property
    def has_zero_targets(self) -> bool:
        """Return whether there are targets, and all of them are zero."""
        return self.substrate.y is not None and not np.any(self.substrate.y)

    @property
    def mean(self) -> Any:
        """The mean of the targets, one per column: the machine without a kernel; zero without targets."""
        return self.substrate.y.mean(axis=0) if self.substrate.bias and self.substrate.y is not None else 0.0

    @property
    def spread(self) -> float:
        """The size of the targets about their mean; without targets, the size of the present fitted values."""
        if self.substrate.y is None:
            return self.unit
        deviation = float(np.abs(self.substrate.y - self.mean).max())
        return deviation if deviation > 1e-12 * self.unit else self.unit

    def leaves(self) -> list[Any]:
        """Return the variables of the solver."""
        return [self.z, *([self.shift] if self.substrate.bias else [])]

    def definitions(self) -> list[Any]:
        """Return the equalities that define the values: each matrix of kernel values occurs in one of them only."""
        return [values == self._expression(holder) for holder, values in self.defined]

    def replacements(self) -> dict[int, Any]:
        """Return the expressions that replace the place-holders in the solved problem."""
        exchange = {id(holder.leaf): values for holder, values in self.defined}
        holders = [holder for holder in self.mentioned if id(holder.leaf) not in exchange]
        return exchange | {id(holder.leaf): self._expression(holder) for holder in holders}

    def bounded_norm(self) -> dict[int, Any]:
        """Return the expression for w'w in constraints: squares of numbers about one, as solvers need them in a
        cone.
        """
        unit = power_of_two(self.spread)
        leaves = [holder.leaf for holder in self.mentioned if holder.role == "squared_norm"]
        return {id(leaf): unit**2 * self.squared_norm(unit) for leaf in leaves}

    def squared_norm(self, unit: float = 1.0) -> Any:
        """Return w'w in these coordinates, in a unit of w."""
        factor, a = self.frame.norm_factor, self._a if unit == 1.0 else self._a / unit
        return cp.sum_squares(a if factor is None else factor @ a)

    def norm(self) -> Any:
        """Return the norm of w in these coordinates."""
        factor = self.frame.norm_factor
        return cp.norm(self._a if factor is None else factor @ self._a, "fro" if self.substrate.columns else 2)

    def coefficients(self) -> Array:
        """Return a at the current values: first for the training rows, then for further representers."""
        return self.frame.expand(np.array(self._a.value, dtype=np.float64))

    def bias(self) -> Any:
        """Return b at the current values: a number, or one per column of y."""
        b = np.asarray(self.shift.value - self.frame.centre @ self.coefficients())
        return b if self.substrate.columns else float(b)

    def fitted_values(self) -> Array:
        """Return f at the training points by the expansion, as predictions are made."""
        return np.asarray(self.span.product(self.coefficients()) + self.bias())

    def in_variables(self, column: int = 0) -> Array:
        """Return the matrix that takes a column of the variable z to the fitted values without bias."""
        return self._in_sign(self.frame.training, column)

    def values_at(self, points: Any, column: int = 0) -> Array:
        """Return the matrix that takes a column of z to the values of f at points, without the variable ``shift``."""
        return self._in_sign(self.frame.map_from(self.span.rows(Reading(points)) - self.frame.centre), column)

    def places(self, starts: dict[int, int], column: int = 0) -> NDArray[np.intp]:
        """Return where a program has a column of z, and then of ``shift``; ``starts`` has the first place of each
        variable.
        """
        r = self.frame.training.shape[1]
        first = starts[self.z.id] + column * r
        last = [starts[self.shift.id] + column] if self.substrate.bias else []
        return np.append(np.arange(first, first + r), np.array(last, dtype=np.intp))

    def _in_sign(self, rows: Array, column: int) -> Array:
        if not self._signed:
            return rows
        signs = self.substrate.signs
        return np.asarray(rows * (signs[:, column] if signs.ndim == 2 else signs))

    def expansion(self) -> KernelExpansion:
        """Return the solution as plain numbers."""
        return KernelExpansion.of(self.span, self.coefficients(), self.bias())

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Return rows that check the coordinates: the expansion reproduces f, and 1'a = 0."""
        a, b = self.coefficients(), self.bias()
        expansion = self.span.product(a) + b
        in_coordinates = np.asarray(self.frame.training @ self._a.value) + np.asarray(self.shift.value)
        targets = 0.0 if self.substrate.y is None else float(np.linalg.norm(self.substrate.y)) or self.unit
        scale = targets + float(np.linalg.norm(expansion))
        difference = float(np.linalg.norm(expansion - in_coordinates))
        rows = [
            Row(name="kernel expansion", value=difference, scale=scale, tolerance=tolerance, formula="||K a + b - f||"),
            *self._definition_rows(tolerance, targets),
        ]
        if self.span.balanced:
            # where a vanishes, its rounding is measured by its effect on f
            largest = float(np.abs(self.substrate.gram.diagonal).max()) or 1.0
            rows.append(zero_sum_row(a[: self.span.values], tolerance, np.array([self.unit / largest]), letter="1"))
        return tuple(replace(row, name=self._label(row.name)) for row in rows)

    def _definition_rows(self, tolerance: float, targets: float) -> list[Row]:
        """Return a row for the values that differ most from their definition, where there are any."""
        rows, a = [], np.abs(np.asarray(self._a.value))
        for holder, values in self.defined:
            missed = float(np.linalg.norm(values.value - self._expression(holder).value))
            ratio = float(np.linalg.norm(self._matrix(holder))) / (float(np.linalg.norm(self.frame.training)) or 1.0)
            size = float(np.linalg.norm(np.abs(self._matrix(holder)) @ a)) + ratio * targets
            formula = "||values - their definition||"
            rows.append(Row(name="definitions", value=missed, scale=size or 1.0, tolerance=tolerance, formula=formula))
        return [max(rows, key=lambda row: row.relative)] if rows else []

    def missing_values_row(self) -> tuple[Row, ...]:
        """Return a row that fails where fitted values are asked for that the kernel has and the coordinates do not.

        Nothing penalises w then, so that the exact optimum uses all directions.
        """
        missing, s = self.frame.missing, self.substrate
        if self.frame.kind != "fitted values" or not missing or s.basis is not None:
            return ()
        if _reads_more_than_values(self.mentioned):
            return ()
        formula = "directions of the kernel that are left out, of all"
        return (
            Row(
                name=self._label("directions"),
                value=float(missing),
                scale=float(missing + self.frame.size),
                tolerance=0.0,
                formula=formula,
            ),
        )

    def record(self) -> tuple[tuple[str, str], ...]:
        """Return coordinates and cut-off, for the certificate."""
        frame = self.frame
        cut = "uncut" if frame.kind == "coefficients" else f"{frame.size} kept at cut-off {frame.cutoff:.1e}"
        if frame.missing and "features" not in frame.kind:
            cut += f", {frame.missing} left out that the kernel may have: the optimum over all of them can be lower"
        facts = [("coordinates", f"{frame.kind}, {cut}")]
        if self.substrate.basis is not None:
            shared = ""
            if len(self.substrate.components) > 1 and any(holder.role == "component" for holder in self.mentioned):
                shared = "; components share the coefficients of the vectors"
            span = f"{self.substrate.described}; f is in their span, and the certificate is for that{shared}"
            facts.append(("basis", span))
        if self.span.fact:
            facts.append(("span", self.span.fact))
        return tuple((self._label(name), value) for name, value in (*self.substrate.gram.record(), *facts))

    def _label(self, name: str) -> str:
        """Return a row or fact with the substrate it belongs to, where that has a name or there are several."""
        return f"{self.label}: {name}" if self.label else name

    def _expression(self, holder: PlaceHolder) -> Any:
        frame = self.frame
        if holder.role == "alpha":
            return self.z
        if holder.role == "b":
            return self.shift - frame.map_from(frame.centre[None, :])[0] @ self._a
        if holder.role == "squared_norm":
            return self.squared_norm()
        if holder.role == "norm":
            return self.norm()
        values = self._matrix(holder)
        return self._shift(values @ self._a) if holder.role == "f" else values @ self._a

    def _matrix(self, holder: PlaceHolder) -> Array:
        """Return the matrix that takes a to the values of a place-holder, without the variable ``shift``."""
        key = id(holder.leaf)
        if key not in self._matrices:
            self._matrices[key] = self._matrix_of(holder)
        return self._matrices[key]

    def _matrix_of(self, holder: PlaceHolder) -> Array:
        frame = self.frame
        place = self.span.places.get(id(holder.leaf))
        if place is not None and frame.representers is not None:
            return frame.representers[place]
        if holder.points is None and holder.role == "f":
            return frame.training
        rows = self.span.rows(reading_of(holder))
        return frame.map_from(rows - frame.centre if holder.role == "f" else rows)

    def _shift(self, values: Any) -> Any:
        if not self.substrate.columns or not self.substrate.bias:
            return values + self.shift
        return values + np.ones((values.shape[0], 1)) @ cp.reshape(self.shift, (1, values.shape[1]), order="F")


def _reads_more_than_values(mentioned: tuple[PlaceHolder, ...]) -> bool:
    """Return whether a machine reads more than fitted values of w."""
    return any(holder.role in ("b", "operator") or holder.points is not None for holder in mentioned)


def _choose(span: SubstrateSpan, mentioned: tuple[PlaceHolder, ...]) -> Frame:
    roles = {holder.role for holder in mentioned}
    if "alpha" in roles:
        return coefficient_frame(span, penalises(roles))
    if penalises(roles):
        return feature_frame(span)
    count = len(span.substrate.components) if "component" in roles else 0
    return value_frame(span, count, _reads_more_than_values(mentioned))
