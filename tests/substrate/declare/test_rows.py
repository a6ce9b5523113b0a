"""Machines whose losses are sums over rows: what is read from cvxpy, the bound, and the solution against a solver's."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import Machine, Substrate
from substrate.declare.row_reader import read_row_losses
from substrate.errors import DeclarationError, SolverError
from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from substrate.numbers import Double

mpmath = pytest.importorskip("mpmath")

N = 20
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * RNG.standard_normal(N)
LABELS = np.where(np.median(Y) < Y, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(0.5 * Y)).astype(float)
WEIGHTS = RNG.uniform(0.5, 2.0, N)


LOSSES = {
    "squared": lambda f: cp.sum_squares(Y - f),
    "weighted squares": lambda f: WEIGHTS @ cp.square(Y - f),
    "absolute": lambda f: cp.norm1(Y - f),
    "weighted": lambda f: cp.sum(cp.multiply(WEIGHTS, cp.abs(Y - f))),
    "pinball": lambda f: cp.sum(cp.maximum(0.9 * (Y - f), -0.1 * (Y - f))),
    "tube": lambda f: cp.sum(cp.pos(cp.abs(Y - f) - 0.1)),
    "tube as a maximum": lambda f: cp.sum(cp.maximum(cp.abs(Y - f) - 0.1, 0.0)) / 2.0,
    "squared tube": lambda f: cp.sum_squares(cp.pos(cp.abs(Y - f) - 0.1)),
    "huber": lambda f: cp.sum(cp.huber(Y - f, 0.3)),
    "hinge": lambda f: cp.sum(cp.pos(1.0 - cp.multiply(LABELS, f))),
    "squared hinge": lambda f: cp.sum_squares(cp.pos(1.0 - cp.multiply(LABELS, f))),
    "logistic": lambda f: cp.sum(cp.logistic(-cp.multiply(LABELS, f))),
    "Poisson": lambda f: cp.sum(cp.exp(f) - cp.multiply(COUNTS, f)),
    "elastic": lambda f: cp.sum_squares(Y - f) + 0.3 * cp.norm1(Y - f),
    "some rows only": lambda f: cp.norm1((Y - f)[:12]) + cp.sum_squares((Y - f)[12:]),
    "square of three pieces": lambda f: cp.sum(cp.square(cp.maximum(f - Y, 2.0 * (Y - f), 0.1))),
    "tilted": lambda f: cp.sum_squares(Y - f) + WEIGHTS @ f,
}
OTHERS = {
    "differences": lambda f: cp.norm1(cp.diff(f)),
    "matrix": lambda f: cp.sum_squares(np.ones((3, N)) @ f),
    "root": lambda f: cp.norm(Y - f),
    "twice": lambda f: cp.norm1(cp.hstack([f[:3], f[:3]]) - 1.0),
}
over_losses = pytest.mark.parametrize("name", LOSSES)


def read(loss):
    f, norm = cp.Variable(N), cp.Variable()
    objective = 0.5 * norm + 3.0 * loss(f)
    return objective, f, norm, read_row_losses(objective, f, norm)


def machine_of(name, bias=True, weight=5.0):
    s = Substrate(RBF(1.0), X, Y, bias=bias)
    return Machine(s, minimize=0.5 * s.squared_norm + weight * LOSSES[name](s.f()))


def test_a_breakpoint_that_cancels_has_the_rounding_of_its_terms():
    """The place y of max(0, max(0, f + 1e8) - 1e8 - y) is a difference of numbers of that size."""
    _, losses, _ = read(lambda f: cp.sum(cp.pos(cp.pos(f + 1e8) - (1e8 + Y))))[-1]
    assert_allclose(losses.places.max(axis=1), Y, atol=1e-7)
    assert (losses.width >= 1e8 * np.finfo(float).eps).all()


@over_losses
def test_what_is_read_has_the_values_and_slopes_of_the_expression(name):
    objective, f, norm, (p, losses, constant) = read(LOSSES[name])
    assert p == 0.5
    norm.value = 2.0
    rng = np.random.default_rng(0)
    for size in (0.1, 1.0, 4.0):
        f.value = size * rng.standard_normal(N)
        assert_allclose(1.0 + constant + losses.values(f.value).sum(), objective.value, rtol=1e-12)
        step = 1e-6 * rng.standard_normal(N)
        change = losses.values(f.value + step) - losses.values(f.value - step)
        slopes = 0.5 * (losses.slopes(f.value - step) + losses.slopes(f.value + step))
        places = getattr(losses, "places", np.full((N, 1), np.inf))
        near = np.abs(places - f.value[:, None]).min(axis=1) < 1e-4
        assert_allclose(change[~near], 2.0 * (slopes * step)[~near], rtol=1e-4, atol=1e-11)


@pytest.mark.parametrize("name", OTHERS)
def test_another_expression_is_not_read(name):
    assert read(OTHERS[name])[3] is None


@over_losses
def test_the_nearest_point_solves_its_equation(name):
    losses = read(LOSSES[name])[3].losses
    if not losses.has_kinks:
        return
    at = np.random.default_rng(1).standard_normal(N)
    v, g, _ = losses.nearest(at, 0.05)
    assert_allclose(v + 0.05 * g, at, rtol=0.0, atol=1e-12)
    room = 1e-10 * (1.0 + np.abs(g))
    assert (losses.slopes(v, right=False) - room <= g).all()
    assert (g <= losses.slopes(v) + room).all()


def exact_loss(losses, i, x):
    """The loss of a row in 60 digits, less a constant."""
    mp = mpmath.mp
    if not hasattr(losses, "places"):
        inner = mp.mpf(float(losses.factor[i])) * x + mp.mpf(float(losses.constant[i]))
        value = mp.exp(inner) if losses.limits[1] > 1.0 else mp.log1p(mp.exp(inner))
        return mp.mpf(float(losses.weight[i])) * value + mp.mpf(float(losses.slope[i])) * x
    places = [mp.mpf(float(place)) for place in losses.places[i]]
    total, at, slope = mp.mpf(0), places[0], mp.mpf(float(losses.below[i, 0]))
    if x <= at:
        return slope * (x - at) + mp.mpf(float(losses.curvature[i, 0])) * (x - at) ** 2 / 2
    for k, above in enumerate(losses.above[i]):
        end = min(x, places[k + 1]) if k + 1 < len(places) else x
        step = end - places[k]
        total += mp.mpf(float(above)) * step + mp.mpf(float(losses.curvature[i, k + 1])) * step**2 / 2
        if end == x:
            break
    return total


@over_losses
def test_the_gap_of_a_row_is_bounded_in_sixty_digits(name):
    """l(f) + l*(g) - f g by a search for the conjugate, at points near and far from those that g belongs to."""
    losses = read(LOSSES[name])[3].losses
    rng = np.random.default_rng(2)
    g = losses.limit_slopes(losses.slopes(rng.standard_normal(N)))
    low, high, has_low, has_high = losses.enclose_values(Double(g))
    middle = np.where(has_low, low.midpoint, np.where(has_high, high.midpoint, 0.0))
    with mpmath.workdps(60):
        for shift in (0.0, 1e-13, -1e-7, 0.2):
            f = middle + shift * rng.standard_normal(N)
            radius = 1e-15 * np.abs(f)
            bounds = losses.fenchel_young(Double(f, radius), Double(g)).upper_ends().midpoint
            for i in range(0, N, 3):
                h, slope = mpmath.mpf(middle[i]), mpmath.mpf(g[i])
                # g is a slope at h up to the rounding of h, so that this is the gap up to its square
                for moved in (f[i] - radius[i], f[i] + radius[i]):
                    x = mpmath.mpf(moved)
                    gap = exact_loss(losses, i, x) - exact_loss(losses, i, h) - slope * (x - h)
                    assert gap <= bounds[i] + 1e-28 * (1 + abs(g[i]))


@over_losses
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.covering
def test_the_solution_is_that_of_a_solver_and_holds(name, bias):
    machine = machine_of(name, bias)
    result = machine.solve()
    assert [attempt.solver for attempt in result.solver_record.attempts] == ["ROWS"]
    assert result.certificate.holds, str(result.certificate)
    peer = machine.solve("CLARABEL")
    assert_allclose(result.objective, peer.objective, rtol=1e-7)
    difference = result.f - peer.f
    if "about their mean" in result.certificate.promise:
        difference = difference - difference.mean()
    distance = np.sqrt(np.mean(difference**2)) if name != "weighted squares" else 0.0
    assert distance <= result.certificate.accuracy + peer.certificate.accuracy
    assert_allclose(result.f, result.predict(X), atol=1e-10)


LARGEST = {
    "norm": lambda f: cp.norm_inf(Y - f),
    "maximum": lambda f: cp.max(cp.abs(2.0 * f - Y)) + 1.0,
    "weighted": lambda f: cp.norm_inf(cp.multiply(WEIGHTS, Y - f)),
}


@pytest.mark.parametrize("name", LARGEST)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_the_largest_error_is_a_machine_too(name, bias):
    s, C = Substrate(RBF(1.0), X, Y, bias=bias), cp.Parameter(nonneg=True, name="C")
    machine = Machine(s, minimize=0.5 * s.squared_norm + C * LARGEST[name](s.f()))
    for weight in (0.5, 20.0):
        result, peer = machine.solve(C=weight), machine.solve("SCS", C=weight)
        assert result.certificate.holds, str(result.certificate)
        assert_allclose(result.objective, peer.objective, rtol=1e-5)


def test_a_time_limit_that_is_over_ends_it():
    machine = machine_of("tube")
    with pytest.raises(SolverError, match=r"ROWS: time limit 1e-09 s.*allow a longer time_limit"):
        machine.solve(time_limit=1e-9)
    with pytest.raises(DeclarationError, match="time_limit"):
        machine.solve(time_limit=-1.0)
    assert machine.solve(time_limit=60.0).certificate.holds


def random_machine(seed):
    """A machine of random rows, kernel, loss, weight and unit, with equal rows and offsets among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 30))
    rows = rng.standard_normal((n, int(rng.integers(1, 4)))) * 10 ** rng.uniform(-1, 1)
    if rng.random() < 0.2:
        rows[n // 2 :] = rows[: n - n // 2]
    y = np.sin(rows[:, 0]) + 0.3 * rng.standard_normal(n)
    labels, counts = np.where(np.median(y) < y, 1.0, -1.0), rng.poisson(2.0, n).astype(float)
    unit = 10 ** rng.uniform(-4, 6) if rng.random() < 0.4 else 1.0
    y = unit * (y + (rng.random() < 0.3) * 10 ** rng.uniform(0, 4))
    kernels = [RBF(10 ** rng.uniform(-1, 1)), Linear(), Polynomial(2), Matern(1.0, 1.5), Laplacian(1.0)]
    kind, width = rng.integers(10), 0.1 * np.ptp(y)
    target = labels if kind in (5, 6, 7) else counts if kind == 8 else y
    s = Substrate(kernels[rng.integers(5)], rows, target, bias=bool(rng.random() < 0.8))
    f = s.f()
    e = target - f
    loss = [
        lambda: cp.sum_squares(e),
        lambda: cp.norm1(e),
        lambda: cp.sum(cp.maximum(0.9 * e, -0.1 * e)),
        lambda: cp.sum(cp.pos(cp.abs(e) - width)),
        lambda: cp.sum(cp.huber(e, 2.0 * width)),
        lambda: cp.sum(cp.pos(1.0 - cp.multiply(labels, f))),
        lambda: cp.sum_squares(cp.pos(1.0 - cp.multiply(labels, f))),
        lambda: cp.sum(cp.logistic(-cp.multiply(labels, f))),
        lambda: cp.sum(cp.exp(f) - cp.multiply(counts, f)),
        lambda: cp.norm_inf(e),
    ][kind]()
    return Machine(s, minimize=0.5 * s.squared_norm + 10 ** rng.uniform(-3, 3) * loss)


@pytest.mark.parametrize("seed", range(8))
def test_random_machines_hold_and_no_solver_contradicts_them(seed):
    machine = random_machine(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = machine.solve()
        peer = machine.solve("CLARABEL")
    assert result.certificate.holds, str(result.certificate)
    if not peer.certificate.holds:
        return
    difference = result.f - peer.f
    if any("about their mean" in r.certificate.promise for r in (result, peer)):
        difference = difference - difference.mean()
    assert np.sqrt(np.mean(difference**2)) <= result.certificate.accuracy + peer.certificate.accuracy
    size = float(np.abs(machine.substrates[0].y).max())  # the solver ends at its own share of it
    assert_allclose(result.objective, peer.objective, rtol=1e-4, atol=1e-7 * size)


@pytest.mark.parametrize("name", ["squared", "absolute", "tube", "hinge", "logistic"])
@pytest.mark.parametrize("solver", ["ROWS", "CLARABEL"])
def test_the_answer_is_proved_in_balls_by_the_formula_of_the_certificate(name, solver):
    pytest.importorskip("flint")
    result = machine_of(name).solve(solver)
    proof = result.prove()
    assert proof.proved, str(proof)
    again = machine_of(name).solve()
    distance = result.f - again.f
    if "about their mean" in proof.about:
        distance = distance - distance.mean()
    assert np.sqrt(np.mean(distance**2)) <= proof.accuracy + again.certificate.accuracy
    if solver == "ROWS":  # the same formula, without the rounding of double precision
        assert proof.accuracy <= 1.01 * result.certificate.accuracy + 1e-300


def test_other_machines_are_not_proved_and_say_why():
    s = Substrate(RBF(1.0), X, Y)
    cost = 0.5 * s.squared_norm + cp.sum_squares(s.e)
    with pytest.raises(DeclarationError, match=r"a loss of every row of one substrate.*without constraints"):
        Machine(s, minimize=cost, subject_to=[s.f()[0] >= 0.0]).solve().prove()
