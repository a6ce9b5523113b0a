"""The certificate speaks of the user's y, one output at a time: its spread, and a bound for each output.

Spreads are recomputed here with sums that round once; the distance of every output from its exact optimum comes from
ball arithmetic, by :mod:`exact_saddle`.
"""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from every_model import CLASSIFIERS, MULTI_OUTPUT, WEIGHTED, make_data, make_estimator, over_ways_and_uses, quick_kernel
from exact_saddle import exact_distance
from sklearn.base import is_classifier

from problems import LSSVMRegressor, load
from substrate.kernels import RBF, Linear, Polynomial


def exact_spread(y, weights):
    """The weighted standard deviation in rational numbers, rounded once."""
    y, v = ([Fraction(float(one)) for one in values] for values in (y, weights))
    mass = sum(v)
    mean = sum(a * b for a, b in zip(v, y, strict=True)) / mass
    square = sum(a * (b - mean) ** 2 for a, b in zip(v, y, strict=True)) / mass
    return math.sqrt(square) if square < 1e300 else math.inf


def weights_of_machine(model, X, y, weights):
    """The weights of the fitted machine: of its rows only, and times those that it found itself."""
    n = weights.size
    if getattr(model, "robust", None) is not None:
        return weights * model.weights_
    some = type(model).__name__.startswith(("Pruned", "Fused"))  # pruned, or held out to choose a parameter
    rows = getattr(model, "training_rows_", model.support_) if some else None
    kept = np.zeros(n)
    kept[np.arange(n) if rows is None else rows] = 1.0
    return weights * kept


def codes_of(model, y):
    """One column of targets per machine, zero where a row is in none: the user's y, or the sides of the classes."""
    if not is_classifier(model):
        return y[:, None] if y.ndim == 1 else y
    return model.code_book_[np.searchsorted(model.classes_, y)]


def check_spreads(model, X, y, weights):
    v = weights_of_machine(model, X, y, weights)
    codes = codes_of(model, y)
    if type(model).__name__ == "ALSSVMClassifier":  # every machine has separate rows
        kept = np.zeros_like(codes)
        kept[model.support_] = np.reshape(model.support_values_, (model.support_.size, -1)) != 0.0
        codes = codes * kept
    expected = []
    for column in codes.T:
        here = (v > 0.0) & ((column != 0.0) if is_classifier(model) else True)
        expected.append(exact_spread(column[here], v[here]))
    found = model.certificate_.spreads
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert model.certificate_.spread in found


#: Targets in other units and with offsets; an offset of 1e6 leaves ten digits of the spread.
UNITS = {"as it is": (1.0, 0.0), "offset": (1.0, 1e6), "tiny": (1e-9, 0.0), "huge": (1e9, -4e9)}


@over_ways_and_uses
@pytest.mark.parametrize("units", UNITS)
def test_the_spread_is_that_of_the_users_y(estimator, choice, units):
    X, y = make_data(estimator, n=18)
    weights = np.ones(y.size)
    if estimator in WEIGHTED:
        weights = np.random.default_rng(1).uniform(0.2, 3.0, size=y.size)
    if not is_classifier(estimator()):
        factor, offset = UNITS[units]
        y = factor * y + offset
    given = {"sample_weight": weights} if estimator in WEIGHTED else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # units that a solver cannot cope with; the spread is stated all the same
        model = make_estimator(estimator, **({"kernel": quick_kernel(estimator)} | choice)).fit(X, y, **given)
    check_spreads(model, X, y, weights)


def wild_outputs(seed):
    """Outputs in units that differ by up to twenty orders of magnitude, a constant one among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 13))
    X = rng.normal(size=(n, int(rng.integers(1, 3)))) * 10.0 ** rng.choice([-3.0, 0.0, 0.0, 4.0])
    columns = [
        10.0 ** rng.integers(-10, 10) * (np.sin(X[:, 0]) + rng.choice([0.0, 1e3])),
        10.0 ** rng.integers(-10, 10) * rng.normal(size=n),
        np.full(n, rng.normal()),
        rng.normal(size=n),
    ]
    Y = np.stack([columns[k] for k in rng.permutation(4)[: int(rng.integers(2, 5))]], axis=1)
    unit = float(X.std())
    kernels = [RBF(unit), Linear(), Polynomial(2), RBF(10.0 * unit)]
    gammas = [float(10.0 ** rng.uniform(-3, 9)) for _ in range(Y.shape[1])]
    weights = None if rng.random() < 0.5 else 10.0 ** rng.uniform(-6, 3, size=n)
    solver = str(rng.choice(["auto", "auto", "cg", "cg"]))
    return LSSVMRegressor(kernels[int(rng.integers(4))], gammas, solver=solver), X, Y, weights


def test_every_output_is_within_its_own_bound(tmp_path):
    for seed in range(15):
        model, X, Y, weights = wild_outputs(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, Y, weights)
            again = model.certify(X, Y, weights)
        proof = model.prove(X, Y, weights)
        v = np.ones(Y.shape[0]) if weights is None else weights
        fitted = model.predict(X)
        errors = [
            exact_distance(model.kernel_, X, y, gamma, v, f)
            for y, gamma, f in zip(Y.T, model.gamma, fitted.T, strict=True)
        ]
        model.save(tmp_path / "model")
        stored = load(tmp_path / "model").certificate_
        assert str(stored) == str(model.certificate_)
        for report in (model.certificate_, again, stored):
            assert all(error <= bound + 1e-290 for error, bound in zip(errors, report.accuracies, strict=True)), (
                seed,
                errors,
            )
            assert report.accuracy == max(report.accuracies)
            assert all(f"accuracy, output {k}" in str(report) for k in range(1, Y.shape[1] + 1))
            np.testing.assert_allclose(report.spreads, [exact_spread(y, v) for y in Y.T], rtol=1e-6, atol=1e-300)
            # the verdict is about all outputs, each against its spread
            allowed = [
                max(1e-6 * spread, y.size * np.finfo(float).eps * np.abs(y).max())
                for spread, y in zip(report.spreads, Y.T, strict=True)
            ]
            within = [bound <= 1.000001 * most for bound, most in zip(report.accuracies, allowed, strict=True)]
            assert report.answer.passes == all(within), (seed, str(report))
        # the oracle is rounded to a thousandth, and a proof leaves no room for it
        assert all(error <= 1.002 * one.accuracy + 1e-290 for error, one in zip(errors, proof.each, strict=True))
        assert proof.accuracy == max(one.accuracy for one in proof.each)
        assert proof.proved == all(one.proved for one in proof.each)


@pytest.mark.parametrize("estimator", MULTI_OUTPUT)
def test_an_output_among_others_is_certified_as_if_it_were_alone(estimator):
    X, y = make_data(estimator, n=18)
    Y = np.stack([y, 1e6 * y[::-1], np.full(y.size, 2.5), 1e-6 * y**2], axis=1)
    together = make_estimator(estimator, kernel=quick_kernel(estimator)).fit(X, Y).certificate_
    assert len(together.accuracies) == Y.shape[1]
    assert together.accuracy == max(together.accuracies)
    for k, column in enumerate(Y.T):
        alone = make_estimator(estimator, kernel=quick_kernel(estimator)).fit(X, column).certificate_
        floor = 1e-9 * np.abs(column).max()
        assert together.spreads[k] == pytest.approx(alone.spread, rel=1e-6, abs=floor)
        assert together.accuracies[k] == pytest.approx(alone.accuracy, abs=1e-6 * alone.spread + floor)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_every_machine_of_several_classes_has_a_bound(estimator):
    X, _ = make_data(estimator, n=24)
    labels = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.25, 0.6]))
    model = make_estimator(estimator, kernel=quick_kernel(estimator)).fit(X, labels)
    assert len(model.certificate_.accuracies) == model.code_book_.shape[1]
    check_spreads(model, X, labels, np.ones(labels.size))
