"""A substrate inside one machine: its coordinates, its solver variables, and what each place-holder becomes."""

from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.composition.frames import Frame, coefficient_frame, feature_frame, fitted_frame, stacked_frame
from substrate.composition.level import PlaceHolder, Substrate
from substrate.composition.result import Expansion
from substrate.ingredients import zero_sum, zero_sum_row

__all__ = ["CompiledSubstrate"]


class CompiledSubstrate:
    """The choice of coordinates for the place-holders a machine mentions, and the way back."""

    def __init__(self, substrate: Substrate, mentioned: tuple[PlaceHolder, ...]) -> None:
        self.substrate = substrate
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
        """The mean of the targets: what the machine is without a kernel."""
        return float(self.substrate.y.mean()) if self.substrate.bias else 0.0

    @property
    def spread(self) -> float:
        """The size of the targets about their mean."""
        deviation = float(np.abs(self.substrate.y - self.mean).max())
        return deviation if deviation > 1e-12 * self.unit else self.unit

    def leaves(self) -> list[Any]:
        """The variables a solver is to find."""
        return [self.z, *([self.shift] if self.substrate.bias else [])]

    def replacements(self) -> dict[int, Any]:
        """What stands in the solved problem where each place-holder stood."""
        return {id(holder.leaf): self._expression(holder) for holder in self.mentioned}

    def squared_norm(self) -> Any:
        """w'w in these coordinates."""
        factor = self.frame.norm_factor
        return cp.sum_squares(self._a if factor is None else factor @ self._a)

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
        """Give the user's place-holders their values, those of other machines included."""
        a, b = self.coefficients(), self.bias()
        s = self.substrate
        for holder in s.holders():
            if holder.role == "alpha":
                value: Any = s.signs * a
            elif holder.role == "b":
                value = np.asarray(b)
            elif holder.role == "squared_norm":
                value = np.asarray(max(float(a @ s.gram.product(a)), 0.0))
            elif holder.role == "f":
                value = s.kernel_rows(holder.points) @ a + b
            else:
                value = s.kernel_rows(holder.points, holder.part) @ a
            holder.leaf.save_value(value)

    def expansion(self) -> Expansion:
        """The solution as plain numbers."""
        s, a, b = self.substrate, self.coefficients(), self.bias()
        f = s.gram.product(a) + b
        e = s.y - f if s.task == "regression" else 1.0 - s.y * f
        parts = range(len(s.components))
        variation = np.array([float(np.abs(s.kernel_rows(None, part) @ a).max()) for part in parts])
        return Expansion(s, s.signs * a, b, e, f, max(float(a @ (f - b)), 0.0), variation)

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """That the coordinates mean what they should: the expansion reproduces f, and 1'a = 0."""
        a, b = self.coefficients(), self.bias()
        expansion = self.substrate.gram.product(a) + b
        in_coordinates = np.asarray(self.frame.training @ self._a.value) + float(self.shift.value)
        scale = float(np.linalg.norm(self.substrate.y) + np.linalg.norm(expansion))
        difference = float(np.linalg.norm(expansion - in_coordinates))
        rows = [Row("kernel expansion", difference, scale, tolerance, "||K a + b - f||")]
        if self.substrate.bias:
            # where a vanishes, its rounding counts by what it does to f
            largest = float(np.abs(self.substrate.gram.diagonal).max()) or 1.0
            rows.append(zero_sum_row(a, tolerance, np.array([self.unit / largest]), letter="1"))
        return tuple(rows)

    def record(self) -> tuple[tuple[str, str], ...]:
        """Coordinates, cut-off and ridge, for the certificate."""
        frame = self.frame
        cut = "uncut" if frame.kind == "coefficients" else f"{frame.size} kept at cut-off {frame.cutoff:.1e}"
        facts = [("coordinates", f"{frame.kind}, {cut}")]
        if self.substrate.ridge > 0.0:
            facts.append(("ridge", f"{self.substrate.ridge:g}/2 w'w is part of the objective"))
        return (*self.substrate.gram.record(), *facts)

    def _expression(self, holder: PlaceHolder) -> Any:
        frame, s = self.frame, self.substrate
        if holder.role == "alpha":
            return self.z
        if holder.role == "b":
            return self.shift - frame.map_from(frame.centre[None, :])[0] @ self._a
        if holder.role == "squared_norm":
            return self.squared_norm()
        if holder.role == "f":
            if holder.points is None:
                return frame.training @ self._a + self.shift
            return frame.map_from(s.kernel_rows(holder.points) - frame.centre) @ self._a + self.shift
        if holder.points is None and frame.components is not None:
            return frame.components[holder.part] @ self._a
        return frame.map_from(s.kernel_rows(holder.points, holder.part)) @ self._a


def _choose(substrate: Substrate, roles: set[str]) -> Frame:
    with_norm = "squared_norm" in roles or substrate.ridge > 0.0
    parts = None
    if "component" in roles:
        parts = tuple(substrate.kernel_rows(None, part) for part in range(len(substrate.components)))
    if "alpha" in roles:
        return coefficient_frame(substrate.gram, parts, with_norm)
    if parts is not None:
        return stacked_frame(substrate.gram, parts, substrate.bias, substrate.cutoff, with_norm)
    choose = feature_frame if with_norm else fitted_frame
    return choose(substrate.gram, substrate.bias, substrate.cutoff)
