r"""What a machine of least squares on a basis could gain if all its rows were the basis.

.. math::

    J(w, b) = p \, w^T w + q \, \|y - f\|^2 = 2p \left( \tfrac12 w^T w + \tfrac{\gamma}{2} \|e\|^2 \right),
    \qquad \gamma = q / p

Over all w its minimum is at least 2p times the dual of the LS-SVM at any :math:`\alpha` with :math:`1^T \alpha = 0`
(where there is a bias), [Suykens2002]_ eq. (3)-(5):

.. math:: D(\alpha) = \alpha^T y - \tfrac12 \alpha^T \left( K + I / \gamma \right) \alpha .

At the optimum over all w, :math:`\alpha = \gamma e`; here e are the errors of the machine on the basis, without their
mean, and :math:`\alpha` is the multiple of them for which D is largest. K is read in blocks of rows and never stored.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.level import Substrate
from substrate.composition.squares import collect_squares
from substrate.namespaces import row_blocks

__all__ = ["LARGEST", "AllRows", "dual_bound"]

#: Rows up to which the bound is computed: its cost is that of all kernel values.
LARGEST = 20_000
_NAME = "all rows as basis"


@dataclass(frozen=True, slots=True)
class AllRows:
    """The substrates of a machine, and its objective and constraints as the user wrote them."""

    compiled: list[CompiledSubstrate]
    objective: Any
    constraints: list[Any]

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return what is known of the machine on all rows, for the certificate of one on a basis."""
        if all(compiled.substrate.basis is None for compiled in self.compiled):
            return ()
        weights = self._weights()
        if weights is None:
            return ((_NAME, "no bound on the gain: it is known for squared_norm and sum_squares(e) alone"),)
        (compiled,), (p, q) = self.compiled, weights
        s = compiled.substrate
        if s.n > LARGEST:
            return ((_NAME, f"no bound on the gain: it reads all kernel values, for up to {LARGEST} rows"),)
        e = s.y - compiled.fitted_values()
        reached = p * compiled.span.squared_norm(compiled.coefficients()) + q * float(np.sum(e * e))
        gain = max(reached - 2.0 * p * dual_bound(s, e, q / p), 0.0)
        share = f" ({gain / reached:.1%})" if reached > 0.0 else ""
        return ((_NAME, f"would lower the objective by at most {gain:.3g} of {reached:.6g}{share}, by duality"),)

    def _weights(self) -> tuple[float, float] | None:
        """Return p and q, where the machine is least squares and nothing else."""
        if len(self.compiled) != 1 or self.constraints:
            return None
        s = self.compiled[0].substrate
        squares = collect_squares(self.objective, s)
        if squares is None or squares.constant or not squares.squares:
            return None
        if not all(_are_errors(argument, s) for _, argument in squares.squares):
            return None
        errors = sum(weight for weight, _ in squares.squares)
        return (squares.norm, errors) if min(squares.norm, errors) > 0.0 else None


def dual_bound(substrate: Substrate, errors: Array, gamma: float) -> float:
    """Return the largest D over multiples of the errors, without their mean where there is a bias; summed over
    columns.
    """
    alpha = errors - errors.mean(axis=0) if substrate.bias else errors
    products, X, n = np.empty(alpha.shape), substrate.X, substrate.n
    for rows in row_blocks(n, n):
        block = np.empty((rows.stop - rows.start, n))
        substrate.kernel.fill(X[rows], X, block)
        products[rows] = block @ alpha
    curvature = np.sum(alpha * products + alpha**2 / gamma, axis=0)
    slope = np.sum(alpha * substrate.y, axis=0)
    return float(np.sum(0.5 * slope**2 / np.where(curvature > 0.0, curvature, np.inf)))


def _are_errors(expression: Any, s: Substrate) -> bool:
    """Return whether the entries of an affine expression are, up to their signs, y - f at the training rows."""
    leaf, *further = expression.variables()
    fitted_leaves = [holder.leaf for holder in s.holders() if holder.role == "f" and holder.points is None]
    if s.y is None or further or not fitted_leaves or leaf is not fitted_leaves[0] or expression.shape != s.y.shape:
        return False
    kept, size = leaf.value, float(np.abs(s.y).max()) or 1.0
    is_same = []
    for values in (np.zeros(s.y.shape), size * np.random.default_rng(0).normal(size=s.y.shape)):
        leaf.assign(values)
        is_same.append(np.allclose(np.abs(expression.value), np.abs(s.y - values), rtol=1e-12, atol=1e-14 * size))
    leaf.assign(kept)
    return all(is_same)
