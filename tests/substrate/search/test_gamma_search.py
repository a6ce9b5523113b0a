"""The search finds the global optimum of the range: never worse than a fine grid, and the bound below all of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sampled_cases import first

from substrate.datasets import motorcycle
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear
from substrate.least_squares.criteria import LeaveOneOut
from substrate.least_squares.evidence import Evidence, GeneralizedCrossValidation
from substrate.least_squares.spectrum import centred_spectrum
from substrate.least_squares.validation import CriterionSum, ValidationCriterion
from substrate.search.gamma_search import _bound_interval, gamma_ends, lambda_range, search_range
from substrate.search.polynomial_minimum import points

RNG = np.random.default_rng(11)
X, Y = motorcycle()
SMALL = RNG.normal(size=(40, 2))
TARGETS = {
    "noisy": np.sin(3.0 * SMALL[:, 0]) + 0.3 * RNG.normal(size=40),
    "noise": RNG.normal(size=40),
    "smooth": np.sin(SMALL[:, 0]),
    "a line": SMALL @ np.array([1.0, -2.0]),
    "an outlier": np.where(np.arange(40) == 7, 1e3, np.cos(SMALL[:, 1])),
}
KERNELS = [RBF(0.1), RBF(1.0), RBF(30.0), Laplacian(1.0), Linear()]


def criteria(kernel, points, y):
    """The criteria on the same data; every third row validates, or is a fold."""
    spectrum = centred_spectrum(Gram.of(kernel, points))
    parts = []
    for k in range(3):
        valid = np.arange(k, len(y), 3)
        train = np.setdiff1d(np.arange(len(y)), valid)
        inner = centred_spectrum(Gram.of(kernel, points[train]))
        parts.append(ValidationCriterion.of(inner, y[train], kernel(points[valid], points[train]), y[valid]))
    return {
        "loo": LeaveOneOut.of(spectrum, y),
        "gcv": GeneralizedCrossValidation.of(spectrum, y),
        "evidence": Evidence.of(spectrum, y),
        "validation": parts[0],
        "folds": CriterionSum.of(parts, [1.0 / 3.0] * 3),
    }, lambda_range([spectrum])


def on_grid(criterion, lambdas, points=5000):
    t = np.linspace(*(np.log(value - criterion.lift) for value in lambdas), points)[None, :]
    return criterion.sample(t).values[0] * criterion.unit**2


def assert_global(criterion, lambdas, gap=1e-4):
    found = search_range(criterion, lambdas, gap)
    grid = on_grid(criterion, lambdas)
    rounding = 1e-12 * grid.max(axis=0)
    assert (found.criterion <= grid.min(axis=0) * (1.0 + 1e-10) + rounding).all()
    assert (found.lower_bound <= grid.min(axis=0) + rounding).all()
    # what is not closed is what rounding of the decomposition leaves open
    assert found.is_closed or (found.slack > 0.5 * gap * found.values).any()
    assert (found.lower_bound <= found.criterion).all()
    low, high = found.gamma_range
    assert (found.gamma >= low * (1.0 - 1e-12)).all()
    assert (found.gamma <= high * (1.0 + 1e-12)).all()
    at = on_grid(criterion, (1.0 / found.gamma[0],) * 2, 1)
    assert_allclose(at[0, 0], found.criterion[0], rtol=1e-9, atol=float(rounding[0]))
    return found


@pytest.mark.parametrize("which", ["loo", "gcv", "evidence", "validation", "folds"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("target", first(2, TARGETS))
@pytest.mark.some_cases(25)
def test_never_worse_than_a_fine_grid_and_the_bound_is_below_all_of_it(which, kernel, target):
    made, lambdas = criteria(kernel, SMALL, TARGETS[target])
    assert_global(made[which], lambdas)


@pytest.mark.parametrize("which", ["loo", "gcv", "evidence", "validation", "folds"])
@pytest.mark.parametrize("gap", [1e-2, 1e-6])
@pytest.mark.some_cases(5)
def test_the_gap_is_reached_on_motorcycle(which, gap):
    made, lambdas = criteria(RBF(10.0), X, Y)
    found = assert_global(made[which], lambdas, gap)
    assert found.criterion[0] - found.lower_bound[0] <= gap * found.criterion[0]
    assert found.intervals <= 40


def test_several_minima_are_told_apart():
    # two clusters on scales of their own, each with its own best gamma
    points = np.concatenate([np.linspace(0.0, 1.0, 30), np.linspace(50.0, 51.0, 30)])[:, None]
    y = np.concatenate([np.sin(40.0 * points[:30, 0]), 1e-2 * RNG.normal(size=30)])
    for kernel in (RBF(0.02), RBF(0.1), 5.0 * Linear() + RBF(0.05)):
        made, lambdas = criteria(kernel, points, y)
        for criterion in made.values():
            assert_global(criterion, lambdas)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_an_optimum_at_an_end_of_the_range(end):
    made, _ = criteria(RBF(10.0), X, Y)
    best = float(search_range(made["loo"], (1e-6, 1e3)).gamma[0])
    gammas = (2.0 * best, 9.0 * best) if end == "lower" else (best / 9.0, best / 2.0)
    found = assert_global(made["loo"], (1.0 / gammas[1], 1.0 / gammas[0]))
    assert_allclose(found.gamma[0], gammas[0] if end == "lower" else gammas[1], rtol=1e-12)
    assert f"best at the {end} end" in dict(found.facts())["gamma searched"]


def test_gamma_does_not_depend_on_the_order_of_rows_or_the_unit_of_y():
    made, lambdas = criteria(RBF(10.0), X, Y)
    gamma = search_range(made["loo"], lambdas).gamma
    order = np.random.default_rng(0).permutation(len(Y))
    permuted = LeaveOneOut.of(centred_spectrum(Gram.of(RBF(10.0), X[order])), Y[order])
    assert_allclose(search_range(permuted, lambdas).gamma, gamma, rtol=1e-7)
    spectrum = centred_spectrum(Gram.of(RBF(10.0), X))
    for factor in (1e-12, 1e12, 1e200, -3.0):
        found = search_range(LeaveOneOut.of(spectrum, factor * Y + 0.0), lambdas)
        assert_allclose(found.gamma, gamma, rtol=1e-7)


def test_several_outputs_are_searched_one_by_one_in_one_go():
    spectrum = centred_spectrum(Gram.of(RBF(1.0), SMALL))
    lambdas = lambda_range([spectrum])
    many = np.column_stack(list(TARGETS.values()))
    for kind in (LeaveOneOut, GeneralizedCrossValidation):
        together = search_range(kind.of(spectrum, many), lambdas)
        for k, y in enumerate(TARGETS.values()):
            alone = search_range(kind.of(spectrum, y), lambdas)
            assert_allclose(together.criterion[k], alone.criterion[0], rtol=1e-9)
            assert_allclose(together.gamma[k], alone.gamma[0], rtol=1e-4)
        pooled = search_range(kind.of(spectrum, many, pooled=True), lambdas)
        assert pooled.gamma.shape == (1,)
        assert pooled.criterion[0] >= together.criterion.mean() * (1.0 - 1e-9)


def test_constant_targets_and_kernels_that_see_nothing_take_the_smoothest_machine():
    spectrum = centred_spectrum(Gram.of(RBF(1.0), SMALL))
    lambdas = lambda_range([spectrum])
    found = search_range(LeaveOneOut.of(spectrum, np.full(40, 0.1)), lambdas)
    assert (found.criterion == 0.0).all()
    assert (found.lower_bound == 0.0).all()
    assert found.is_closed
    assert_allclose(found.gamma, 1.0 / lambdas[1])
    for K in (np.zeros((40, 40)), np.ones((40, 40)), np.eye(40)):
        blind = centred_spectrum(Gram.from_matrix(K))
        searched = lambda_range([blind])
        found = assert_global(LeaveOneOut.of(blind, TARGETS["noise"]), searched)
        assert_allclose(found.gamma, 1.0 / searched[1])


def test_a_kernel_of_rank_one_and_duplicated_rows():
    line = np.outer(SMALL[:, 0], SMALL[:, 0])
    ranked = centred_spectrum(Gram.from_matrix(line))
    assert_global(LeaveOneOut.of(ranked, TARGETS["noisy"]), lambda_range([ranked]))
    twice = centred_spectrum(Gram.of(RBF(1.0), np.repeat(SMALL[:20], 2, axis=0)))
    assert_global(LeaveOneOut.of(twice, TARGETS["noisy"]), lambda_range([twice]))


def test_an_indefinite_matrix_is_searched_above_its_smallest_eigenvalue():
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(40, 40)))[0]
    K = (Q * np.linspace(-3.0, 10.0, 40)) @ Q.T
    spectrum = centred_spectrum(Gram.from_matrix((K + K.T) / 2.0))
    lambdas = lambda_range([spectrum])
    assert lambdas[0] >= 2.0 * spectrum.lift > 0.0
    assert_global(LeaveOneOut.of(spectrum, TARGETS["noisy"]), lambdas)
    with pytest.raises(DeclarationError, match="not positive definite above gamma"):
        lambda_range([spectrum], (0.1, 10.0))


def test_an_effort_cut_short_says_so():
    made, lambdas = criteria(RBF(10.0), X, Y)
    found = search_range(made["validation"], lambdas, 1e-15, most_intervals=6)
    assert found.intervals <= 6
    assert not found.is_closed
    assert (found.lower_bound <= on_grid(made["validation"], lambdas).min()).all()


@pytest.mark.parametrize(
    "gammas", ["wide", 3.0, (1.0,), (1.0, 2.0, 3.0), (0.0, 1.0), (1.0, np.inf), (2.0, 1.0), (1, 1)]
)
def test_bad_ranges_are_refused(gammas):
    with pytest.raises(DeclarationError, match="range of gamma"):
        gamma_ends(gammas)


def test_an_empty_validation_set_and_a_bad_gap_are_refused():
    made, lambdas = criteria(RBF(10.0), X, Y)
    spectrum = made["loo"].spectrum
    with pytest.raises(DataError, match="validation set is empty"):
        ValidationCriterion.of(spectrum, Y, np.empty((0, len(Y))), np.empty(0))
    with pytest.raises(DeclarationError, match="gap"):
        search_range(made["loo"], lambdas, 0.0)


@pytest.mark.parametrize("which", ["loo", "gcv", "evidence", "validation", "folds"])
def test_a_bound_is_below_the_interpolant_by_all_of_its_error(which):
    """Also where the interval is so long that the error is no longer rounding."""
    made, lambdas = criteria(RBF(1.0), SMALL, TARGETS["noisy"])
    criterion = made[which]
    low, high = (float(np.log(value - criterion.lift)) for value in lambdas)
    for start, stop in ((low, high), (low, 0.5 * (low + high)), (high - 1.0, high)):
        half = 0.5 * (stop - start)
        samples = criterion.sample((0.5 * (start + stop) + half * points())[None, :])
        piece = _bound_interval(criterion, half, samples, 0)
        assert (piece.error > 0.0).all()
        assert (piece.below <= np.maximum(piece.lower - piece.error, 0.0) + 1e-15 * piece.lower).all()
