"""Machines of every kind through ``fuse``: where a parameter can be, how it is validated, and what is returned."""

import cvxpy as cp
import numpy as np
import pytest
from joint_machines import rows, weights
from numpy.testing import assert_allclose

from substrate import Machine, Substrate, fuse
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.kernels import RBF

#: What the tolerance of the solver may change in a validation error, relative.
ROUNDING = 1e-6

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def pinball(e, level):
    return cp.sum(cp.maximum(level * e, (level - 1.0) * e))


def tube(X, y):
    """Support vector regression, over the width of its tube."""
    s, (width,) = Substrate(RBF(1.0), X, y), weights("width")
    return Machine(s, minimize=0.1 * s.squared_norm + cp.sum(cp.pos(cp.abs(s.e) - width))), {width: (0.0, 1.0)}


def bound(X, y):
    s, (most,) = Substrate(RBF(1.0), X, y), weights("most")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e), subject_to=[cp.norm1(s.alpha) <= most])
    return machine, {most: (0.1, 5.0)}


def level(X, y):
    """A bound of either sign: the smallest value at some points."""
    s, least = Substrate(RBF(1.0), X, y), cp.Parameter(name="least")
    machine = Machine(s, minimize=cp.sum_squares(s.e) + 0.1 * s.squared_norm, subject_to=[s.f() >= least])
    return machine, {least: (-1.0, 0.5)}


def ridge_with_rule(X, y):
    s, (tau,) = Substrate(RBF(1.5), X, y), weights("tau")
    rule = s.gradient(X[:4], 0) >= 0.0
    return Machine(s, minimize=cp.sum_squares(s.e) + tau * s.squared_norm, subject_to=[rule]), {tau: (1e-2, 10.0)}


def two_columns(X, y):
    s, (C,) = Substrate(RBF(1.0), X, np.column_stack([y, y**2])), weights("C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1))), {C: (0.1, 10.0)}


def classes(X, y):
    s, (C,) = Substrate(RBF(1.0), X, np.where(y > 0.4, 1.0, -1.0), task="classification"), weights("C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(s.e))), {C: (0.05, 10.0)}


def logistic(X, y):
    s, (C,) = Substrate(RBF(1.0), X, np.where(y > 0.4, 1.0, -1.0), task="classification"), weights("C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.logistic(s.e - 1.0))), {C: (0.05, 10.0)}


def poisson(X, y):
    """Counts, with the logarithm of their rate as the function."""
    s, (C,) = Substrate(RBF(1.0), X, np.round(np.exp(1.0 + y))), weights("C")
    loss = cp.sum(cp.exp(s.f()) - cp.multiply(s.y, s.f()))
    return Machine(s, minimize=0.5 * s.squared_norm + C * loss), {C: (0.05, 5.0)}


def codes(y):
    """Three classes as codes of three bits."""
    number = np.digitize(y, [-0.2, 0.5])
    return np.where(number[:, None] == np.arange(3), 1.0, -1.0)


def coded(X, y):
    s, (C,) = Substrate(RBF(1.0), X, codes(y), task="classification"), weights("C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(s.e))), {C: (0.1, 10.0)}


def targets_of(build, w):
    if build in (classes, logistic):
        return np.where(w > 0.4, 1.0, -1.0)
    if build is coded:
        return codes(w)
    if build is poisson:
        return 1.0 + w
    return np.column_stack([w, w**2]) if build is two_columns else w


LOSSES = {
    "squared": lambda y, f: (y - f) ** 2,
    "mean_absolute": lambda y, f: np.abs(y - f),
    "pinball": lambda y, f: np.maximum(0.8 * (y - f), -0.2 * (y - f)),
    "hinge": lambda y, f: np.maximum(1.0 - y * f, 0.0),
    "log_loss": lambda y, f: np.log1p(np.exp(-y * f)),
}


def meant(loss):
    return ("pinball", 0.8) if loss == "pinball" else loss


CASES = [
    (tube, "squared"),
    (poisson, "squared"),
    (poisson, "mean_absolute"),
    (tube, "pinball"),
    (bound, "mean_absolute"),
    (level, "squared"),
    (ridge_with_rule, "mean_absolute"),
    (two_columns, "squared"),
    (classes, "hinge"),
    (classes, "log_loss"),
    (logistic, "log_loss"),
    (coded, "squared"),
]


@pytest.mark.parametrize(("build", "loss"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_what_is_returned_has_the_error_and_nothing_is_below_the_bound(build, loss):
    X, y, V, w = rows(n=12, d=2, validation=10)
    machine, box = build(X, y)
    known = targets_of(build, w)
    gap = 0.05 if len(box) == 1 else 0.2
    best = fuse(machine, tuple(box), validation=(V, known), gap=gap, box=box, loss=meant(loss))
    error = LOSSES[loss](known, best.predict(V)).sum() / len(V)
    least = 1e-6 * np.var(known)
    assert_allclose(best.validation_error, error, rtol=0.0, atol=1e-9 * max(error, least))
    assert best.certificate.holds, str(best.certificate)
    assert best.gap <= gap * (1.0 + 1e-9)
    assert dict(best.certificate.record)["validation"] == best.loss
    assert loss.replace("_loss", "").replace("mean_", "") in best.loss
    rng = np.random.default_rng(1)
    for _ in range(6):
        values = {one.name(): rng.uniform(*best.proved_on[one.name()]) for one in box}
        found = LOSSES[loss](known, machine.solve(**values).predict(V)).sum() / len(V)
        assert found >= best.lower_bound * (1.0 - ROUNDING) - 1e-9, values


def test_values_without_a_solution_end_the_search():
    X, y, V, w = rows(n=8, d=2, validation=6)
    s, least = Substrate(RBF(1.0), X, y), cp.Parameter(name="least")
    top = s.f(X[:1])
    machine = Machine(
        s, minimize=cp.sum_squares(s.e) + 0.1 * s.squared_norm, subject_to=[top >= least, s.f() <= 1.0, top <= 0.5]
    )
    best = fuse(machine, least, validation=(V, w), gap=0.05, box={least: (-1.0, 0.499)})
    assert best.certificate.holds, str(best.certificate)
    best = fuse(machine, least, validation=(V, w), gap=0.05, box={least: (-1.0, 3.0)})
    assert "no optimum at (" in best.stop
    assert not best.certificate.holds
    with pytest.raises(SolverError, match=r"no optimum at \(1.0,\).*have no solution"):
        fuse(machine, least, validation=(V, w), box={least: (1.0, 3.0)})


def svr(X, y):
    s, (C,) = Substrate(RBF(1.0), X, y), weights("C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def test_losses_that_make_no_sense_are_refused():
    X, y, V, w = rows(n=6, d=2, validation=4)
    machine = svr(X, y)
    for loss, error, words in [
        ("cubic", DeclarationError, r"loss must be one of squared, .*received 'cubic'"),
        (("pinball", 2.0), DeclarationError, "between 0 and 1"),
        (3, DeclarationError, "loss must be one of"),
        ("hinge", DataError, "compares predictions with labels -1 and "),
    ]:
        with pytest.raises(error, match=words):
            fuse(machine, "C", validation=(V, w), loss=loss)
    with pytest.raises(DeclarationError, match=r"validation is \(X, y\), received"):
        fuse(machine, "C", validation=V)
