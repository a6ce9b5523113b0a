r"""Common parts of the problems of substrates: targets, quantities in the paper's sign, basis points, and L1 problems.

The L1 substrate, its fusion and its reduced basis have one cvxpy problem on a matrix of atoms:

.. math:: \min_{a, b, e} \; \tfrac12 \|e\|^2 + \zeta \|a\|_1
          \quad \text{s.t.} \quad t = \Phi a + b 1 + e, \quad 1^T a = 0

with :math:`\Phi = \Omega` and t = y, or both with the validation rows below; [Pelckmans2005]_ eq. (16) and (23). On a
reduced basis :math:`\Phi` has fewer columns than rows, and a need not sum to zero. A ridge adds
:math:`\tfrac{\tau}{2} \|R a\|^2` with :math:`R^T R = \Omega`. How far a solver's point is from the optimum is bounded
by :mod:`substrate.penalties`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array, real_array, real_targets
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance
from substrate.declare.declared import Declared
from substrate.declare.regression_page import within_solvers
from substrate.errors import DataError
from substrate.fits.column_reduction import support_count
from substrate.fits.coordinates import root_of
from substrate.ingredients import regression_fit, signed_labels, sparsity, sparsity_rows, zero_sum, zero_sum_row
from substrate.numbers import Double
from substrate.operators.basis_choice import select_feature_vectors
from substrate.operators.gram import Gram
from substrate.penalties import Columns, OneNorm, accuracy_of
from substrate.robust_weights import check_choice

__all__ = ["basis_points", "checked_targets", "in_paper_signs", "signs_of", "sparse_expansion", "validation_rows"]


def checked_targets(y: Any, n: int, task: str, name: str = "y") -> Array:
    """Return targets of regression, or labels -1 and +1 of classification, for n rows."""
    check_choice(task, ("regression", "classification"), "task")
    return real_targets(y, n, name) if task == "regression" else signed_labels(y, n, name)


def validation_rows(K_val: Any, y_val: Any, n: int, task: str) -> tuple[Array, Array]:
    """Return kernel values of validation points against the n training points, and their targets or labels."""
    below = real_array(K_val, "K_val", ndim=2)
    if below.shape[1] != n:
        raise DataError(
            f"K_val has a row per validation point and a column per training point: expected {n} columns, "
            f"received shape {below.shape}"
        )
    targets = real_array(y_val, "y_val", ndim=1)
    if targets.size != below.shape[0]:
        raise DataError(
            f"y_val must have one entry per row of K_val: expected {below.shape[0]}, received {targets.size}"
        )
    if task == "classification" and not np.isin(targets, (-1.0, 1.0)).all():
        raise DataError(f"y_val must hold labels -1 and +1, received {np.unique(targets)[:5]}")
    return below, targets


def signs_of(y: Array, task: str) -> Array:
    """Return the labels by which quantities of classification are multiplied, ones in regression."""
    return y if task == "classification" else np.ones(y.size)


def in_paper_signs(
    y: Array, task: str, a: Callable[[], Any], b: Callable[[], Any], e: Callable[[], Any], y_val: Array | None = None
) -> dict[str, Callable[[], Any]]:
    """Return readings of alpha, b, e and c = e - alpha; for classes alpha = y∘a and e = 1 - y∘f = y∘(y - f).

    With ``y_val`` the errors of the validation rows follow the errors of the training rows in ``e``.
    """
    signs, n = signs_of(y, task), y.size
    values = {
        "support_values": lambda: signs * np.asarray(a()),
        "bias": b,
        "errors": lambda: signs * np.asarray(e())[:n],
        "constants": lambda: signs * (np.asarray(e())[:n] - np.asarray(a())),
    }
    if y_val is not None:
        below = signs_of(y_val, task)
        values["validation_errors"] = lambda: below * np.asarray(e())[n:]
    return values


@dataclass(frozen=True, slots=True)
class SparseExpansion:
    """The problem, its variables and its certificate rows."""

    problem: Any
    weight: Any
    a: Any
    b: Any
    e: Any
    Phi: Array
    target: Array
    fit: Any
    balanced: bool
    #: The weight of half the squared length of ``root`` times a, a parameter; None without a ridge.
    ridge: Any = None
    root: Array | None = None

    def ridge_gradient(self, a: Array) -> Array:
        """Return the gradient of the ridge."""
        if self.root is None:
            return np.zeros(a.size)
        return np.asarray(float(self.ridge.value) * (self.root.T @ (self.root @ a)))

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Fit equalities, both sums, and the subgradient condition."""
        errors = zero_sum_row(self.e.value, tolerance, self.target, of="e")
        a, e, weight = self.a.value, self.e.value, float(self.weight.value)
        balance = (zero_sum_row(a, tolerance, self.target / self._largest_atom()),) if self.balanced else ()
        sparse = sparsity_rows(self.Phi, self.target, e, a, weight, tolerance, self.balanced, self.ridge_gradient(a))
        return (self.fit.row(tolerance), *balance, errors, *sparse)

    def accuracy(self) -> Accuracy:
        """Bound the fitted values, in which the squared loss makes the objective strongly convex."""
        ones, energy, ridge = np.ones(self.target.size), None, 0.0
        if self.root is not None:
            root, ridge = Double(self.root), float(self.ridge.value)
            energy = root.T @ root
        columns = Columns(Double(self.Phi), ones, True, ridge, energy)
        penalty = OneNorm(float(self.weight.value), self.balanced)
        tolerance = Tolerance.of_page(self.target, ones, UNPOLISHED)
        return accuracy_of(columns, penalty, self.target, self.a.value, self.target - self.e.value, tolerance)

    def units(self) -> dict[str, float]:
        """Return the sizes of alpha and of quantities in the units of y at the trivial point."""
        y = float(np.abs(self.target).max())
        names = ("bias", "errors", "constants", "validation_errors")
        atoms = dict.fromkeys(("support_values", "coefficients"), y / self._largest_atom())
        return {**atoms, **dict.fromkeys(names, y)}

    def declare(
        self, title: str, values: Mapping[str, Callable[[], Any]], record: Callable[[], tuple[tuple[str, str], ...]]
    ) -> Declared:
        """Return the declared problem; ``values`` reads its quantities in the paper's sign."""
        parameters = {parameter.name(): parameter for parameter in (self.weight, self.ridge) if parameter is not None}
        return Declared(
            title=title,
            problem=self.problem,
            parameters=parameters,
            values=values,
            rows=self.rows,
            record=record,
            units=self.units,
            unit=self.unit,
            accuracy=self.accuracy,
        )

    def _largest_atom(self) -> float:
        return float(np.abs(self.Phi).max()) or 1.0

    def unit(self) -> float:
        """Return the unit of the target in which a = 0 costs about 1."""
        spread, largest = float(np.linalg.norm(self.target - self.target.mean())), float(np.abs(self.target).max())
        return spread if spread > 1e-12 * largest else max(largest, 1.0)


def sparse_expansion(
    Phi: Array, target: Array, weight: float, name: str, balanced: bool = True, ridge: float = 0.0
) -> SparseExpansion:
    """Build the problem with ``weight`` as a parameter of the given name, ``balanced`` with 1'a = 0.

    A ``ridge``, a parameter too unless it is zero, weighs half of a'K a where Phi is a kernel matrix K.
    """
    a, b, e = cp.Variable(Phi.shape[1], name="a"), cp.Variable(name="b"), cp.Variable(target.size, name="e")
    parameter = cp.Parameter(nonneg=True, name=name, value=weight)
    fit = regression_fit(within_solvers(target), Phi @ a + b, e)
    objective = 0.5 * cp.sum_squares(e) + sparsity(a, parameter)
    root, tau = None, None
    if ridge > 0.0:
        root, tau = root_of(Phi), cp.Parameter(nonneg=True, name="ridge", value=ridge)
        objective += 0.5 * tau * cp.sum_squares(root @ a)
    constraints = [fit.constraint, zero_sum(a).constraint] if balanced else [fit.constraint]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    return SparseExpansion(
        problem=problem,
        weight=parameter,
        a=a,
        b=b,
        e=e,
        Phi=Phi,
        target=target,
        fit=fit,
        balanced=balanced,
        ridge=tau,
        root=root,
    )


def basis_points(gram: Gram, n_basis: Any, basis: Any) -> Any:
    """Return the points named by ``basis``; with None, ``n_basis`` feature vectors, a number or a share."""
    count = support_count(n_basis, gram.n, "n_basis")
    if basis is not None:
        return _check_points(basis, gram.n)
    every = np.arange(gram.n)
    chosen, _ = select_feature_vectors(gram, every, every, count)
    return chosen if chosen.size else every[:1]  # a matrix of zeros spans nothing


def _check_points(basis: Any, n: int) -> Any:
    """Return points among n, in the order given; a point that is named twice is kept once."""
    kept = np.asarray(basis)
    if kept.ndim != 1 or kept.size == 0 or kept.dtype.kind not in "iu" or not 0 <= kept.min() <= kept.max() < n:
        raise DataError(f"basis must be a list of points, integers from 0 to {n - 1}, received {basis!r}")
    _, first = np.unique(kept, return_index=True)
    return kept[np.sort(first)].astype(np.intp)
