"""The laws of the grammar: what the expressions are, which coordinates are chosen, what is written back, refused."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from substrate import Machine, Substrate
from substrate.declare.solvers import installed_solvers
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.kernels import RBF, Componentwise, Linear, Precomputed


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=20)


@pytest.fixture
def s(data):
    return Substrate(RBF(1.5), *data)


@pytest.fixture
def additive(data):
    return Substrate(Componentwise(RBF(1.5)), *data)


def ridge(s, weight=1.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


def test_everything_a_substrate_offers_is_a_cvxpy_expression(data, additive):
    X, _ = data
    shapes = {
        "alpha": (20,),
        "b": (),
        "c": (20,),
        "e": (20,),
        "norm": (),
        "squared_norm": (),
        "maximal_variation": (2,),
    }
    for name, shape in shapes.items():
        expression = getattr(additive, name)
        assert isinstance(expression, cp.Expression)
        assert expression.shape == shape, name
    for expression in (
        additive.f(),
        additive.f(X[:3]),
        additive.component(1, X[:3]),
        additive.errors(X[:3], [0, 1, 2]),
    ):
        assert isinstance(expression, cp.Expression)
        assert expression.is_affine()
    assert additive.f(X[:3]).shape == (3,)
    assert additive.component(-1) is additive.component(1)
    assert additive.maximal_variation.is_convex()


def test_a_machine_is_one_problem_by_the_rules(s):
    weight = cp.Parameter(nonneg=True, name="weight")
    machine = Machine(s, minimize=s.squared_norm + weight * cp.norm1(s.e), subject_to=[s.f() <= 5.0])
    assert isinstance(machine.problem, cp.Problem)
    assert machine.problem.is_dcp()
    assert machine.problem.is_dpp()
    assert [parameter.name() for parameter in machine.problem.parameters()] == ["weight"]
    assert {variable.name() for variable in machine.problem.variables()} == {"z", "b", "values"}


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (lambda s: cp.sum_squares(s.e) + s.squared_norm, "coefficients of the rows"),
        (lambda s: cp.norm_inf(s.e) + cp.sum_squares(s.e) + s.squared_norm, "features"),
        (lambda s: cp.sum_squares(s.e) + s.norm, "features"),
        (lambda s: cp.sum_squares(s.e) + cp.sum(s.maximal_variation), "stacked components"),
        (lambda s: cp.sum_squares(s.e) + cp.sum(s.maximal_variation) + s.squared_norm, "features"),
        (lambda s: cp.sum_squares(s.e) + cp.norm1(s.alpha), "coefficients"),
        (lambda s: cp.sum_squares(s.c) + s.squared_norm + cp.sum(s.maximal_variation), "coefficients"),
    ],
)
def test_the_coordinates_follow_from_what_is_mentioned(additive, term, kind):
    s = Substrate(additive.kernel, additive.X, additive.y)
    result = Machine(s, minimize=term(s)).solve()
    facts = dict(result.certificate.record)
    assert facts["coordinates"].startswith(kind)
    assert ("uncut" in facts["coordinates"]) == kind.startswith("coefficients")
    assert result.certificate.holds, str(result.certificate)


def test_values_are_written_back(data, additive):
    X, y = data
    s = additive
    new = X[:4] + 0.1
    there, part = s.f(new), s.component(1, new)
    bound = s.f() <= float(np.quantile(y, 0.8))
    result = Machine(s, minimize=ridge(s, 100.0), subject_to=[bound]).solve()
    assert_allclose(s.e.value, y - result.predict(X), atol=1e-8)
    assert_allclose(s.f().value, result.f)
    assert_allclose(there.value, result.predict(new))
    assert_allclose(part.value, result.component(1, new))
    assert_allclose(s.squared_norm.value, result.squared_norm, rtol=1e-9)
    assert bound.dual_value.shape == (20,)
    assert bound.dual_value.max() > 1e-3
    assert_allclose(bound.dual_value * (s.f().value - np.quantile(y, 0.8)), 0.0, atol=1e-6)


def test_the_multipliers_are_sensitivities(s):
    """d objective / d bound = -lambda, by differences."""
    level = cp.Parameter(name="level")
    bound = s.f() <= level
    machine = Machine(s, minimize=ridge(s, 20.0), subject_to=[bound])
    middle = machine.solve(level=1.0)
    slope = bound.dual_value.sum()
    ahead, behind = machine.solve(level=1.0 + 1e-4).objective, machine.solve(level=1.0 - 1e-4).objective
    assert slope > 1.0
    assert middle.certificate.holds
    assert_allclose((behind - ahead) / 2e-4, slope, rtol=1e-4)


def test_components_add_up_and_vary_as_they_say(data, additive):
    """:equation [Pelckmans2005]_ (13): the largest absolute value of each component over the training points."""
    X, _ = data
    s = additive
    result = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.3 * cp.sum(s.maximal_variation)).solve()
    new = np.random.default_rng(0).normal(size=(7, 2))
    total = result.component(0, new) + result.component(1, new) + result.b
    assert_allclose(total, result.predict(new), atol=1e-8)
    expected = [np.abs(result.component(part, X)).max() for part in (0, 1)]
    assert_allclose(result.maximal_variation, expected, rtol=1e-9)
    assert_allclose(s.maximal_variation.value, expected, rtol=1e-6)


def test_a_result_is_frozen_and_says_what_it_has(s):
    result = Machine(s, minimize=ridge(s)).solve()
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.objective = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        result[s].b = 0.0
    with pytest.raises(AttributeError, match="no attribute 'beta'"):
        _ = result.beta
    with pytest.raises(KeyError, match="not part of the machine"):
        _ = result[Substrate(Linear(), s.X, s.y)]


def test_another_value_is_a_fresh_machine(data):
    def build():
        s = Substrate(Componentwise(RBF(1.5)), *data)
        rho = cp.Parameter(nonneg=True, name="rho")
        return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))

    machine = build()
    for rho in (0.01, 3.0, 0.3):
        again, fresh = machine.solve(rho=rho), build().solve(rho=rho)
        assert_allclose(again.f, fresh.f, atol=1e-6)
        assert_allclose(again.objective, fresh.objective, rtol=1e-8)
        assert again.certificate.holds


@pytest.mark.parametrize(
    ("term", "named"),
    [
        (lambda s: -cp.sum_squares(s.e), "term"),
        (lambda s: s.squared_norm - cp.norm1(s.e), r"-norm1|-1.0 @ norm1|norm1"),
        (lambda s: cp.Parameter(name="free") * cp.norm1(s.e), "nonneg=True"),
        (lambda s: cp.sqrt(s.squared_norm) + cp.sum_squares(s.e), r"squared_norm, 0.5|sqrt"),
    ],
)
def test_what_is_not_convex_is_named(s, term, named):
    with pytest.raises(DeclarationError, match="not convex") as refused:
        Machine(s, minimize=term(s))
    assert refused.match(named)


def test_what_would_be_compiled_anew_is_refused_with_the_fix(s):
    p, q = cp.Parameter(nonneg=True, name="p"), cp.Parameter(nonneg=True, name="q")
    with pytest.raises(DeclarationError, match=r"DPP.*as one parameter"):
        Machine(s, minimize=p * q * s.squared_norm + cp.sum_squares(s.e))
    with pytest.raises(DeclarationError, match="share a name"):
        Machine(s, minimize=p * s.squared_norm + cp.Parameter(nonneg=True, name="p") * cp.sum_squares(s.e))
    with pytest.raises(DeclarationError, match="another name"):
        Machine(s, minimize=cp.Parameter(nonneg=True, name="solver") * s.squared_norm + cp.sum_squares(s.e))


@pytest.mark.parametrize(
    "of",
    [
        lambda t: cp.sum_squares(t.e),
        lambda t: cp.norm1(t.alpha),
        lambda t: cp.square(t.b),
        lambda t: t.squared_norm,
        lambda t: cp.sum(t.maximal_variation),
    ],
    ids=["e", "alpha", "b", "squared_norm", "maximal_variation"],
)
def test_a_stranger_is_refused(data, s, of):
    stranger = Substrate(Linear(), *data)
    with pytest.raises(DeclarationError, match="not given"):
        Machine(s, minimize=ridge(s) + of(stranger))
    with pytest.raises(DeclarationError, match="not given"):
        Machine(s, minimize=ridge(s), subject_to=[of(stranger) <= 1.0])


def test_what_is_left_undetermined_is_refused(data, s):
    other = Substrate(Linear(), *data)
    with pytest.raises(DeclarationError, match="no term uses substrate 2"):
        Machine(s, other, minimize=ridge(s), predict=s)
    with pytest.raises(DeclarationError, match="bias of substrate 1"):
        Machine(s, minimize=s.squared_norm)
    with pytest.raises(DeclarationError, match="boolean or integer"):
        Machine(s, minimize=ridge(s) + cp.Variable(boolean=True))


def test_what_is_not_grammar_is_refused(data, s):
    with pytest.raises(DeclarationError, match="plain bool"):
        Machine(s, minimize=ridge(s), subject_to=[1.0 <= 2.0])
    with pytest.raises(DeclarationError, match="scalar cvxpy expression"):
        Machine(s, minimize=s.e)
    with pytest.raises(DeclarationError, match="scalar cvxpy expression"):
        Machine(s, minimize="errors")
    with pytest.raises(DeclarationError, match="built on substrates"):
        Machine(minimize=ridge(s))
    with pytest.raises(DeclarationError, match="built on substrates"):
        Machine("substrate", minimize=ridge(s))
    with pytest.raises(DeclarationError, match="twice"):
        Machine(s, s, minimize=ridge(s))
    with pytest.raises(DeclarationError, match="there is no component 1; the kernel has 1, numbered from 0"):
        s.component(1)
    with pytest.raises(DataError, match="3 columns, the training points 2"):
        s.f(np.ones((4, 3)))
    with pytest.raises(DataError, match="expected 3, received 2"):
        s.errors(data[0][:3], [1.0, 2.0])


def test_a_precomputed_matrix_is_a_kernel(data):
    X, y = data
    K, new = RBF(1.5)(X), RBF(1.5)(X[:3] + 0.1, X)
    given, known = Substrate(Precomputed(), K, y), Substrate(RBF(1.5), X, y)
    found = Machine(given, minimize=ridge(given), subject_to=[given.f(K[:3]) <= 1.0]).solve()
    expected = Machine(known, minimize=ridge(known), subject_to=[known.f(X[:3]) <= 1.0]).solve()
    assert_allclose(found.f, expected.f, atol=1e-6)
    assert_allclose(found.predict(new), expected.predict(X[:3] + 0.1), atol=1e-6)
    indefinite = np.diag([1.0] * 19 + [-1.0])
    broken = Substrate(Precomputed(), indefinite, y)
    with pytest.raises(DeclarationError, match="smallest eigenvalue"):
        Machine(broken, minimize=ridge(broken))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"X": np.full((20, 2), np.nan)}, DataError, "X contains NaN"),
        ({"y": np.append(np.zeros(19), np.inf)}, DataError, "y contains NaN or infinity"),
        ({"y": np.zeros(19)}, DataError, "expected 20, received 19"),
        ({"y": np.zeros((20, 1, 1))}, DataError, "y must be 1-D or 2-D"),
        ({"y": np.zeros((19, 2))}, DataError, "expected 20, received 19"),
        ({"X": np.zeros((1, 2)), "y": [1.0]}, DataError, "at least two points"),
        ({"X": np.zeros(20)}, DataError, "X must be 2-D"),
        ({"task": "ranking"}, DeclarationError, "task must be"),
        ({"task": "classification"}, DataError, "-1"),
    ],
)
def test_bad_input_is_refused_by_name(data, change, error, words):
    given = {"kernel": RBF(1.0), "X": data[0], "y": data[1], **change}
    with pytest.raises(error, match=words):
        Substrate(**given)


def test_contradictions_are_said(s):
    machine = Machine(s, minimize=ridge(s), subject_to=[s.f() <= 0.0, s.f()[0] >= 1.0])
    with pytest.raises(SolverError, match=r"CLARABEL and .* report that the machine is infeasible: .*contradict"):
        machine.solve()
    with pytest.raises(SolverError, match="CLARABEL reports that the machine is infeasible:"):
        machine.solve(solver="clarabel")


@pytest.mark.parametrize("solver", ["CLARABEL", "piqp", "OSQP", "SCS"])
def test_a_named_solver_is_asked_alone(s, solver):
    if solver.upper() not in installed_solvers():
        pytest.skip(f"{solver} is not installed")
    weight = cp.Parameter(nonneg=True, name="weight", value=3.0)
    machine = Machine(s, minimize=0.5 * s.squared_norm + weight * cp.sum_squares(s.e), subject_to=[s.f() <= 1.0])
    reference = machine.solve()
    result = machine.solve(solver)
    assert {attempt.solver for attempt in result.solver_record.attempts} == {solver.upper()}
    assert_allclose(result.f, reference.f, atol=1e-4)
    assert result.certificate.holds, str(result.certificate)
    with pytest.raises(DeclarationError, match="unknown solver"):
        machine.solve("SIMPLEX")


def test_a_solver_stopped_early_is_not_believed(s, monkeypatch):
    import substrate.declare.solvers as solvers

    lazy = dataclasses.replace(solvers._SOLVERS["OSQP"], options={"max_iter": 3})
    monkeypatch.setitem(solvers._SOLVERS, "OSQP", lazy)
    machine = Machine(s, minimize=s.squared_norm + 10.0 * cp.norm1(s.e))
    with pytest.warns(ConvergenceWarning, match="does not hold"):
        result = machine.solve("OSQP")
    assert not result.certificate.holds


def test_a_point_that_is_no_optimum_is_not_certified(s):
    machine = Machine(s, minimize=s.squared_norm + cp.norm1(s.e))
    loose = {"max_iter": 4, "tol_gap_rel": 1e-2, "tol_gap_abs": 1e-2, "tol_feas": 1e-2}
    with pytest.warns(ConvergenceWarning, match="does not hold"):
        assert not machine.solve("CLARABEL", options=loose).certificate.holds
