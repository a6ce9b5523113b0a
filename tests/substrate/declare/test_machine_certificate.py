"""The certificate of a machine: it holds at optima of every kind and breaks at everything else."""

import cvxpy as cp
import numpy as np
import pytest
from lying_solver import let_it_lie, report_values
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from substrate import Machine, Substrate
from substrate.datasets import ripley
from substrate.declare.cones import Cone, dual_point, misalignment, violation
from substrate.errors import SolverError
from substrate.kernels import RBF, Componentwise, Linear


def data(n=25, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)


def substrate(kernel=None, unit=1.0):
    X, y = data()
    return Substrate(kernel or RBF(1.5), X, unit * y)


def pinball(e, level=0.8):
    return cp.sum(cp.maximum(level * e, (level - 1.0) * e))


def tikhonov():
    s = substrate()
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e))


def least_squares():
    s = substrate(Linear())
    return Machine(s, minimize=cp.sum_squares(s.e))


def huber():
    s = substrate()
    return Machine(s, minimize=0.1 * s.squared_norm + cp.sum(cp.huber(s.e, 0.1)))


def quantile():
    s = substrate()
    return Machine(s, minimize=0.1 * s.squared_norm + pinball(s.e))


def tube():
    s = substrate()
    return Machine(s, minimize=0.1 * s.squared_norm + cp.sum(cp.pos(cp.abs(s.e) - 0.2)))


def lasso():
    s = substrate()
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.3 * cp.norm1(s.alpha))


def maximal_variation():
    s = substrate(Componentwise(RBF(1.5)))
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.5 * cp.sum(s.maximal_variation))


def logistic():
    X, y = ripley()
    s = Substrate(RBF(0.7), X[::10], np.where(y[::10] > 0, 1.0, -1.0))
    return Machine(s, minimize=0.5 * s.squared_norm + cp.sum(cp.logistic(-cp.multiply(s.y, s.f()))))


def constrained():
    s = substrate()
    box = [s.f() <= 0.6, s.f(np.zeros((1, 2))) == 0.25, cp.sum(s.f()) >= 1.0, cp.norm(s.e) <= 3.0]
    return Machine(s, minimize=0.1 * s.squared_norm + cp.norm1(s.e), subject_to=box)


def cone():
    s = substrate()
    radius = cp.Variable(name="radius")
    return Machine(s, minimize=radius + 0.05 * s.squared_norm, subject_to=[cp.SOC(radius, s.e)])


def cones():
    s = substrate()
    t = cp.Variable(5, name="t")
    pairs = cp.reshape(s.e[:10], (2, 5), order="F")
    return Machine(s, minimize=cp.sum(t) + 0.1 * s.squared_norm + cp.norm1(s.e), subject_to=[cp.SOC(t, pairs)])


def semidefinite():
    s = substrate()
    t = cp.Variable(name="t")
    matrix = cp.bmat([[t, s.f()[0] - 0.5], [s.f()[0] - 0.5, 1.0]])
    return Machine(s, minimize=t + 0.1 * s.squared_norm + cp.sum_squares(s.e), subject_to=[matrix >> 0])


MACHINES = [
    tikhonov,
    least_squares,
    huber,
    quantile,
    tube,
    lasso,
    maximal_variation,
    logistic,
    constrained,
    cone,
    cones,
    semidefinite,
]
over_machines = pytest.mark.parametrize("build", MACHINES, ids=lambda build: build.__name__)


@over_machines
def test_it_holds_at_the_optimum(build):
    machine = build()
    result = machine.solve()
    assert result.certificate.holds, str(result.certificate)
    assert str(result.certificate).startswith("Machine: holds")
    names = {row.name for row in result.certificate.rows}
    assert names & {"cones: stationarity", "stationarity"}


def refused(machine):
    """The solver's report is not certified, and the user is warned."""
    with pytest.warns(ConvergenceWarning):
        return machine.solve("CLARABEL").certificate


@over_machines
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.covering
def test_a_point_moved_by_a_thousandth_breaks_it(build, seed, monkeypatch):
    machine = build()
    assert machine.solve("CLARABEL").certificate.holds
    rng = np.random.default_rng(seed)
    for variable in (v for v in machine.problem.variables() if v.name() != "values"):
        move, kept = rng.standard_normal(variable.shape), np.array(variable.value)
        with monkeypatch.context() as patched:
            report_values(patched, variable, kept + 1e-3 * np.abs(kept).max() * move / np.abs(move).max())
            report = refused(machine)
        assert not report.holds, (variable.name(), str(report))
        machine.solve("CLARABEL")


@pytest.mark.parametrize("build", [lasso, quantile, tube, huber], ids=lambda build: build.__name__)
def test_a_move_that_keeps_every_kink_breaks_it(build, monkeypatch):
    """Along the kinks no random direction leads down from where one stands; the cones see it all the same."""
    machine = build()
    machine.solve("CLARABEL")
    (s,), (z,) = machine.substrates, [v for v in machine.problem.variables() if v.name() in ("z", "alpha")]
    rng, kept = np.random.default_rng(0), np.array(z.value)
    if build is lasso:
        move = np.where(np.abs(kept) > 1e-6, rng.standard_normal(kept.shape), 0.0)
        move[np.abs(kept) > 1e-6] -= move[np.abs(kept) > 1e-6].mean()  # 1'alpha = 0 stays
    else:
        A = machine.conic.compiled[0].frame.training
        level = np.array({"quantile": [0.0], "tube": [0.2, -0.2], "huber": []}[build.__name__])
        e = np.asarray(s.e.value)
        rows = A[(np.abs(e[:, None] - level).min(axis=1, initial=np.inf) < 1e-5)]
        move = rng.standard_normal(kept.shape)
        move -= np.linalg.pinv(rows) @ (rows @ move) if rows.size else 0.0
    report_values(monkeypatch, z, kept + 1e-3 * np.abs(kept).max() * move / np.abs(move).max())
    report = refused(machine)
    assert not report.holds, str(report)


@pytest.mark.parametrize("build", [constrained, cone, cones, semidefinite, lasso], ids=lambda build: build.__name__)
def test_every_multiplier_moved_breaks_it(build, monkeypatch):
    machine = build()
    machine.solve("CLARABEL")
    for cone in machine.conic.witness[0].cones:
        for wrong in (1e-3, -1e-3, np.nan):

            def change(x, z, program, unit, rows=cone.rows, wrong=wrong):
                z[rows] += wrong * max(np.abs(z[rows]).max(), 1.0)
                return x, z

            with monkeypatch.context() as patched:
                let_it_lie(patched, change)
                if np.isnan(wrong):
                    with pytest.raises(SolverError, match="no solver returned a point"):
                        machine.solve("CLARABEL")
                else:
                    report = refused(machine)
                    assert not report.holds, (cone, wrong, str(report))


LOSSES = {
    "squares": lambda e, unit: cp.sum_squares(e),
    "huber": lambda e, unit: cp.sum(cp.huber(e, 0.1 * unit)),
    "absolute": lambda e, unit: cp.norm1(e),
    "pinball": lambda e, unit: pinball(e),
    "largest": lambda e, unit: cp.norm_inf(e),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("unit", [1e6, 1e-6, 1e-3, 1e3])
@pytest.mark.covering
def test_it_holds_in_any_unit_or_the_user_is_warned(loss, unit, recwarn):
    """The same machine in other units; its predictions scale where the loss is homogeneous with its penalty."""
    power = 2.0 if loss in ("squares", "huber") else 1.0
    s, plain = substrate(unit=unit), substrate()
    weight = unit ** (power - 2.0)
    machine = Machine(s, minimize=0.1 * weight * s.squared_norm + LOSSES[loss](s.e, unit))
    result = machine.solve()
    expected = Machine(plain, minimize=0.1 * plain.squared_norm + LOSSES[loss](plain.e, 1.0)).solve()
    assert expected.certificate.holds
    if not recwarn.list:
        assert result.certificate.holds, str(result.certificate)
        assert_allclose(result.f / unit, expected.f, atol=1e-4)
    assert {warning.category for warning in recwarn.list} <= {ConvergenceWarning}
    if loss == "squares" or unit == 1e3:
        assert not recwarn.list


@pytest.mark.parametrize("y", ["zero", "constant", "interpolated"])
def test_it_holds_where_the_objective_vanishes(y):
    X, values = data()
    target = {"zero": 0.0 * values, "constant": 0.0 * values + 7.0, "interpolated": X @ [1.0, -2.0] + 3.0}[y]
    for kernel in (Linear(), RBF(1.5)):
        s = Substrate(kernel, X, target)
        terms = {
            "squares": cp.sum_squares(s.e),
            "absolute": cp.norm1(s.e),
            "tikhonov": cp.sum_squares(s.e) + 1e-3 * s.squared_norm,
            "lasso": cp.sum_squares(s.e) + 1e-3 * cp.norm1(s.alpha),
        }
        for name, term in terms.items():
            result = Machine(s, minimize=term).solve()
            assert result.certificate.holds, (name, kernel, str(result.certificate))


def one_cone(kind, size):
    return [Cone(kind, slice(0, size))]


def test_distances_from_cones():
    assert violation(one_cone("Zero", 2), np.array([0.0, -3.0])) == 3.0
    assert not (dual_point(one_cone("Zero", 2), np.array([0.0, -3.0])) - [0.0, -3.0]).any()
    assert violation(one_cone("NonNeg", 2), np.array([1.0, -2.0])) == 2.0
    pair = [Cone("SOC", slice(0, 3)), Cone("SOC", slice(3, 5))]
    assert_allclose(violation(pair, np.array([5.0, 3.0, 4.0, 1.0, 2.0])), 1.0, rtol=1e-12)
    assert misalignment(pair, np.array([5.0, 3.0, 4.0, 0.0, 0.0]), np.array([5.0, -3.0, -4.0, 0.0, 0.0])) <= 1e-12
    exponential = one_cone("ExpCone", 3)
    assert violation(exponential, np.array([0.0, 1.0, 1.0])) <= 0.0
    assert_allclose(violation(exponential, np.array([1.0, 1.0, 1.0])), np.e - 1.0)
    assert violation(exponential, np.array([-1.0, 0.0, 0.5])) <= 0.0
    assert violation(exponential, np.array([1.0, 0.0, 0.5])) == 1.0
    S = np.random.default_rng(5).normal(size=(4, 4))
    S = S + S.T
    upper = np.tril_indices(4)  # of the transpose, column by column
    weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    raised = dual_point(one_cone("SvecPSD", 10), weights * S[upper[1], upper[0]])
    least = np.linalg.norm(np.minimum(np.linalg.eigvalsh(S), 0.0))
    assert_allclose(np.linalg.norm(raised - weights * S[upper[1], upper[0]]), least, rtol=1e-9)
