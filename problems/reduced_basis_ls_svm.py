r"""The LS-SVM on a reduced basis: w in the span of few vectors, the errors of all points in the objective.

.. math::

    \min_{\beta, b, e} \; \tfrac12 \beta^T K_{SS} \beta + \tfrac{\gamma}{2} \sum_{i \in R} v_i e_i^2
    \quad \text{s.t.} \quad y_i = \sum_{j \in S} \beta_j k(x_i, x_j) + b + e_i, \quad i \in R

Symbols: S the basis, :math:`w = \sum_{j \in S} \beta_j \varphi(x_j)`; R the points whose errors count, all of them
(``residuals="all"``), or, for comparison, the conventional sparse LS-SVM, which discards the other points: R = S
(``residuals="kept"``); b bias; :math:`\gamma` weight of the errors; v weights of the rows, one unless given. S does not
depend on v.

The problem is declared in the features of :math:`K_{SS} = L L^T`, :math:`z_i = L^{-1} k_{Si}` and
:math:`\beta = L^{-T} u`, in which the norm is :math:`u^T u` and the minimum is unique; vectors that double precision
cannot tell from combinations of the others, as on tied inputs, have the coefficient zero. The multipliers of the
equalities are :math:`\alpha_i = \gamma v_i e_i`, with :math:`u = \sum_i \alpha_i z_i` and :math:`1^T \alpha = 0`; the
predictor is :math:`f(x) = \sum_{j \in S} \beta_j k(x_j, x) + b`.

S is given, or chosen by :func:`~substrate.operators.basis_choice.select_feature_vectors`.

Closed form: :func:`substrate.fits.basis_solution.solve_reduced`.

[Cawley2002]_ section 2, [Cawley2004]_ eq. (2)-(5). Errata: with the printed objectives, :math:`\gamma \sum e^2`, the
sparse systems are correct and the dense ones have a wrong factor of two, so that the two printed machines disagree on
the full basis; ours is :math:`2 \gamma` of [Cawley2004]_, and :math:`2 \gamma / l` of [Cawley2002]_. In (A.2) of
[Cawley2004]_ b and 1 stand for :math:`l\,b` and l, and two sums end at n instead of l. The printed system is singular
whenever :math:`K_{SS}` is, as on tied inputs.
"""

from functools import partial
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights, target_unit
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import basis_points
from substrate.declare.regression_page import RegressionData, optimality_rows, within_solvers
from substrate.fits.basis_solution import solve_reduced
from substrate.ingredients import regression_fit, squared_errors, squared_norm
from substrate.kernels import RBF, Precomputed
from substrate.operators.basis_spectrum import reduced_spectrum
from substrate.operators.features import Features, accumulate, basis_features, origin_of
from substrate.operators.gram import Gram
from substrate.operators.kernel_rows import KernelRows
from substrate.operators.saddle_system import ridge_of
from substrate.robust_weights import check_choice

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

DEMONSTRATION = Demonstration(
    equations="Cawley2004 (2)-(5); Cawley2002 section 2",
    cases=tuple(
        Case(
            label=residuals,
            choice={"residuals": residuals},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={"gamma": 20.0, "n_basis": 0.15},
        )
        for residuals in ("all", "kept")
    ),
)


def declare(
    K: Any,
    y: Any,
    gamma: float,
    n_basis: float = 0.5,
    residuals: str = "all",
    basis: Any = None,
    weights: Any = None,
) -> Declared:
    """Declare the problem on a kernel matrix (or a Gram) of all points; ``basis`` names the vectors S itself.

    :equation [Cawley2004]_ (2): the sparse LS-SVM, primal
    :place [Cawley2002]_ Fig. 1 and 2: errors of all rows against errors of the kept points
    """
    gram = given_gram(K)
    data = _check_arguments(gram, y, gamma, n_basis, residuals, basis, weights)
    S, R = data.basis, data.rows
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    features = basis_features(gram.matrix[np.ix_(S, S)])
    Z = gram.matrix[np.ix_(R, S)] @ features.transform if features.rank else np.zeros((R.size, 1))

    def record() -> tuple[tuple[str, str], ...]:
        basis = f"{S.size} of {gram.n} points, rank {features.rank}, errors of {R.size} points"
        return (*gram.record(), ("basis", basis))

    target = within_solvers(data.target)[R]
    page = RegressionData(record=record, R=Z, y=target, v=data.weights, gamma=data.gamma)
    return _declare(page, features, residuals)


def _declare(data: RegressionData, features: Features, residuals: str) -> Declared:
    Z, y, v = data.R, data.y, data.v
    u, b, e = cp.Variable(Z.shape[1], name="u"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    fit = regression_fit(y, Z @ u + b, e)
    norm, errors = squared_norm(u, Z), squared_errors(e, gamma, v)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint])
    values = {
        "weights": lambda: u.value,
        "bias": lambda: b.value,
        "errors": lambda: e.value,
        "support_values": lambda: fit.multiplier,
        "coefficients": lambda: features.coefficients(u.value[: features.rank]),
    }

    def sizes(data: RegressionData) -> dict[str, float]:
        return {"weights": float(np.abs(Z.T @ data.dual_at_zero).max(initial=0.0))}

    rows = partial(optimality_rows, fit, norm, errors)
    title = f"Reduced-basis LS-SVM ({residuals} residuals)"
    return data.declare(title, problem, {"gamma": gamma}, values, rows, sizes=sizes)


def closed_form(
    K: Any,
    y: Any,
    gamma: float,
    n_basis: float = 0.5,
    residuals: str = "all",
    basis: Any = None,
    weights: Any = None,
) -> dict[str, Array]:
    """Return weights u, bias, errors and support values gamma v e by linear algebra.

    Beta is left out: where inputs tie it is not unique, and elsewhere it is less accurate than its predictions.
    """
    gram = own_gram(K)
    data = _check_arguments(gram, y, gamma, n_basis, residuals, basis, weights)
    S, R, target, lam = data.basis, data.rows, data.target, 1.0 / data.gamma
    gram.check_definite()
    matrix = gram.matrix
    K_basis = np.ascontiguousarray(matrix[np.ix_(S, S)])
    features, Y = basis_features(K_basis), target[R][:, None]
    rows = KernelRows.of(Precomputed(), matrix[R], S, Y, None if weights is None else data.weights)
    origin = origin_of(K_basis, rows.target_summary(), target_unit(target))
    spectrum = reduced_spectrum(accumulate(rows, features, origin, lam))
    solved = solve_reduced(rows, spectrum, lam, K_basis)
    u, bias = solved.weights[:, 0], float(solved.bias[0])
    errors = target[R] - (rows.take_rows(np.arange(R.size)) @ solved.coefficients[:, 0] + bias)
    weights_of_features = u if features.rank else np.zeros(1)
    return {
        "weights": weights_of_features,
        "bias": np.asarray(bias),
        "errors": errors,
        "support_values": data.gamma * data.weights * errors,
    }


class _ReducedData(NamedTuple):
    """The targets, gamma, the numbers of the basis points and of the rows whose errors count, and their weights."""

    target: Array
    gamma: float
    basis: Any
    rows: Any
    weights: Array


def _check_arguments(
    gram: Gram, y: Any, gamma: float, n_basis: Any, residuals: str, basis: Any, weights: Any
) -> _ReducedData:
    target = real_targets(y, gram.n)
    value = positive(gamma, "gamma")
    S = basis_points(gram, n_basis, basis)
    check_choice(residuals, ("all", "kept"), "residuals")
    R = np.arange(gram.n) if residuals == "all" else S
    v = row_weights(weights, gram.n)
    ridge_of(value, v)  # refuses what leaves the range of floating point
    return _ReducedData(target=target, gamma=value, basis=S, rows=R, weights=v[R])
