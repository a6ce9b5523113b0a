"""A weight of maximal variation for each group of inputs: agreement with the problem written down, zeros, refusals."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from problems import (
    MaximalVariationClassifier,
    MaximalVariationRegressor,
    decoupled_maximal_variation,
    load,
    maximal_variation,
)
from substrate.certificates import Tolerance
from substrate.errors import DeclarationError
from substrate.fits.coordinates import decoupled_coordinates, shared_coordinates
from substrate.fits.variation import rho_max, solve_maximal_variation
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


def test_one_number_is_what_it_was_with_and_without_groups():
    X, y = data()
    for kernel in (RBF(1.0), Linear()):
        plain = MaximalVariationRegressor(kernel, 2.0).fit(X, y)
        grouped = MaximalVariationRegressor(kernel, 2.0, groups=GROUPS).fit(X, y)
        assert_array_equal(plain.predict(X), grouped.predict(X))
        assert_array_equal(plain.maximal_variation_, grouped.maximal_variation_)
        assert plain.certificate_.record == grouped.certificate_.record
        each = MaximalVariationRegressor(kernel, [2.0, 2.0], groups=GROUPS).fit(X, y)
        assert_allclose(each.predict(X), plain.predict(X), atol=1e-10)


def test_a_larger_weight_leaves_less_of_its_group_and_zeros_are_exact():
    X, y = data()
    found = [
        MaximalVariationRegressor(Linear(), [0.5, dear], groups=[[0, 1], [2, 3]]).fit(X, y).maximal_variation_
        for dear in (0.5, 3.0, 300.0)
    ]
    assert found[0][2] > found[1][2] > found[2][2] == 0.0
    assert found[2][3] == 0.0
    assert (found[2][:2] > 0.0).any()


@pytest.mark.parametrize("make", [shared_coordinates, lambda K: decoupled_coordinates(K, ridge=0.1)])
def test_from_the_largest_common_factor_on_every_component_vanishes(make):
    X, y = data()
    coordinates, ratios = make(components(Linear(), X)), np.array([0.3, 1.0, 6.0, 2.0])
    largest = rho_max(coordinates, y, ratios)
    assert_allclose(rho_max(coordinates, y, 10.0 * ratios), largest / 10.0, rtol=1e-6)
    at_zero = solve_maximal_variation(coordinates, y, largest * ratios)
    assert not at_zero.maximal_variation.any()
    assert not at_zero.v.any()
    assert_allclose((at_zero.xi_minus + at_zero.xi_plus).sum(axis=1), largest * ratios, rtol=1e-7)
    assert solve_maximal_variation(coordinates, y, 0.999 * largest * ratios).maximal_variation.any()


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


def test_groups_by_name_and_by_number_are_the_same_machine():
    frame, y = framed()
    model = named().fit(frame, y)
    assert model.certificate_.holds, str(model.certificate_)
    assert dict(model.certificate_.record)["rho of groups"] == "'cheap' 0.4, 'dear' 2.5"
    other = MaximalVariationRegressor(
        RBF(1.0), np.array([0.4, 2.5]), groups=[(1, 0), np.array([2, 3])], expansion="decoupled", ridge=0.1
    ).fit(frame.to_numpy(), y)
    assert_array_equal(model.predict(frame), other.predict(frame.to_numpy()))


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


def test_a_refit_chooses_by_the_weights_and_is_checked_with_names():
    frame, y = framed()
    model = named(refit=True).fit(frame, y)
    checked = model.certify(frame, y)
    assert checked.holds, str(checked)
    assert not model.component_support_.all()


def test_files_clones_and_parameters_keep_groups(tmp_path):
    frame, y = framed()
    for groups, rho in (
        ({"cheap": ["a", "b"], "dear": ("d", "c")}, RHO),
        ([[0, 1], [2, 3]], [0.4, 2.5]),
        (np.array([[0, 1], [2, 3]]), np.array([0.4, 2.5])),
        ([range(2), np.array([3, 2])], (0.4, 2.5)),
    ):
        model = named(groups=[list(one) for one in groups] if isinstance(groups, list) else groups).set_params(rho=rho)
        model.fit(frame, y).save(tmp_path / "m.npz")
        loaded = load(tmp_path / "m.npz")
        assert_array_equal(loaded.predict(frame), model.predict(frame))
        assert loaded.certify(frame, y).holds
        again = clone(loaded).fit(frame, y)
        assert_array_equal(again.predict(frame), model.predict(frame))
        assert repr(loaded).startswith("MaximalVariationRegressor(")


def test_classes_with_groups():
    X, y = data()
    labels = np.digitize(y, [0.0, 1.0])
    model = MaximalVariationClassifier(RBF(1.0), RHO, groups=GROUPS).fit(X, labels)
    assert model.certificate_.holds, str(model.certificate_)
    assert model.certify(X, labels).holds
    assert model.maximal_variation_.shape == (3, 4)


def test_a_component_of_several_columns_has_the_weight_of_its_group():
    X, y = data()
    kernel = Componentwise({(0, 1): RBF(2.0), 2: RBF(1.0), 3: RBF(1.0)})
    model = MaximalVariationRegressor(kernel, [0.4, 2.5], groups=[[0, 1], [2, 3]], expansion="decoupled", ridge=0.1)
    assert model.fit(X, y).certificate_.holds
    with pytest.raises(DeclarationError, match=r"component of columns \[0, 1\] is in groups 0 and 1"):
        model.set_params(groups=[[0, 2], [1, 3]]).fit(X, y)


# ---- refusals ------------------------------------------------------------------------------------

WRONG_GROUPS = [
    ([[0, 1], [2]], "every column once: 3 of 4 in no group"),
    ([[0, 1], [2, 3, 1]], "column 1 is in group 1 and in group 0"),
    ([[0, 0, 1], [2, 3]], "column 0 is in group 0 twice"),
    ([[0, 1, 2, 3], []], "group 1 is empty"),
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
    ([1.0], "expected 2, received 1"),
    ([1.0, 0.0], r"rho\[1\] must be positive"),
    ([1.0, "2"], r"rho\[1\] must be a positive number"),
    ({"cheap": 1.0}, r"missing are \['dear'\]"),
    ({"cheap": 1.0, "dear": 1.0, "other": 1.0}, r"unknown are \['other'\]"),
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


def test_an_unknown_column_name_is_refused_with_those_there_are():
    frame, y = framed()
    with pytest.raises(DeclarationError, match="names the column 'e'; the columns are a, b, c, d"):
        named(groups={"cheap": ["a", "b", "c", "d"], "dear": ["e"]}).fit(frame, y)


def test_pages_refuse_another_number_of_weights():
    X, y = data(12)
    for function in (maximal_variation.declare, maximal_variation.closed_form):
        with pytest.raises(DeclarationError, match="one for each component: expected 4, received 2"):
            function(components(Linear(), X), y, [1.0, 2.0])
