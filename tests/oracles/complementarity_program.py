r"""Fusion as a program with complementarity constraints, solved to global optimality by SCIP where it is small.

.. math::

    (28): \; \min_{\rho, v, b, t, \xi} \; \|y^v - M v - b 1\|^2 \quad \text{s.t. (27)}, \qquad
    (29): \; \min \; \|y^v - M v - b 1\|^2 + \omega \sum (\text{products (27e,f)}) \quad \text{s.t. (27a)-(27d)}

(27) are the optimality conditions of a :class:`~substrate.declare.optimality_conditions.PenalizedFit`. In (28) each
pair of a multiplier and its slack is a special ordered set of type 1: at most one of them is not zero, and SCIP
branches on the pairs. In (29) the products add up to :math:`\|PFv\|^2 - y^T P F v + \rho \sum_l t_l`, bilinear in
:math:`\rho` and t, and SCIP branches on both. Neither is convex. [Pelckmans2005]_ eq. (28)-(29); the validation term
has no half in either, as in (29), since the weight that makes (29) exact depends on it.

The following bounds exclude no optimum. In (28) the products vanish, so :math:`\|z\| \le \|Py\|` for z = PFv; in (29),
with U the value at some trained point, they are at most :math:`U/\omega`, so that z is within
:math:`\sqrt{U/\omega + \|Py\|^2/4}` of Py/2. Given v, the smallest :math:`\rho` suffices, and multipliers that depend
linearly on the residual Py - z exist, so that :math:`\rho` is at most a constant times its norm; t is as large as its
bounds require.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from substrate.declare.optimality_conditions import PenalizedFit, sparse_fit, variation_fit
from substrate.fits.coordinates import CUTOFF, shared_coordinates
from substrate.fits.variation import TrainedPoint
from substrate.ingredients import ComplementarySlackness

#: SCIP's tolerance on constraints, in units in which the targets have length one, and ours on the point.
_FEASIBLE, _TOLERANCE = 1e-8, 1e-6
#: Singular values of PF below this share of the largest leave v unbounded.
_DETERMINED = 1e-9


class GlobalOptimum(NamedTuple):
    """The point, the coefficients that v represents, the products (27e,f), the objective, and SCIP's lower bound."""

    point: TrainedPoint
    support_values: np.ndarray
    slackness: ComplementarySlackness
    value: float
    lower_bound: float


def optimum_of_variations(K, y, K_val, y_val, weight=None, bias=True):
    """Solve (28) of maximal variation on lists of component matrices; with a weight, (29)."""
    fit = variation_fit(shared_coordinates([np.asarray(part) for part in K], bias, CUTOFF), np.asarray(y))
    rows = np.sum(K_val, axis=0) if np.ndim(K_val) == 3 else np.asarray(K_val)
    return _solve(fit, rows @ fit.coefficients, np.asarray(y_val), weight)


def optimum_of_sparsity(K, y, K_val, y_val, weight=None):
    """Solve (28) of the L1 substrate, with zeta as ``point.rho``; with a weight, (29)."""
    return _solve(sparse_fit(np.asarray(K), np.asarray(y)), np.asarray(K_val), np.asarray(y_val), weight)


def _solve(fit, M, y_val, weight):
    """Solve (28), or (29) with a penalty weight; M takes v to validation values without bias."""
    pyscipopt = pytest.importorskip("pyscipopt")
    unit = float(np.linalg.norm(fit.centred_target)) or float(np.linalg.norm(fit.target)) or 1.0
    program = _ComplementarityModel(pyscipopt, replace(fit, target=fit.target / unit), M, y_val / unit, weight)
    program.model.setParam("limits/time", 60.0)
    program.model.optimize()
    assert program.model.getStatus() in ("optimal", "gaplimit")
    point = program.point(unit)
    errors = y_val - M @ point.v - point.b
    slackness = fit.slackness(point, _TOLERANCE)
    value = float(errors @ errors) + (weight or 0.0) * slackness.sum
    lower_bound = min(unit**2 * float(program.model.getDualbound()), value)
    # SCIP's tolerances are absolute in its units, and the products enter the objective times their weight
    assert value - lower_bound <= _TOLERANCE * (value + (1.0 + (weight or 0.0)) * unit**2)
    assert all(row.passes for row in fit.rows(point, _TOLERANCE, slackness=weight is None))
    return GlobalOptimum(point, fit.coefficients @ point.v, slackness, value, lower_bound)


class _ComplementarityModel:
    """The model in the units of the targets, and its variables."""

    def __init__(self, scip: Any, fit: PenalizedFit, M: np.ndarray, y_val: np.ndarray, weight: float | None) -> None:
        self.fit, self.weight = fit, weight
        self.sum = scip.quicksum
        model = self.model = scip.Model()
        model.hideOutput()
        self.v_bound: list[float | None] = [None] * fit.parts.shape[2]
        self.t_bound: list[float | None] = [None] * fit.parts.shape[0]
        self._bound(y_val)
        self.v = [model.addVar(lb=-size if size else None, ub=size) for size in self.v_bound]
        self.nu = model.addVar(lb=None) if fit.balanced else 0.0
        self.rho = model.addVar(lb=0.0, ub=self.rho_bound)
        self.t = [model.addVar(lb=0.0, ub=size) for size in self.t_bound]
        self._pairs()
        self._stationarity()
        if fit.balanced:
            model.addCons(self.sum(self.v) == 0.0)
        self._objective(M, y_val)
        model.setParam("numerics/feastol", _FEASIBLE)

    def _bound(self, y_val: np.ndarray) -> None:
        """Set the bounds of the module's last paragraph."""
        fit = self.fit
        d, m, r = fit.parts.shape
        length = float(np.linalg.norm(fit.centred_target))
        trivial = y_val - fit.bias_of(np.zeros(r))
        excess = 0.0 if self.weight is None else float(trivial @ trivial) / self.weight
        radius = float(np.sqrt(excess + length**2 / 4.0))
        residual = radius + length / 2.0  # of Py - z, and of z
        share = np.linalg.pinv(fit.parts.reshape(d * m, r).T) @ fit.centred_features.T
        blocks = [np.linalg.norm(block, 2) for block in share.reshape(d, m, -1)]
        self.rho_bound = float(np.sqrt(m) * max(blocks) * residual)
        inverse = self._inverse()
        if inverse is None:
            assert self.weight is None, "the bilinear program needs coefficients that the fitted values determine"
            return
        self.v_bound = list(np.linalg.norm(inverse, axis=1) * residual)
        self.t_bound = list(np.linalg.norm(fit.parts @ inverse, axis=2).max(axis=1) * residual)

    def _inverse(self) -> np.ndarray | None:
        """Return the matrix that takes z = PFv back to v, or None where z does not determine v."""
        F = self.fit.centred_features
        if self.fit.balanced:
            F = np.vstack([F, np.ones(F.shape[1])])
        sizes = np.linalg.svd(F, compute_uv=False)
        if sizes.size < F.shape[1] or sizes[-1] <= _DETERMINED * sizes[0]:
            return None
        return np.asarray(np.linalg.pinv(F)[:, : self.fit.target.size])

    def _pairs(self) -> None:
        """Add multipliers, slacks, and in (28) that one of each pair vanishes; (27b) to (27f)."""
        model, (d, m, _) = self.model, self.fit.parts.shape
        self.xi: dict[tuple[int, int, int], Any] = {}
        for component in range(d):
            for row in range(m):
                value = self._linear(self.fit.parts[component, row])
                for side, sign in enumerate((1.0, -1.0)):
                    xi = self.xi[side, component, row] = model.addVar(lb=0.0, ub=self.rho_bound)
                    slack = model.addVar(lb=0.0)
                    model.addCons(slack == self.t[component] + sign * value)
                    if self.weight is None:
                        model.addConsSOS1([xi, slack])
            multipliers = [self.xi[side, component, row] for side in (0, 1) for row in range(m)]
            model.addCons(self.sum(multipliers) == self.rho)

    def _stationarity(self) -> None:
        fit, (d, m, r) = self.fit, self.fit.parts.shape
        L = fit.centred_features
        H, c = L.T @ L, L.T @ fit.centred_target
        for k in range(r):
            net = self.sum(
                float(fit.parts[component, row, k]) * (self.xi[0, component, row] - self.xi[1, component, row])
                for component in range(d)
                for row in range(m)
                if fit.parts[component, row, k] != 0.0
            )
            # b is inserted from 1'e = 0
            self.model.addCons(self._linear(H[k]) - float(c[k]) + self.nu == net)

    def _objective(self, M: np.ndarray, y_val: np.ndarray) -> None:
        fit, model = self.fit, self.model
        mean, level = (fit.features.mean(axis=0), float(fit.target.mean())) if fit.bias else (0.0, 0.0)
        errors = []
        for row, target in zip(M - mean, y_val - level, strict=True):
            errors.append(model.addVar(lb=None))
            model.addCons(errors[-1] == float(target) - self._linear(row))
        L, Py = fit.centred_features, fit.centred_target
        fitted = []
        for row in np.linalg.qr(L, mode="r"):
            fitted.append(model.addVar(lb=None))
            model.addCons(fitted[-1] == self._linear(row))
        convex = self.sum(z * z for z in fitted) - self._linear(Py @ L)
        squares, total = model.addVar(lb=0.0), 0.0
        model.addCons(self.sum(error * error for error in errors) <= squares)
        if self.weight is None:
            model.addCons(convex <= 0.0)  # implied: the products vanish and rho sum(t) is not negative
        else:
            remainder, penalty = model.addVar(lb=None), model.addVar(lb=0.0)
            model.addCons(convex <= remainder)
            model.addCons(self.rho * self.sum(self.t) <= penalty)
            model.addCons(remainder + penalty >= 0.0)  # implied: no product is negative
            total = self.weight * (remainder + penalty)
        model.setObjective(squares + total)

    def _linear(self, row: np.ndarray) -> Any:
        return self.sum(float(coefficient) * v for coefficient, v in zip(row, self.v, strict=True) if coefficient)

    def point(self, unit: float) -> TrainedPoint:
        """Return the best point, in the units of the data."""
        value = self.model.getVal
        d, m, _ = self.fit.parts.shape
        v = np.array([value(variable) for variable in self.v])
        xi = np.array(
            [[[value(self.xi[s, component, row]) for row in range(m)] for component in range(d)] for s in (0, 1)]
        )
        nu = float(value(self.nu)) if self.fit.balanced else 0.0
        t = np.array([value(variable) for variable in self.t])
        bias = self.fit.bias_of(v)
        rho = max(float(value(self.rho)), 0.0)
        return TrainedPoint(
            rho=unit * rho,
            v=unit * v,
            b=unit * bias,
            t=unit * t,
            xi_minus=unit * xi[0],
            xi_plus=unit * xi[1],
            nu=unit * nu,
        )
