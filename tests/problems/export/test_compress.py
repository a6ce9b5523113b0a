"""A compressed machine is as near as its certificate says, everywhere; and it predicts and exports as its source."""

import numpy as np
import pytest
from written_programs import run_onnx

from problems import (
    LSSVMClassifier,
    LSSVMRegressor,
    MaximalVariationRegressor,
    PartiallyLinearLSSVMRegressor,
    StackedLSSVMRegressor,
)
from problems.export import compress, to_c, to_onnx
from substrate.certificates.balls import ball, precision
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("kernel", [RBF(1.5), Matern(1.5, 2.5), Laplacian(2.0), 4.0 * RBF(1.0) + RBF(3.0)], ids=str)
@pytest.mark.some_cases(4)
def test_the_distance_holds_everywhere(kernel, tol):
    X, y = rows()
    model = LSSVMRegressor(kernel, gamma=10.0).fit(X, y)
    machine = compress(model, tol)
    assert machine.certificate_.holds
    assert machine.certificate_.promise.endswith("everywhere")
    rng = np.random.default_rng(1)
    new = np.vstack([rng.normal(size=(2000, 2)), 10.0 * rng.normal(size=(500, 2)), X, machine.support_vectors_])
    distance = np.abs(machine.predict(new) - model.predict(new)).max()
    assert distance <= machine.distance + 1e-10
    assert machine.distance <= tol
    assert machine.n_vectors <= 120
    assert machine.n_vectors < 120 or tol < 1e-3 or isinstance(kernel, Laplacian)


def test_the_norm_is_bounded_in_exact_arithmetic():
    """The bound is above ||f - f_n|| in balls, and near it."""
    X, y = rows(25)
    kernel = RBF(1.5)
    model = LSSVMRegressor(kernel, gamma=10.0).fit(X, y)
    machine = compress(model, 0.05)
    c = {tuple(x): ball(a) for x, a in zip(X.tolist(), model.support_values_.tolist(), strict=True)}
    for z, b in zip(machine.support_vectors_.tolist(), machine.machine.support_values_.tolist(), strict=True):
        c[tuple(z)] -= ball(b)
    with precision(200):
        formula = kernel.exact_formula(ball, 2)
        points = [([ball(v) for v in x], weight) for x, weight in c.items()]
        square = sum(a * b * formula(x, z) for x, a in points for z, b in points)
        norm = float(square.sqrt().upper())
    assert norm <= machine.distance <= 1.1 * norm


def test_fewer_vectors_of_the_order_do_not_do():
    """The number is the smallest of the greedy order whose distance is proved."""
    X, y = rows()
    model = LSSVMRegressor(RBF(1.5), gamma=10.0).fit(X, y)
    counts = [compress(model, tol).n_vectors for tol in np.geomspace(1.0, 1e-3, 13)]
    assert counts == sorted(counts)
    assert counts[0] < counts[8] < 120, "also where the norm is just below what is asked for, and its bound above"
    machine = compress(model, 1e-2)
    assert compress(model, 1.0001 * machine.distance).n_vectors == machine.n_vectors
    assert compress(model, 0.9999 * machine.distance).n_vectors > machine.n_vectors


def test_a_function_of_no_size_needs_no_vector():
    X, y = rows()
    model = LSSVMRegressor(RBF(1.5), gamma=10.0).fit(X, y)
    machine = compress(model, 1e9)
    assert machine.n_vectors == 0
    np.testing.assert_array_equal(machine.predict(X[:3]), np.full(3, model.bias_))
    constant = compress(LSSVMRegressor(RBF(1.5)).fit(X, np.full(120, 2.0)), 1e-6)
    assert constant.n_vectors == 0
    assert constant.distance == 0.0
    assert run_onnx(to_onnx(constant).content, X)["prediction"].tolist() == [2.0] * 120


def test_a_tolerance_beyond_rounding_keeps_all_vectors():
    X, y = rows()
    model = LSSVMRegressor(RBF(1.5), gamma=10.0).fit(X, y)
    machine = compress(model, 1e-15)
    assert machine.n_vectors == 120
    assert machine.distance == 0.0
    np.testing.assert_allclose(machine.predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_units_of_the_target_change_nothing(factor):
    X, y = rows()
    one = compress(LSSVMRegressor(RBF(1.5), gamma=10.0).fit(X, y), 1e-2)
    other = compress(LSSVMRegressor(RBF(1.5), gamma=10.0).fit(X, factor * y), factor * 1e-2)
    assert abs(one.n_vectors - other.n_vectors) <= 1
    assert other.distance <= factor * 1e-2


def test_repeated_rows_are_one_vector():
    X, y = rows(40)
    model = LSSVMRegressor(RBF(1.5), gamma=10.0).fit(np.vstack([X, X]), np.append(y, y))
    machine = compress(model, 1e-3)
    assert machine.n_vectors <= 40
    assert np.abs(machine.predict(X) - model.predict(X)).max() <= machine.distance <= 1e-3


def test_a_kernel_that_grows_is_bounded_in_the_box_of_the_vectors():
    X, y = rows()
    model = LSSVMRegressor(RBF(1.5) + Polynomial(2, 1.0), gamma=10.0).fit(X, y)
    machine = compress(model, 0.1)
    assert machine.certificate_.promise.endswith("in the box of the vectors")
    new = np.random.default_rng(2).uniform(X.min(axis=0), X.max(axis=0), size=(2000, 2))
    assert np.abs(machine.predict(new) - model.predict(new)).max() <= machine.distance + 1e-10


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
def test_classes_and_probabilities_are_those_of_the_source(coding):
    X, y = rows()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.3, 1.2])]
    model = LSSVMClassifier(RBF(1.5), gamma=10.0, coding=coding, standardize=True).fit(X, labels)
    machine = compress(model, 1e-2)
    assert machine.n_vectors < 120
    outputs = [np.asarray(m._expansion(X)) for m in (model, machine.machine)]
    assert np.abs(outputs[0] - outputs[1]).max() <= machine.distance
    assert np.mean(machine.predict(X) == model.predict(X)) > 0.97
    assert np.abs(machine.predict_proba(X) - model.predict_proba(X)).max() < 0.1
    assert machine.decision_function(X).shape == (120, 3)
    answers = run_onnx(to_onnx(machine, precision="float64").content, X)
    np.testing.assert_allclose(answers["probabilities"], machine.predict_proba(X), atol=1e-10)
    assert answers["label"].tolist() == machine.predict(X).tolist()


def test_a_compressed_machine_is_a_shorter_file():
    X, y = rows()
    model = LSSVMRegressor(RBF(1.5), gamma=10.0).fit(X[:80], y[:80]).calibrate(X[80:], y[80:])
    machine = compress(model, 1e-2)
    assert len(to_c(machine).content) < len(to_c(model).content)
    answers = run_onnx(to_onnx(machine, coverage=0.9, precision="float64").content, X)
    ends = model.predict_interval(X, 0.9, method="split")
    assert np.abs(answers["interval"] - ends).max() <= machine.distance + 1e-10


def test_a_linear_part_stays_as_it_is():
    X, y = rows()
    model = PartiallyLinearLSSVMRegressor(RBF(1.5), 10.0, linear_columns=[1]).fit(X, y)
    machine = compress(model, 1e-2)
    new = 3.0 * np.random.default_rng(3).normal(size=(500, 2))
    assert np.abs(machine.predict(new) - model.predict(new)).max() <= machine.distance + 1e-10


def test_what_is_not_one_expansion_is_refused():
    X, y = rows(40)
    with pytest.raises(DeclarationError, match="several expansions, or further terms"):
        compress(StackedLSSVMRegressor(RBF(1.5)).fit(X, y), 0.1)
    with pytest.raises(DeclarationError, match="several expansions, or further terms"):
        compress(MaximalVariationRegressor(RBF(1.5), 1.0, expansion="decoupled", ridge=0.1).fit(X, y), 0.1)
    with pytest.raises(DeclarationError, match="which need no vectors; export it as it is"):
        compress(LSSVMRegressor(Linear(), gamma=1e9).fit(1e3 * X, y), 0.1)
    with pytest.raises(DeclarationError, match="not known to be positive semi-definite"):
        compress(LSSVMRegressor(lambda A, B: A @ B.T).fit(X, y), 0.1)
    with pytest.raises(AttributeError, match="is a regressor"):
        compress(LSSVMRegressor(RBF(1.5)).fit(X, y), 0.1).predict_proba(X)


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan, None])
def test_tol_is_a_positive_number(tol):
    X, y = rows(20)
    with pytest.raises(ValueError, match="tol"):
        compress(LSSVMRegressor(RBF(1.5)).fit(X, y), tol)
