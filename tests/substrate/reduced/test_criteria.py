"""Criteria on a reduced basis: the numbers of refits, under their ceilings, and equal to the dense ones on all rows."""

import naive_reduced_basis as naive
import numpy as np
import pytest
from numpy.polynomial import chebyshev
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.criteria import LeaveOneOut
from substrate.least_squares.evidence import Evidence, GeneralizedCrossValidation
from substrate.least_squares.spectrum import centred_spectrum
from substrate.least_squares.validation import CriterionSum
from substrate.reduced.criteria import (
    ReducedEvidence,
    ReducedFold,
    ReducedGcv,
    SpectrumRadius,
    criterion_of_sums,
    sizes_of_rows,
)
from substrate.reduced.features import basis_features
from substrate.reduced.left_out import ReducedLeaveOneOut
from substrate.reduced.moments import accumulate, fold_labels, origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import Penalty
from substrate.reduced.spectrum import reduced_spectrum
from substrate.search.gamma_search import lambda_range, search_range
from substrate.search.polynomial_minimum import coefficients, interpolation_error, points

RNG = np.random.default_rng(5)
X = RNG.normal(size=(50, 2))
Y = (np.sin(2.0 * X[:, 0]) + 0.2 * RNG.normal(size=50))[:, None]
BASIS = X[:12]
KERNEL = RBF(1.0)
FOLDS = [np.arange(k, 50, 5) for k in range(5)]


def criteria(kernel=KERNEL, Y=Y, basis=BASIS, pooled=False):
    rows, K = KernelRows.of(kernel, X, basis, Y), kernel(basis)
    splits = [(np.setdiff1d(np.arange(50), fold), fold) for fold in FOLDS]
    origin = origin_of(K, rows.target_summary(), 1.0)
    statistic = accumulate(rows, basis_features(K), origin, 1e-6, K, fold_labels(splits, 50))
    spectrum = reduced_spectrum(statistic)
    rounding = rows, Penalty.of(rows.values, K, spectrum.features), sizes_of_rows(rows)
    radius = SpectrumRadius.of(spectrum, *rounding)
    others = [reduced_spectrum(statistic, statistic.total - fold) for fold in statistic.folds]
    parts = [
        ReducedFold.of(other, fold, SpectrumRadius.of(other, *rounding), pooled=pooled)
        for other, fold in zip(others, statistic.folds, strict=True)
    ]
    return {
        "loo": ReducedLeaveOneOut.of_rows(spectrum, rows, radius, pooled=pooled),
        "gcv": criterion_of_sums(ReducedGcv, spectrum, radius, pooled),
        "evidence": criterion_of_sums(ReducedEvidence, spectrum, radius, pooled),
        "folds": CriterionSum.of(parts, [1.0 / len(parts)] * len(parts)),
    }


def refitted(name, lam, kernel=KERNEL, y=Y[:, 0], basis=BASIS):
    """The criterion by fits of stacked least squares."""
    K, rows = kernel(basis), kernel(X, basis)
    if name == "loo":
        return np.mean(naive.explicit_leave_one_out(K, rows, y, 1.0 / lam) ** 2)
    if name == "gcv":
        errors = y - naive.fit(K, rows, y, 1.0 / lam)
        trace = sum(naive.fit(K, rows, unit, 1.0 / lam)[i] for i, unit in enumerate(np.eye(50)))
        return np.mean(errors**2) / (1.0 - trace / 50.0) ** 2
    values = []
    for fold in FOLDS:
        rest = np.setdiff1d(np.arange(50), fold)
        u, b, _ = naive.weights(K, rows[rest], y[rest], 1.0 / lam)
        values.append(np.mean((y[fold] - naive.root_features(K, rows[fold]) @ u - b) ** 2))
    return np.mean(values)


@pytest.mark.parametrize("name", ["loo", "gcv", "folds"])
@pytest.mark.parametrize("lam", [1e-4, 0.1, 30.0])
def test_criteria_are_those_of_refits(name, lam):
    value = criteria()[name].sample(np.array([[np.log(lam)]])).values[0, 0, 0]
    assert_allclose(value, refitted(name, lam), rtol=1e-9)


@pytest.mark.parametrize("name", ["loo", "gcv", "evidence", "folds"])
def test_outputs_are_apart_or_pooled(name):
    both = np.column_stack([Y[:, 0], 3.0 * Y[:, 0] + X[:, 1]])
    t = np.log([[0.1, 1.0]])
    apart = criteria(Y=both)[name].sample(t).values
    for k in range(2):
        assert_allclose(apart[..., k], criteria(Y=both[:, [k]])[name].sample(t).values[..., 0], rtol=1e-10)
    pooled = criteria(Y=both, pooled=True)[name].sample(t).values
    assert_allclose(pooled[..., 0], apart.mean(axis=-1), rtol=1e-10)


@pytest.mark.parametrize("half", [0.5, 3.0])
@pytest.mark.parametrize("centre", [-12.0, -3.0, 2.0])
@pytest.mark.parametrize("name", ["loo", "gcv", "evidence", "folds"])
@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()], ids=repr)
@pytest.mark.some_cases(24)
def test_the_error_of_interpolation_is_below_its_bound(half, centre, name, kernel):
    criterion = criteria(kernel)[name]
    samples = criterion.sample((centre + half * points())[None, :])
    x = np.linspace(-1.0, 1.0, 201)
    exact = criterion.sample((centre + half * x)[None, :]).values[0, :, 0]
    seen = np.abs(chebyshev.chebval(x, coefficients(samples.values[0, :, 0])) - exact).max()
    bound = interpolation_error(half, samples.ceilings[0].max(axis=0), criterion.cone, criterion.growth)[0]
    assert seen <= bound + 1e-11 * np.abs(exact).max()
    assert exact.max() <= samples.ceilings[0, :, 0].max() * (1.0 + 1e-10)


@pytest.mark.parametrize("name", ["loo", "gcv", "evidence", "folds"])
def test_the_search_finds_the_best_of_a_fine_grid_and_its_bound_holds(name):
    criterion = criteria()[name]
    lambdas = (1e-6, 1e3)
    found = search_range(criterion, lambdas)
    grid = np.linspace(np.log(lambdas[0]), np.log(lambdas[1]), 4000)[None, :]
    values = criterion.sample(grid).values[0, :, 0]
    assert found.is_closed
    assert found.lower_bound[0] <= values.min() * (1.0 + 1e-12)
    assert found.criterion[0] <= values.min() * (1.0 + 1e-9)
    assert found.criterion[0] - found.lower_bound[0] <= 1e-4 * found.criterion[0]


@pytest.mark.parametrize(
    ("dense", "name"), [(LeaveOneOut, "loo"), (GeneralizedCrossValidation, "gcv"), (Evidence, "evidence")]
)
def test_the_whole_basis_is_the_dense_criterion(dense, name):
    t = np.log([[1e-2, 0.1, 1.0, 100.0]])
    spectrum = centred_spectrum(Gram.of(RBF(1.0), X))
    expected = dense.of(spectrum, Y).sample(t).values
    reduced = criteria(basis=X)[name]
    assert_allclose(reduced.sample(t).values, expected, rtol=1e-9)
    low, high = lambda_range([reduced.spectrum])
    below, above = lambda_range([spectrum])
    assert_allclose(high, above, rtol=1e-6)
    assert low == pytest.approx(below, rel=0.5)
