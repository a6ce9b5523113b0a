"""What a fusion returns is what was validated, and it holds only where the gap that was asked for is proved."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import LinearPart, Machine, Substrate, fuse
from substrate.certificates import Row
from substrate.fusion.validated_machine import (
    PlaceInProgram,
    ValidatedMachine,
    _rows_of_another_optimum,
    describe_missed,
    end_of_search,
)
from substrate.kernels import RBF, Componentwise, Linear
from substrate.search.best_first import describe_met
from tests.oracles.joint_machines import rows, sparse_ridge, two_groups, variation_ridge, weights
from tests.oracles.sampled_cases import first


def half_squares(s):
    return 0.5 * cp.sum_squares(s.e)


def sparse(X, y, kernel=None, loss=half_squares):
    s = Substrate(kernel or RBF(1.0), X, y)
    (zeta,) = weights("zeta")
    return Machine(s, minimize=loss(s) + zeta * cp.norm1(s.alpha)), [zeta]


def flat(X, y):
    """A wide kernel: near a weight of zero the solutions of two solvers differ."""
    return sparse(X, y, RBF(4.0))


def huber(X, y):
    return sparse(X, y, loss=lambda s: cp.sum(cp.huber(s.e, 0.3)))


def pinball(X, y):
    return sparse(X, y, loss=lambda s: cp.sum(cp.maximum(0.7 * s.e, -0.3 * s.e)))


def variation(X, y):
    s = Substrate(Componentwise(RBF(1.5)), X, y)
    (rho,) = weights("rho")
    return Machine(s, minimize=half_squares(s) + rho * cp.sum(s.maximal_variation)), [rho]


def tube(X, y, bias=True):
    """Support vector regression, over the weight of w'w."""
    s = Substrate(RBF(1.0), X, y, bias=bias)
    (lam,) = weights("lam")
    return Machine(s, minimize=0.5 * lam * s.squared_norm + cp.sum(cp.pos(cp.abs(s.e) - 0.1))), [lam]


def tube_without_bias(X, y):
    return tube(X, y, bias=False)


def partly_linear(X, y):
    s, w = Substrate(RBF(1.0), X, y, bias=False), cp.Variable(X.shape[1])
    (rho,) = weights("rho")
    part = LinearPart(w)
    cost = 0.5 * cp.sum_squares(y - s.f() - part(X)) + 0.1 * s.squared_norm + rho * cp.norm1(w)
    return Machine(s, minimize=cost, predict=s + part), [rho]


def rising(X, y):
    s = Substrate(Linear() + RBF(2.0), X, y)
    (rho,) = weights("rho")
    rule = s.gradient(X[:3], 0) >= 0.0
    return Machine(s, minimize=half_squares(s) + 0.05 * s.squared_norm + rho * cp.norm1(s.e), subject_to=[rule]), [rho]


def huber_twice(X, y):
    s = Substrate(RBF(1.0), X, y)
    zeta, rho = weights("zeta", "rho")
    cost = cp.sum(cp.huber(s.e, 0.3)) + zeta * cp.norm1(s.alpha) + rho * cp.norm_inf(s.f())
    return Machine(s, minimize=cost), [zeta, rho]


#: Machines with the range of their parameters: None for one parameter, else its box.
ONE = [sparse, flat, huber, pinball, variation, tube, tube_without_bias, partly_linear, rising]
BOXES = {
    two_groups: ((0.0, 20.0), (0.0, 20.0)),
    sparse_ridge: ((0.0, 5.0), (1e-2, 1e2)),
    variation_ridge: ((0.0, 20.0), (1e-3, 10.0)),
    huber_twice: ((0.0, 2.0), (0.0, 2.0)),
}


def fused(build, seed, noise, gap=0.05):
    X, y, V, w = rows(n=12, d=2, validation=10, seed=seed)
    if not noise:  # the best weight is then at or near zero, where optima are not unique
        y, w = (np.sin(P[:, 0]) + 0.3 * P[:, 1] for P in (X, V))
    machine, parameters = build(X, y)
    if build in BOXES:
        ends = dict(zip(parameters, BOXES[build], strict=True))
        return fuse(machine, parameters, validation=(V, w), gap=gap, box=ends, budget=40), build(X, y)[0], V, w
    return fuse(machine, parameters[0], validation=(V, w), gap=gap, budget=60), build(X, y)[0], V, w


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("build", [*ONE, *BOXES], ids=lambda build: build.__name__)
@pytest.mark.parametrize("case", first(1, [(seed, noise) for seed in range(5) for noise in (False, True)]))
@pytest.mark.some_cases(3)
def test_what_is_returned_is_what_was_validated(build, case):
    seed, noise = case
    best, again, V, w = fused(build, seed, noise)
    error = np.mean((w - best.predict(V)) ** 2)
    assert_allclose(best.validation_error, error, rtol=0.0, atol=1e-9 * max(error, 1e-6 * np.var(w)))
    assert best.result.parameters == best.values
    words = str(best.certificate).splitlines()[0]
    proved = np.isfinite(best.lower_bound)
    assert best.lower_bound <= best.validation_error
    assert best.certificate.holds <= (proved and best.gap <= 0.05 * (1.0 + 1e-9)), words
    if not proved:
        assert not best.certificate.holds
        assert "not proved to be the best there is" in words
        assert f"{best.validation_error:.4g}" in words
    if proved and best.certificate.holds:  # another machine, made anew at these values, is the one returned
        other = np.mean((w - again.solve(**best.values).predict(V)) ** 2)
        assert_allclose(other, error, rtol=1e-5, atol=1e-8 * np.var(w))


def test_a_bound_that_is_too_weak_is_on_the_first_line():
    X, y, V, w = rows(n=12, d=2)
    machine, (rho,) = variation(X, y)
    best = fuse(machine, rho, validation=(V, w), gap=1e-9, budget=14)
    words = str(best.certificate).splitlines()[0]
    assert "proved to be within" in words
    assert "DOES NOT HOLD" in words


def test_another_optimum_must_be_one_of_the_program_and_predict_as_its_place_there():
    """What guards the bound: the program of the search is that of the machine, and so are its validation errors."""
    errors = np.linspace(-1.0, 1.0, 9)
    agree = Row(name="knot and machine agree", value=1.0, scale=3.0, tolerance=1e-3, formula="")
    for place, passes in (
        (PlaceInProgram(errors, 1e-9), [True, True]),
        (PlaceInProgram(1.001 * errors, 1e-9), [False, True]),
        (PlaceInProgram(errors, 1e-4), [True, False]),
        (PlaceInProgram(errors, np.nan), [True, False]),
    ):
        assert [row.passes for row in _rows_of_another_optimum(errors, place, agree)] == passes


@pytest.mark.parametrize("gap", [1e-3, 0.25])
def test_the_end_of_a_search_does_not_contradict_its_certificate(gap):
    """Words for a gap that is met stay where the row passes, and only there; other ends stay what they are."""
    machine = ValidatedMachine(
        values={"rho": 1.0}, result=None, errors=np.ones(2), knot=np.ones(2), total=2.0, interrupted=False
    )
    row = Row(name="gap of rho", value=gap, scale=1.0, tolerance=gap, formula="")
    missed, met = replace(row, value=1.08 * gap), describe_met(gap)
    assert end_of_search(met, machine, row) == met
    assert end_of_search(met, machine, missed) == describe_missed(gap)
    beyond = "; interrupted while larger values were bounded"
    assert end_of_search(met + beyond, machine, missed) == describe_missed(gap) + beyond
    for stop in ("the simplices have collapsed to rounding", "the budget of 12 solves is spent"):
        assert end_of_search(stop, machine, missed) == end_of_search(stop, machine, row) == stop
    stopped = replace(machine, interrupted=True)
    assert end_of_search(met, stopped, row) == f"{met}; interrupted while the best machine was solved"
