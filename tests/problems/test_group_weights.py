"""A weight of maximal variation for each group of inputs: agreement with the problem written down, zeros, refusals."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from problems import (
    MaximalVariationClassifier,
    MaximalVariationRegressor,
    decoupled_maximal_variation,
    maximal_variation,
)
from substrate.certificate import Tolerance
from substrate.errors import DeclarationError
from substrate.fits.coordinates import decoupled_coordinates
from substrate.fits.variation import solve_maximal_variation
from substrate.kernels import RBF, Componentwise, Linear
from substrate.penalties import VariationMachine

GROUPS = {"cheap": [0, 1], "dear": [3, 2]}
RHO = {"cheap": 0.4, "dear": 2.5}


def data(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2] + 0.1 * rng.normal(size=n)


def framed():
    X, y = data()
    return pd.DataFrame(X, columns=list("abcd")), y


def named(**others):
    parameters = {"groups": {"cheap": ["a", "b"], "dear": ["d", "c"]}, "expansion": "decoupled", "ridge": 0.1}
    return MaximalVariationRegressor(RBF(1.0), RHO, **(parameters | others))


def components(kernel, X):
    return [kernel(X[:, [part]]) for part in range(X.shape[1])]


def decoupled_written_down(X, y, kernel, rho, ridge):
    """min 1/2 |e|^2 + ridge/2 sum_l |w_l|^2 + sum_l rho_l max_i |f_l(x_i)|, in features from a root of each matrix."""
    roots = []
    for K in components(kernel, X):
        values, vectors = np.linalg.eigh(K)
        roots.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    w, b = [cp.Variable(len(y)) for _ in roots], cp.Variable()
    f = [root @ one for root, one in zip(roots, w, strict=True)]
    cost = 0.5 * cp.sum_squares(y - sum(f) - b) + 0.5 * ridge * sum(cp.sum_squares(one) for one in w)
    problem = cp.Problem(cp.Minimize(cost + sum(r * cp.max(cp.abs(one)) for r, one in zip(rho, f, strict=True))))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, sum(f).value + b.value, np.array([np.abs(one.value).max() for one in f])


# ---- the problem ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [[0.4, 0.4, 2.5, 2.5], [1e-3, 5.0, 5.0, 20.0]])
def test_the_machine_is_that_of_the_problem_written_down(rho):
    X, y = data(20)
    _, fitted, t = decoupled_written_down(X, y, RBF(1.0), rho, 0.1)
    model = MaximalVariationRegressor(
        RBF(1.0), rho, groups=[[part] for part in range(4)], expansion="decoupled", ridge=0.1, cutoff=1e-10
    ).fit(X, y)
    assert model.certificate_.holds, str(model.certificate_)
    assert_allclose(model.predict(X), fitted, atol=1e-5)
    assert_allclose(model.maximal_variation_, t, atol=1e-5)


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()], ids=repr)
@pytest.mark.parametrize("page", [maximal_variation, decoupled_maximal_variation], ids=["shared", "decoupled"])
def test_declared_and_fast_path_agree(page, kernel):
    X, y = data(20)
    K, rho = components(kernel, X), [0.3, 0.3, 2.0, 1.0]
    more = {"ridge": 0.1} if page is decoupled_maximal_variation else {}
    declared = page.declare(K, y, rho, **more).solve()
    certificate = declared.certificate(against=page.closed_form(K, y, rho, **more))
    assert certificate.holds, str(certificate)
    assert declared.parameters["rho"].shape == (4,)
    declared.parameters["rho"].value = np.full(4, 0.7)
    again = declared.solve().certificate(against=page.closed_form(K, y, 0.7, **more))
    assert again.holds, str(again)
    for row in page.declare(K, y, 0.7, **more).solve().certificate().rows:
        assert_allclose(again[row.name].scale, row.scale, rtol=1e-6, err_msg="one number is as many equal ones")


def test_a_wrong_weight_fails_the_certificate():
    X, y = data(20)
    declared = maximal_variation.declare(components(RBF(1.0), X), y, [0.3, 0.3, 2.0, 1.0]).solve()
    declared.parameters["rho"].value = np.array([0.3, 0.33, 2.0, 1.0])
    found = {row.name for row in declared.certificate().failures}
    assert {"(27b) sums of multipliers", "accuracy"} <= found


def test_bounds_are_true_for_other_weights():
    X, y = data(20)
    coordinates = decoupled_coordinates(components(RBF(1.0), X), ridge=0.1)
    rho = np.array([0.4, 0.4, 2.5, 2.5])
    solved = solve_maximal_variation(coordinates, y, rho)
    machine = VariationMachine(
        components=coordinates.parts,
        root=coordinates.weights,
        weights=np.ones(y.size),
        bias=True,
        ridge=0.1,
        rho=rho,
        v=solved.v,
        xi=solved.xi_plus - solved.xi_minus,
    )
    kernels, tolerance = Componentwise(RBF(1.0)).components(4), Tolerance.of(y, np.ones(y.size))
    stored = (list(coordinates.expand(solved.v).T), coordinates.bias_of(y, solved.v))
    fitted = coordinates.parts.sum(axis=0) @ solved.v + coordinates.bias_of(y, solved.v)
    for factors in ([1.0] * 4, [1.0, 1.0, 1.5, 1.0], [1.0, 2.0, 1.0, 1.0], [0.5, 1.0, 1.0, 1.0], [1.0, 1.0, 0.3, 0.3]):
        best = solve_maximal_variation(coordinates, y, rho * factors)
        distance = fitted - coordinates.parts.sum(axis=0) @ best.v - coordinates.bias_of(y, best.v)
        other = replace(machine, rho=rho * factors)
        row = other.accuracy(kernels, X, X, y, *stored, fitted, tolerance)
        assert row.value >= np.sqrt(np.mean(distance**2)) - 1e-12, factors
        assert row.passes == (factors == [1.0] * 4)


# ---- the estimators ------------------------------------------------------------------------------


def test_certify_and_prove_know_the_weights():
    pytest.importorskip("flint")
    frame, y = framed()
    model = named().fit(frame, y)
    assert model.certify(frame, y).holds
    proof = model.prove(frame, y)
    assert proof.proved, str(proof)
    model.rho = {"cheap": 0.5, "dear": 2.5}
    assert not model.certify(frame, y).holds
    assert not model.prove(frame, y).proved


# ---- refusals ------------------------------------------------------------------------------------

WRONG_GROUPS = [
    ([[0, 1], [2]], "every column once: 3 of 4 in no group"),
    ([[0, 1], [2, 3, 1]], "none of 4 in no group, 1 in several places"),
    ([[0, 0, 1], [2, 3]], "0 in several places"),
    ([[0, 1, 2, 3], []], r"group 1 must be a list of columns, received \[\]"),
    ([[0, 1, 2, 3], [4]], "integers from 0 to 3 or names, received 4"),
    ([[0, 1, 2], [-1]], "received -1"),
    ([[0, 1, 2], [True]], "received True"),
    ([[0, 1, 2], [3.0]], r"received 3\.0"),
    ([["a", "b"], ["c", "d"]], "names the column 'a'; X has no column names"),
    (["ab", "cd"], "group 0 must be a list of columns, received 'ab'"),
    ([0, 1, 2, 3], "group 0 must be a list of columns, received 0"),
    ([], "groups is empty"),
    ("ab", "groups must be lists of columns"),
    (3, "groups must be lists of columns"),
    ({None: [0, 1], "b": [2, 3]}, "names are text or integers, received None"),
]
WRONG_RHO = [
    ([1.0], r"expected \[0, 1\], received \[0\]"),
    ([1.0, 0.0], r"rho\[1\] must be positive"),
    ([1.0, "2"], r"rho\[1\] must be a positive number"),
    ({"cheap": 1.0}, r"expected \['cheap', 'dear'\], received \['cheap'\]"),
    ({"cheap": 1.0, "dear": 1.0, "other": 1.0}, r"received \['cheap', 'dear', 'other'\]"),
    ({"cheap": 1.0, "dear": -1.0}, r"rho\['dear'\] must be positive"),
    ("2", "rho must be a positive number"),
    (np.ones((2, 2)), "rho must be a positive number"),
]


@pytest.mark.parametrize("estimator", [MaximalVariationRegressor, MaximalVariationClassifier])
def test_wrong_groups_and_weights_are_refused(estimator):
    X, y = data()
    y = y if estimator is MaximalVariationRegressor else y > 1.0
    for groups, message in WRONG_GROUPS:
        with pytest.raises(DeclarationError, match=message):
            estimator(Linear(), 1.0, groups=groups).fit(X, y)
    for rho, message in WRONG_RHO:
        with pytest.raises(DeclarationError, match=message):
            estimator(Linear(), rho, groups=GROUPS).fit(X, y)
    for rho in ([1.0, 2.0], {"cheap": 1.0}):
        with pytest.raises(DeclarationError, match="rho must be one number unless groups"):
            estimator(Linear(), rho).fit(X, y)
