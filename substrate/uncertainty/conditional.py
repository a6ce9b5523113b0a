r"""Intervals whose coverage holds under every reweighting of the rows by a function of a space with a kernel.

Scores :math:`s_1, \dots, s_n \ge 0` of calibration rows, and the unknown score of a new row, are the targets of kernel
quantile regression at the level :math:`c` ([Gibbs2025]_ section 3.2), with a constant that is not penalised,

.. math:: \min_{h = h_K + b} \; \sum_{i=1}^{n+1} \ell_c(s_i - h(x_i)) + \tfrac{(n+1)\rho}{2} \|h_K\|^2 , \qquad
          \ell_c(r) = \max(c\,r, (c-1)\,r) .

Its multipliers :math:`\eta_i \in [c - 1, c]` give :math:`h_K = \frac{1}{(n+1)\rho} \sum_i \eta_i k(x_i, \cdot)`. The
multiplier of the new row grows with its score, and the interval holds the scores at which it is below c. At the largest
of them it is c, so that the largest score is :math:`h(x_{n+1})` of the machine in which it is *fixed* at c: one path of
:math:`\eta_{n+1}` from 0 to c, along which all others are piecewise linear, starting at the machine of the calibration
rows. For :math:`f = f_K + a \ge 0` stationarity and exchangeability give

.. math:: \mathbb{E}[f(X)\,1\{Y \in C(X)\}] \ge c\,\mathbb{E} f(X) - \rho\,\mathbb{E}\langle h_K, f_K\rangle :

for :math:`f = 1` the coverage is at least c in finite samples; for :math:`f = k(\cdot, x)`, near x, the further term is
:math:`\rho\,h_K(x) / \mathbb{E} k(X, x)`, which is estimated by the machine of the calibration rows.

A kernel value of :math:`10^{-8}` is added where a row meets itself, also the new one: all systems are then definite,
and the statements hold as they are, with the larger space. A path that does not end, or ends where the conditions of
optimality do not hold, gives an infinite interval.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array

__all__ = ["ConditionalQuantiles"]

#: What is added to the kernel where a row meets itself, as a share of the largest diagonal entry.
_OWN_ROW = 1e-8
#: The largest violation of the conditions of optimality of an answer that is used, in units of the largest score.
_SOLVED = 1e-6
#: How near to a bound a multiplier is at it.
_AT_BOUND = 1e-12


@dataclass(frozen=True, slots=True)
class _State:
    """Multipliers, constant, and the rows at which the residual is zero."""

    eta: Array
    bias: float
    elbow: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConditionalQuantiles:
    """Quantile regression of the scores of calibration rows, ready for new rows.

    ``K`` is the kernel matrix of the rows with what is added to its diagonal, ``lam`` is (n + 1) rho.
    """

    K: Array
    scores: Array
    level: float
    lam: float
    own: float
    state: _State

    @classmethod
    def of(cls, K: Array, scores: Array, level: float, rho: float) -> "ConditionalQuantiles":
        """Fit the quantiles of the scores of n calibration rows with the kernel matrix K."""
        n = scores.size
        own = _OWN_ROW * max(float(np.diagonal(K).max()), np.finfo(np.float64).tiny)
        problem = cls(
            K=K + own * np.eye(n),
            scores=scores,
            level=level,
            lam=(n + 1) * rho,
            own=own,
            state=_State(np.zeros(n), float(scores[0]), (0,)),
        )
        state, rows = problem.state, np.zeros(n, dtype=bool)
        rows[0] = True
        for row in range(1, n):
            state = problem._add_row(state, rows, row)
            rows[row] = True
        return cls(K=problem.K, scores=scores, level=level, lam=problem.lam, own=own, state=state)

    def bounds(self, values: Array, diagonal: Array) -> Array:
        """Return the largest score of every new row; ``values`` are k(x_i, z), one column per new row, ``diagonal``
        k(z, z). Infinite where the rows are too few, or where the path is not solved.
        """
        return np.array([self._bound(values[:, j], float(diagonal[j])) for j in range(values.shape[1])])

    def losses(self, values: Array) -> Array:
        """Return the share of coverage that may be missing near every new row: rho h_K(x) / mean of k(x_i, x)."""
        n = self.scores.size
        function = values.T @ self.state.eta / self.lam
        nearness = values.mean(axis=0)
        rho = self.lam / (n + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(nearness > 0.0, rho * function / nearness, np.inf)
        return np.asarray(np.clip(terms, 0.0, self.level))

    def violation(self, state: _State, theta: float, values: Array) -> float:
        """Return how far the conditions of optimality are from holding, the new row at the multiplier theta."""
        low, high = self.level - 1.0, self.level
        r = self.scores - (self.K @ state.eta + theta * values) / self.lam - state.bias
        inner = (state.eta > low) & (state.eta < high)
        wrong = np.where(inner, np.abs(r), np.where(state.eta >= high, np.maximum(-r, 0.0), np.maximum(r, 0.0)))
        balance = abs(float(state.eta.sum()) + theta)
        return max(float(wrong.max()), balance * self._unit())

    def _unit(self) -> float:
        return max(float(self.scores.max()), np.finfo(np.float64).tiny)

    def _bound(self, values: Array, diagonal: float) -> float:
        n, c = self.scores.size, self.level
        if n * (1.0 - c) < c:  # not even all rows below the new one make it strange
            return np.inf
        every = np.ones(n, dtype=bool)
        state = self._follow(self.state, every, values, self.scores, c, None)
        if state is None:
            return np.inf
        bias = state.bias
        below = state.eta <= c - 1.0 + _AT_BOUND
        if not ((state.eta < c - _AT_BOUND) & ~below).any() and below.any():
            # all constants between two scores are optimal: at the least of them c is reached
            bias += min(float(self._residuals(state, c, values)[below].max()), 0.0)
        worst = self.violation(state, c, values)
        if not np.isfinite(bias) or not worst <= _SOLVED * self._unit():
            return np.inf
        return float((values @ state.eta + c * (diagonal + self.own)) / self.lam + bias) + worst

    def _residuals(self, state: _State, theta: float, values: Array) -> Array:
        return np.asarray(self.scores - (self.K @ state.eta + theta * values) / self.lam - state.bias)

    def _add_row(self, state: _State, rows: Array, row: int) -> _State:
        """Return the machine with one row more: its multiplier moves until its residual or a bound is reached."""
        values = np.where(rows, self.K[row], 0.0)
        residual = float(self.scores[row] - values @ state.eta / self.lam - state.bias)
        if residual == 0.0:
            return _State(state.eta, state.bias, (*state.elbow, row))
        end = self.level if residual > 0.0 else self.level - 1.0
        added = self._follow(state, rows, self.K[:, row], self.scores, end, row)
        return state if added is None else added

    def _follow(
        self, state: _State, rows: Array, values: Array, scores: Array, end: float, row: int | None
    ) -> _State | None:
        """Move the multiplier of one row from 0 to ``end``; stop where its residual is zero, if it is a calibration
        ``row``. Return None where that takes too many steps.
        """
        low, high = self.level - 1.0, self.level
        eta, bias, elbow, theta = state.eta.copy(), state.bias, list(state.elbow), 0.0
        sign = 1.0 if end > 0.0 else -1.0
        members = np.flatnonzero(rows)
        n = members.size
        for _ in range(20 * n + 100):
            total = self.K[:, members] @ eta[members] + theta * values
            r = scores - total / self.lam - bias
            outside = members[~np.isin(members, elbow)]
            if not elbow:
                # no row can balance the new one: the constant moves until one of those that can does
                able = outside[eta[outside] >= high] if sign > 0.0 else outside[eta[outside] <= low]
                nearest = float(np.abs(r[able]).min(initial=np.inf))
                if row is not None and abs(r[row]) <= nearest:  # the new row is reached first
                    eta[row] = theta
                    return _State(eta, bias + float(r[row]), (row,))
                if not able.size:
                    return None
                enter = int(able[np.argmin(np.abs(r[able]))])
                bias += float(r[enter])
                elbow.append(enter)
                continue
            m = len(elbow)
            system = np.ones((m + 1, m + 1))
            system[:m, :m], system[m, m] = self.K[np.ix_(elbow, elbow)], 0.0
            move = np.linalg.solve(system, -sign * np.append(values[elbow], 1.0))
            d_eta, d_bias = move[:m], float(move[m]) / self.lam
            d_r = -(self.K[:, elbow] @ d_eta + sign * values) / self.lam - d_bias
            steps = [(abs(end - theta), -1, -1)]
            for place, i in enumerate(elbow):
                if d_eta[place] != 0.0:
                    bound = high if d_eta[place] > 0.0 else low
                    steps.append((max((bound - eta[i]) / d_eta[place], 0.0), place, 0))
            for i in outside.tolist():
                towards = (eta[i] >= high and d_r[i] < 0.0) or (eta[i] <= low and d_r[i] > 0.0)
                if towards:
                    steps.append((max(-r[i] / d_r[i], 0.0), i, 1))
            if row is not None and r[row] * d_r[row] < 0.0:
                steps.append((-r[row] / d_r[row], row, 2))
            step, which, kind = min(steps)
            eta[elbow] = np.clip(eta[elbow] + step * d_eta, low, high)
            bias, theta = bias + step * d_bias, theta + sign * step
            if kind == 0:
                i = elbow.pop(which)
                eta[i] = high if d_eta[which] > 0.0 else low
            elif kind == 1:
                elbow.append(which)
            else:
                if row is not None:
                    eta[row] = theta if kind == 2 else end
                    elbow += [row] if kind == 2 else []
                return _State(eta, bias, tuple(elbow))
        return None
