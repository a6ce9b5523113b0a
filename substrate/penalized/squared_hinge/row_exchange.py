r"""The squared-hinge machine without one of its rows, by exchanges between support and other rows.

With the system of the support rows S solved, G its bordered inverse and B the block of G that maps targets to
coefficients, the machine on :math:`T = (S \setminus D) \cup A` needs one system of :math:`|D| + |A|` unknowns: the
coefficients :math:`a_A` of the rows that enter, and the forces u that make the coefficients of the others vanish,

.. math:: \begin{pmatrix} B_{DD} & -V_{AD}^T \\ V_{AD} & C_{AA} + \Gamma_A^{-1} \end{pmatrix}
          \begin{pmatrix} u \\ a_A \end{pmatrix} = \begin{pmatrix} -a_D \\ y_A - f(x_A) \end{pmatrix}, \qquad
          V = [1, K_{\cdot S}]\, G_{\cdot S}, \qquad
          C = K - [1, K_{\cdot S}]\, G\, [1, K_{\cdot S}]^T,

after which :math:`a_S + B_{SD} u - V_{AS}^T a_A` are the coefficients, :math:`y_D + u` the values at the rows that
left, and :math:`f + V_{\cdot D} u + C_{\cdot A} a_A` those at all other rows. A row that is left out is in D
throughout; the others change sides until each is on the side of its slack, which are the conditions of optimality
([Cawley2004]_ section 4).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.rows import roundoff

__all__ = ["RowExchange"]

#: Systems after which a row is given up: its machine is fitted then.
MOST_EXCHANGES = 30


@dataclass(frozen=True, slots=True)
class RowExchange:
    """A machine on its support rows S, in the order of S, and the other rows O.

    Parameters
    ----------
    a, y, ridge : array of shape (s,)
        Coefficients, labels and 1/(gamma v) of the support rows.
    fitted, y_others, ridge_others : array of shape (o,)
        Decision values, labels and 1/(gamma v) of the other rows.
    B : array of shape (s, s)
    V : array of shape (o, s)
    C : array of shape (o, o)
        As above, the rows of V and C those of O.
    """

    a: Array
    y: Array
    ridge: Array
    fitted: Array
    y_others: Array
    ridge_others: Array
    B: Array
    V: Array
    C: Array

    def output_without(self, position: int) -> float | None:
        """Return the decision value of a support row in the machine without it; None where the sides do not settle."""
        inside, entered = np.ones(self.a.size, dtype=bool), np.zeros(self.fitted.size, dtype=bool)
        inside[position] = False
        for _ in range(MOST_EXCHANGES):
            (D,), (A,) = np.nonzero(~inside), np.nonzero(entered)
            if D.size == self.a.size and A.size == 0:  # no row is left on which a bias could be found
                return None
            forces, a_A = self._solve_exchange(D, A)
            if not (np.isfinite(forces).all() and np.isfinite(a_A).all()):
                return None
            a = self.a + self.B[:, D] @ forces - a_A @ self.V[A]
            values = self.fitted + self.V[:, D] @ forces + self.C[:, A] @ a_A
            # of a row of this machine the slack by its coefficient, more accurate than a difference
            slack, slack_others = self.ridge * self.y * a, 1.0 - self.y_others * values
            slack[D] = -self.y[D] * forces
            slack_others[A] = self.ridge_others[A] * self.y_others[A] * a_A
            changed, changed_others = (slack > 0.0) != inside, (slack_others > 0.0) != entered
            changed[position] = False
            misfit = max(
                float(np.abs(slack[changed]).max(initial=0.0)),
                float(np.abs(slack_others[changed_others]).max(initial=0.0)),
            )
            if misfit <= roundoff(a.size + values.size):
                return float(self.y[position] + forces[np.searchsorted(D, position)])
            inside, entered = slack > 0.0, slack_others > 0.0
            inside[position] = False
        return None

    def _solve_exchange(self, D: NDArray[np.intp], A: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the forces on the rows that left, and the coefficients of those that entered."""
        across = self.V[np.ix_(A, D)]
        corner = self.C[np.ix_(A, A)] + np.diag(self.ridge_others[A])
        system = np.block([[self.B[np.ix_(D, D)], -across.T], [across, corner]])
        targets = np.concatenate([-self.a[D], self.y_others[A] - self.fitted[A]])
        try:
            solved = np.linalg.solve(system, targets)
        except np.linalg.LinAlgError:
            solved = np.full(targets.size, np.nan)
        return solved[: D.size], solved[D.size :]
