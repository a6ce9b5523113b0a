r"""A substrate inside one machine: its coordinates, its solver variables, and the values of its place-holders.

The coordinates describe the same functions in a form in which a conic solver converges. Every frame writes the
coefficients as :math:`a = A z` and the machine as

.. math:: f(x) = (k(x) - \bar k)^T A z + \tilde b, \qquad b = \tilde b - \bar k^T A z,

with :math:`\bar k` the mean of the rows of K (zero where there is no bias). The choices of A are:

- *fitted*: :math:`P K P = U S U^T` with :math:`P = I - 11^T/N`, and :math:`A = U S^{-1}`: z are orthonormal coordinates
  of the fitted values, and :math:`1^T a = 0` is built in.
- *features*: :math:`A = U S^{-1/2}`: the norm is :math:`\|z\|^2`.
- *stacked*: the singular value decomposition :math:`[\Omega^1; \dots; \Omega^d] P = Q \Sigma V^T`, and
  :math:`A = V \Sigma^{-1}`: the values of all components are orthonormal in z.
- *coefficients*: A = I, uncut, for terms in alpha itself, which cut coordinates would not leave sparse; then
  :math:`1^T a = 0` is a constraint.

Directions below ``cutoff`` times the largest are left out; the cut-off is part of the model and is on its certificate.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.component_coordinates import CUTOFF, stacked_directions
from substrate.closed_form.stacked_least_squares import off_ones, reflect
from substrate.composition.level import PlaceHolder, Substrate
from substrate.composition.result import Expansion
from substrate.gram import Gram
from substrate.ingredients import zero_sum, zero_sum_row
from substrate.threads import blas_threads

__all__ = [
    "DEFAULT_CUTOFF",
    "CompiledSubstrate",
    "Frame",
    "coefficient_frame",
    "feature_frame",
    "fitted_frame",
    "stacked_frame",
]


#: Default cut-off without a norm on w, where the machine is ill posed in directions of small eigenvalues.
DEFAULT_CUTOFF = CUTOFF

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Frame:
    """Plain numbers of one choice of coordinates: the directions kept; A as ``coefficients``, None for the identity."""

    kind: str
    size: int
    coefficients: Array | None
    training: Array
    components: tuple[Array, ...] | None
    norm_factor: Array | None
    centre: Array
    cutoff: float

    def expand(self, z: Array) -> Array:
        """a = A z."""
        return z if self.coefficients is None else np.asarray(self.coefficients @ z)

    def map_from(self, K: Array) -> Array:
        """The matrix that takes z to K a, for rows K of kernel values at any points."""
        return K if self.coefficients is None else np.asarray(K @ self.coefficients)


def _eigen(gram: Gram, bias: bool, relative: float) -> tuple[Array, Array, Array]:
    """Eigenvectors and eigenvalues of P K P off the direction 1, and the mean row of K.

    The direction 1 is removed by a reflection before the decomposition: otherwise its eigenvalue zero would mix with
    the smallest ones, and 1'a = 0 would hold only to the rounding error divided by them.
    """
    gram.coordinates()  # refuses a matrix that is not positive semi-definite, with its smallest eigenvalue
    K = np.array(gram.matrix)
    inner = reflect(reflect(K).T)[1:, 1:] if bias else K
    with blas_threads(gram.n):
        values, vectors = np.linalg.eigh((inner + inner.T) / 2.0)
    keep = values > relative * max(float(values[-1]), 0.0)
    chosen = vectors[:, keep][:, ::-1]
    if not keep.any():  # a zero kernel has the feature zero
        return np.zeros((gram.n, 1)), np.ones(1), np.zeros(gram.n)
    U = off_ones(chosen) if bias else chosen
    mean = K.mean(axis=0) if bias else np.zeros(gram.n)
    return np.ascontiguousarray(U), values[keep][::-1].copy(), mean


def _kept(U: Array) -> int:
    return int(U.any(axis=0).sum())


def fitted_frame(gram: Gram, bias: bool, cutoff: float | None) -> Frame:
    """Orthonormal coordinates of the fitted values."""
    relative = DEFAULT_CUTOFF if cutoff is None else cutoff
    U, s, mean = _eigen(gram, bias, relative)
    return Frame("fitted values", _kept(U), U / s, U, None, None, mean, relative)


def feature_frame(gram: Gram, bias: bool, cutoff: float | None) -> Frame:
    """Coordinates in which the norm of w is Euclidean; it determines all directions, so all are kept."""
    relative = gram.n * _EPS if cutoff is None else cutoff
    U, s, mean = _eigen(gram, bias, relative)
    root = np.sqrt(s)
    return Frame("features", _kept(U), U / root, U * root, None, None, mean, relative)


def stacked_frame(
    gram: Gram, components: tuple[Array, ...], bias: bool, cutoff: float | None, with_norm: bool
) -> Frame:
    """Orthonormal coordinates of the stacked values of all components."""
    relative = DEFAULT_CUTOFF if cutoff is None else cutoff
    A, size = stacked_directions(components, bias, relative)
    parts = tuple(component @ A for component in components)
    norm_factor = gram.coordinates().factor.T @ A if with_norm else None
    training = np.sum(parts, axis=0)
    return Frame("stacked components", size, A, training, parts, norm_factor, np.zeros(gram.n), relative)


def coefficient_frame(gram: Gram, components: tuple[Array, ...] | None, with_norm: bool) -> Frame:
    """The coefficients themselves, uncut."""
    norm_factor = gram.coordinates().factor.T if with_norm else None
    return Frame("coefficients", gram.n, None, gram.matrix, components, norm_factor, np.zeros(gram.n), 0.0)


class CompiledSubstrate:
    """The choice of coordinates for the place-holders a machine mentions, and the way back."""

    def __init__(self, substrate: Substrate, mentioned: tuple[PlaceHolder, ...], label: str = "") -> None:
        self.substrate = substrate
        self.label = label
        roles = {holder.role for holder in mentioned}
        self.frame = _choose(substrate, roles)
        self.mentioned = mentioned
        name = "alpha" if self.frame.kind == "coefficients" else "z"
        self.z = cp.Variable(self.frame.training.shape[1], name=name)
        self.shift = cp.Variable(name="b") if substrate.bias else cp.Constant(0.0)
        # In the frame of coefficients the variable is alpha itself, in the paper's sign.
        signed = self.frame.kind == "coefficients" and substrate.task == "classification"
        self._a = cp.multiply(substrate.signs, self.z) if signed else self.z
        self._signed = signed
        self.constraints: list[Any] = []
        if self.frame.kind == "coefficients" and substrate.bias:
            self.constraints.append(zero_sum(self._a, letter="y" if signed else "1").constraint)

    @property
    def unit(self) -> float:
        """The size of the targets."""
        return float(np.abs(self.substrate.y).max()) or 1.0

    @property
    def mean(self) -> float:
        """The mean of the targets: the machine without a kernel."""
        return float(self.substrate.y.mean()) if self.substrate.bias else 0.0

    @property
    def spread(self) -> float:
        """The size of the targets about their mean."""
        deviation = float(np.abs(self.substrate.y - self.mean).max())
        return deviation if deviation > 1e-12 * self.unit else self.unit

    def leaves(self) -> list[Any]:
        """The variables of the solver."""
        return [self.z, *([self.shift] if self.substrate.bias else [])]

    def replacements(self) -> dict[int, Any]:
        """The expressions that replace the place-holders in the solved problem."""
        return {id(holder.leaf): self._expression(holder) for holder in self.mentioned}

    def squared_norm(self) -> Any:
        """w'w in these coordinates."""
        factor = self.frame.norm_factor
        return cp.sum_squares(self._a if factor is None else factor @ self._a)

    def norm(self) -> Any:
        """The norm of w in these coordinates."""
        factor = self.frame.norm_factor
        return cp.norm2(self._a if factor is None else factor @ self._a)

    def coefficients(self) -> Array:
        """a at the current values."""
        return self.frame.expand(np.asarray(self._a.value, dtype=np.float64))

    def support_values(self) -> Array:
        """alpha at the current values, in the paper's sign."""
        return self.substrate.signs * self.coefficients()

    def bias(self) -> float:
        """b at the current values."""
        return float(self.shift.value) - float(self.frame.centre @ self.coefficients())

    def fitted_values(self) -> Array:
        """f at the training points by the expansion, as predictions are made."""
        return np.asarray(self.substrate.gram.product(self.coefficients()) + self.bias())

    def in_variables(self) -> Array:
        """The matrix that takes the variable z to the fitted values without bias."""
        return self.frame.training * self.substrate.signs if self._signed else self.frame.training

    def write_back(self) -> None:
        """Assign values to the user's place-holders, those of other machines and of later questions included."""
        self.substrate.remember(partial(_value, self.substrate, self.coefficients(), self.bias()))

    def expansion(self) -> Expansion:
        """The solution as plain numbers."""
        s, a, b = self.substrate, self.coefficients(), self.bias()
        f = s.gram.product(a) + b
        e = s.y - f if s.task == "regression" else 1.0 - s.y * f
        parts = range(len(s.components))
        variation = np.array([float(np.abs(s.kernel_rows(None, part) @ a).max()) for part in parts])
        return Expansion(s, s.signs * a, b, e, f, max(float(a @ (f - b)), 0.0), variation)

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Rows that check the coordinates: the expansion reproduces f, and 1'a = 0."""
        a, b = self.coefficients(), self.bias()
        expansion = self.substrate.gram.product(a) + b
        in_coordinates = np.asarray(self.frame.training @ self._a.value) + float(self.shift.value)
        scale = float(np.linalg.norm(self.substrate.y) + np.linalg.norm(expansion))
        difference = float(np.linalg.norm(expansion - in_coordinates))
        rows = [Row("kernel expansion", difference, scale, tolerance, "||K a + b - f||")]
        if self.substrate.bias:
            # where a vanishes, its rounding is measured by its effect on f
            largest = float(np.abs(self.substrate.gram.diagonal).max()) or 1.0
            rows.append(zero_sum_row(a, tolerance, np.array([self.unit / largest]), letter="1"))
        return tuple(replace(row, name=self._labelled(row.name)) for row in rows)

    def record(self) -> tuple[tuple[str, str], ...]:
        """Coordinates, cut-off and ridge, for the certificate."""
        frame = self.frame
        cut = "uncut" if frame.kind == "coefficients" else f"{frame.size} kept at cut-off {frame.cutoff:.1e}"
        facts = [("coordinates", f"{frame.kind}, {cut}")]
        if self.substrate.ridge > 0.0:
            facts.append(("ridge", f"{self.substrate.ridge:g}/2 w'w is part of the objective"))
        return tuple((self._labelled(name), value) for name, value in (*self.substrate.gram.record(), *facts))

    def _labelled(self, name: str) -> str:
        """A row or fact with the substrate it belongs to, where that has a name or there are several."""
        return f"{self.label}: {name}" if self.label else name

    def _expression(self, holder: PlaceHolder) -> Any:
        frame, s = self.frame, self.substrate
        if holder.role == "alpha":
            return self.z
        if holder.role == "b":
            return self.shift - frame.map_from(frame.centre[None, :])[0] @ self._a
        if holder.role == "squared_norm":
            return self.squared_norm()
        if holder.role == "norm":
            return self.norm()
        if holder.role == "f":
            if holder.points is None:
                return frame.training @ self._a + self.shift
            return frame.map_from(s.kernel_rows(holder.points) - frame.centre) @ self._a + self.shift
        if holder.points is None and frame.components is not None:
            return frame.components[holder.part] @ self._a
        return frame.map_from(s.kernel_rows(holder.points, holder.part)) @ self._a


def _value(s: Substrate, a: Array, b: float, holder: PlaceHolder) -> Any:
    """What a place-holder stands for in the machine of coefficients a and bias b."""
    if holder.role == "alpha":
        return s.signs * a
    if holder.role == "b":
        return np.asarray(b)
    if holder.role in ("norm", "squared_norm"):
        square = max(float(a @ s.gram.product(a)), 0.0)
        return np.asarray(square if holder.role == "squared_norm" else np.sqrt(square))
    if holder.role == "f":
        return s.kernel_rows(holder.points) @ a + b
    return s.kernel_rows(holder.points, holder.part) @ a


def _choose(substrate: Substrate, roles: set[str]) -> Frame:
    with_norm = bool(roles & {"norm", "squared_norm"}) or substrate.ridge > 0.0
    parts = None
    if "component" in roles:
        parts = tuple(substrate.kernel_rows(None, part) for part in range(len(substrate.components)))
    if "alpha" in roles:
        return coefficient_frame(substrate.gram, parts, with_norm)
    if parts is not None:
        return stacked_frame(substrate.gram, parts, substrate.bias, substrate.cutoff, with_norm)
    choose = feature_frame if with_norm else fitted_frame
    return choose(substrate.gram, substrate.bias, substrate.cutoff)
