"""A structured program in units of its own: its products, the linear system of a step, and what an iterate misses."""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.composition.newton_factor import NewtonFactor, factor_newton_matrix
from substrate.composition.structure import Structure

__all__ = ["NewtonSystem", "ScaledProgram", "State"]

#: u, the slacks and their multipliers; and several of them, the earliest first.
Iterate = tuple[Array, Array, Array]
Warm = tuple[Iterate, ...]


class ScaledProgram:
    """The program in units in which its data are of the order of one."""

    def __init__(self, structure: Structure) -> None:
        self.structure, self.m = structure, structure.n_rows
        constants, m = structure.constants, structure.n_rows
        c = structure.linear + structure.pull(np.append(np.zeros(m), structure.squares * constants[m:]))
        self.unit = power_of_two_near(float(np.abs(constants).max(initial=0.0)))
        self.worth = power_of_two_near(float(np.abs(c).max(initial=0.0)) * self.unit)
        #: what the quadratic term is multiplied by
        self.rate = self.unit**2 / self.worth
        self.h, self.c = constants[:m] / self.unit, c * (self.unit / self.worth)

    def hessian(self, u: Array) -> Array:
        """Return H u."""
        return self.curvature(u, self.structure.rows(u) if self.structure.squares.size else u)

    def curvature(self, u: Array, rows: Array) -> Array:
        """Return H u, where the rows at u are known."""
        s = self.structure
        if not s.squares.size:
            return self.rate * s.quadratic(u)
        squares = np.append(np.zeros(self.m), s.squares * rows[self.m :])
        return self.rate * (s.quadratic(u) + s.pull(squares))

    def imbalance(self, u: Array, rows: Array, z: Array) -> Array:
        """Return H u - G'z, where the rows at u are known, by one product with all rows."""
        s = self.structure
        return self.rate * s.quadratic(u) + s.pull(np.append(-z, self.rate * s.squares * rows[self.m :]))

    def slacks(self, u: Array) -> Array:
        """Return G u."""
        return self.structure.rows(u)[: self.m]

    def pull(self, z: Array) -> Array:
        """Return G'z."""
        return self.structure.pull(np.append(z, np.zeros(self.structure.squares.size)))

    def into(self, iterate: Iterate) -> Iterate:
        """Return an iterate in our units."""
        u, s, z = iterate
        return u / self.unit, s / self.unit, z * (self.unit / self.worth)

    def unscale(self, iterate: Warm | None) -> Warm | None:
        """Return iterates of ours in the units of the program."""
        cost_unit = self.worth / self.unit
        return None if iterate is None else tuple((u * self.unit, s * self.unit, z * cost_unit) for u, s, z in iterate)

    def factor(self, w: Array, share: float = 0.0) -> "NewtonSystem":
        """Factor H + G'WG without columns and rows of so small a share."""
        return NewtonSystem(self, w, factor_newton_matrix(self.structure, w / self.rate, share))


@dataclass(frozen=True, slots=True)
class NewtonSystem:
    """The linear system of a step, ``H du - G'dz = r1`` and ``G du + dz / w = r2``."""

    problem: ScaledProgram
    w: Array
    factor: NewtonFactor

    def solve(self, r1: Array, r2: Array, refinements: int = 2) -> tuple[Array, Array, Array]:
        """Return du, dz and G du, refined as a pair: products with large w would hide the rounding of one alone."""
        du, dz, rows = self._once(r1, r2)
        p = self.problem
        for _ in range(refinements):
            more, further, by = self._once(r1 - p.imbalance(du, rows, dz), r2 - rows[: p.m] - dz / self.w)
            du, dz, rows = du + more, dz + further, rows + by
        return du, dz, rows[: p.m]

    def _once(self, r1: Array, r2: Array) -> tuple[Array, Array, Array]:
        p = self.problem
        u, rows = self.factor.solve(r1, np.append(self.w * r2, np.zeros(p.structure.squares.size)))
        rows = rows / p.rate
        return u / p.rate, self.w * (r2 - rows[: p.m]), rows


@dataclass(frozen=True, slots=True)
class State:
    """What an iterate misses: stationarity and feasibility, its slacks, and the relative gap and residual."""

    rd: Array
    rp: Array
    slack: Array
    mu: float
    gap: float
    residual: float

    @classmethod
    def of(cls, p: ScaledProgram, u: Array, s: Array, z: Array) -> "State":
        """That of an iterate."""
        rows = p.structure.rows(u)
        hu, gz, slack = p.curvature(u, rows), p.pull(z), rows[: p.m] + p.h
        rd, rp, mu = hu + p.c - gz, slack - s, float(s @ z) / p.m
        residual = max(
            float(np.abs(rd).max()) / (1.0 + float(np.abs(gz).max(initial=0.0))),
            float(np.abs(rp).max()) / (1.0 + float(np.abs(s).max())),
        )
        gap = p.m * mu / (1.0 + abs(0.5 * float(u @ hu) + float(p.c @ u)))
        return cls(rd=rd, rp=rp, slack=slack, mu=mu, gap=gap, residual=residual)


def power_of_two_near(value: float) -> float:
    return float(2.0 ** np.round(np.log2(value))) if 0.0 < value < np.inf else 1.0
