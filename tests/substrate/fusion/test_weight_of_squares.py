"""``fuse`` over the weight of w'w beside a linear loss: the machine divided by it, a path in one over the weight."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sampled_cases import first

from substrate import Machine, Substrate, fuse
from substrate.kernels import RBF


def case(n=14, n_val=10, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, 2)), rng.uniform(-2.0, 2.0, size=(n_val, 2))
    y, w = (np.sin(P[:, 0]) + 0.3 * P[:, 1] ** 2 + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    return X, y, V, w


LOSSES = {
    "tube": lambda e: cp.sum(cp.pos(cp.abs(e) - 0.1)),
    "pinball": lambda e: cp.sum(cp.maximum(0.7 * e, -0.3 * e)),
    "hinge": lambda e: cp.sum(cp.pos(e)),
}


def substrate(X, y, loss, bias):
    if loss == "hinge":
        return Substrate(RBF(1.0), X, np.where(y > np.median(y), 1.0, -1.0), task="classification", bias=bias)
    return Substrate(RBF(1.0), X, y, bias=bias)


@pytest.mark.parametrize("loss", first(1, LOSSES))
def test_no_other_weight_validates_better(loss):
    """Without a bias the norm determines the predictions, so the choice has a proof."""
    X, y, V, w = case()
    s, lam = substrate(X, y, loss, bias=False), cp.Parameter(nonneg=True, name="lam")
    known = np.where(w > np.median(y), 1.0, -1.0) if loss == "hinge" else w
    machine = Machine(s, minimize=0.5 * lam * s.squared_norm + LOSSES[loss](s.e))
    best = fuse(machine, over=lam, validation=(V, known), gap=1e-2)
    assert best.certificate.holds, str(best.certificate)
    assert_allclose(best.validation_error, np.mean((known - machine.solve(lam=best.lam).predict(V)) ** 2), rtol=1e-5)
    grid = [np.mean((known - machine.solve(lam=at).predict(V)) ** 2) for at in np.geomspace(1e-3, 1e2, 8)]
    assert best.lower_bound <= min(grid) * (1.0 + 1e-6)
    assert best.validation_error <= min(grid) * (1.0 + 1e-2)
    assert best.gap <= 1e-2
    assert best.path.coverage[1] == np.inf
    assert best.path.coverage[0] < best.lam
    facts = dict(best.certificate.record)
    assert facts["fused over"].startswith("1/lam from 0")
    assert f"lam = {best.lam:.6g}" in facts["chosen"]


def test_the_path_is_in_the_weight_and_ascends():
    X, y, V, w = case(n=8)
    s, lam = substrate(X, y, "tube", bias=False), cp.Parameter(nonneg=True, name="lam")
    best = fuse(Machine(s, minimize=lam * s.squared_norm + LOSSES["tube"](s.e)), over=lam, validation=(V, w), gap=0.1)
    values, errors = best.path.values, best.path.validation_errors
    assert (np.diff(values[:-1]) > 0.0).all()
    assert values[-1] == np.inf
    assert values[int(np.argmin(errors[:-1]))] == best.lam
    assert_allclose(errors[:-1].min(), best.validation_error, rtol=1e-6)
    assert len(best.path.knots[0]) == values.size
    assert best.solves >= values.size
    pytest.importorskip("matplotlib").use("Agg")
    assert np.isfinite(best.plot().get_lines()[0].get_xdata()).all()


def test_it_is_the_weight_of_the_loss_turned_round():
    """lambda/2 w'w + loss and 1/2 w'w + rho loss are one family: the same best error at lambda = 1/rho."""
    X, y, V, w = case(n=8)
    s = substrate(X, y, "pinball", bias=False)
    lam, rho = cp.Parameter(nonneg=True, name="lam"), cp.Parameter(nonneg=True, name="rho")
    loss = LOSSES["pinball"](s.e)
    squares = fuse(Machine(s, minimize=0.5 * lam * s.squared_norm + loss), over=lam, validation=(V, w), gap=1e-2)
    other = fuse(Machine(s, minimize=0.5 * s.squared_norm + rho * loss), over=rho, validation=(V, w), gap=1e-2)
    assert squares.certificate.holds
    assert other.certificate.holds
    assert_allclose(squares.validation_error, other.validation_error, rtol=1e-2)
    assert squares.lower_bound <= other.validation_error * (1.0 + 1e-9)
    assert other.lower_bound <= squares.validation_error * (1.0 + 1e-9)


def test_up_to_limits_one_over_the_weight():
    X, y, V, w = case(n=8)
    s, lam = substrate(X, y, "tube", bias=False), cp.Parameter(nonneg=True, name="lam")
    machine = Machine(s, minimize=0.5 * lam * s.squared_norm + LOSSES["tube"](s.e))
    best = fuse(machine, over=lam, validation=(V, w), gap=0.1, up_to=2.0)
    assert best.lam >= 0.5
    assert best.path.coverage == (0.5, np.inf)


def test_an_end_of_a_range_is_told_in_the_weight():
    X, y, V, _ = case(n=8)
    s, lam = substrate(X, y, "tube", bias=False), cp.Parameter(nonneg=True, name="lam")
    machine = Machine(s, minimize=0.5 * lam * s.squared_norm + LOSSES["tube"](s.e))
    best = fuse(machine, over=lam, validation=(V, machine.solve(lam=1e-2).predict(V)), gap=0.1, up_to=2.0)
    assert best.lam == 0.5
    assert dict(best.certificate.record)["choice"] == "at lam = 0.5, the lower end of its range; box= looks further"


def test_with_a_bias_it_is_proved_over_a_range():
    X, y, V, w = case(n=8)
    s, lam = substrate(X, y, "tube", bias=True), cp.Parameter(nonneg=True, name="lam")
    machine = Machine(s, minimize=0.5 * lam * s.squared_norm + LOSSES["tube"](s.e))
    best = fuse(machine, over=lam, validation=(V, w), gap=0.1, up_to=20.0)
    assert best.certificate.holds, str(best.certificate)
    assert best.path.coverage == (0.05, 1e3)
    assert_allclose(best.validation_error, np.mean((w - best.predict(V)) ** 2), rtol=1e-9)
