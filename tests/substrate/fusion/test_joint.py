"""``fuse`` over two and three parameters: the result and its proof, folds, budgets, and what it refuses."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import FusedL1SubstrateRegressor
from substrate import Fusion, Machine, Substrate, fuse
from substrate.errors import DeclarationError
from substrate.fusion.knot_store import KnotStore
from substrate.kernels import RBF, Linear
from tests.oracles.joint_machines import MACHINES, rows, sparse_ridge, store_of, two_groups, weights

#: What double precision may have changed in the independent solves.
ROUNDING = 1e-8


def box_of(parameters, ends):
    return dict(zip(parameters, ends, strict=True))


def errors_at(machine, names, values, V, w):
    """The mean squared validation error of the machine at each row of values, by the solver of machines."""
    found = [machine.solve(**dict(zip(names, map(float, row), strict=True))).predict(V) for row in values]
    return np.array([np.mean((w - one) ** 2) for one in found])


@pytest.fixture(scope="module")
def fused():
    """A fusion over two weights of maximal variation that several tests look at, and what it was made of."""
    X, y, V, w = rows(n=8, d=2)
    machine, parameters = two_groups(X, y)
    seen = []
    best = fuse(machine, over=parameters, validation=(V, w), gap=0.05, progress=lambda *state: seen.append(state))
    return best, machine, np.array(seen), V, w


def test_the_result_has_values_by_name_a_bound_and_a_certificate_that_holds(fused):
    best, machine, _, V, w = fused
    assert isinstance(best, Fusion)
    assert list(best.values) == ["rho1", "rho2"]
    assert (best.rho1, best.rho2) == tuple(best.values.values())
    assert best.certificate.holds, str(best.certificate)
    assert {"knot and machine agree", "gap of the search"} <= {row.name for row in best.certificate.rows}
    assert "Fusion over rho1 and rho2: holds" in str(best.certificate).splitlines()[0]
    assert 0.0 < best.lower_bound <= best.validation_error
    assert best.gap <= 0.05
    assert best.path.stop == "the gap of 0.05 is met"
    assert_allclose(errors_at(machine, best.values, [[best.rho1, best.rho2]], V, w), best.validation_error, rtol=1e-6)
    assert_allclose(best.predict(V), best.result.predict(V))
    assert_allclose(best.alpha, best.result.alpha)
    with pytest.raises(AttributeError, match="no attribute 'gamma'"):
        best.gamma  # noqa: B018


def test_no_pair_is_below_the_bound(fused):
    """By the solver of machines, which the search does not use.

    :equation [Pelckmans2005]_ (28): fusion over several weights at once
    """
    best, machine, _, V, w = fused
    rng = np.random.default_rng(0)
    tops = np.array([high if np.isfinite(high) else 1e4 for _, high in best.proved_on.values()])
    tried = tops * rng.random((4, 2)) ** 4
    near = np.array(list(best.values.values())) * (1.0 + 0.1 * rng.normal(size=(2, 2)))
    errors = errors_at(machine, best.values, np.vstack([tried, np.clip(near, 0.0, tops)]), V, w)
    assert (errors >= best.lower_bound * (1.0 - ROUNDING)).all()


def test_the_path_holds_knots_and_simplices(fused):
    best, _, seen, *_ = fused
    path = best.path
    assert path.parameters == ("rho1", "rho2")
    assert path.values.shape == (len(path), 2)
    assert path.validation_errors.shape == (len(path),)
    assert_allclose(path.validation_errors.min(), best.validation_error, rtol=1e-6)
    assert path.simplices.shape == (path.bounds.size, 3)
    assert path.simplices.max() < len(path)
    assert [len(knots) for knots in path.knots] == [len(path)]
    assert path.bounds.min() >= best.lower_bound
    corners = path.values[path.simplices]
    sides = corners[:, 1:] - corners[:, :1]
    areas = 0.5 * np.abs(sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0])
    assert_allclose(areas.sum(), np.prod(path.values.max(axis=0)), rtol=1e-9)  # they cover the box
    assert (np.diff(seen[:, 1]) <= 0.0).all()
    assert (np.diff(seen[:, 2]) >= -1e-9 * seen[-1, 2]).all()


def test_the_map_shows_the_optimum_and_the_bound(fused):
    pytest.importorskip("matplotlib").use("Agg")
    best, *_ = fused
    axes = best.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rho1", "rho2")
    (mark,) = [line for line in axes.get_lines() if line.get_label().startswith("best")]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (best.rho1, best.rho2)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert any(f"lower bound {best.lower_bound:.4g}" in label for label in labels)
    (map_,) = axes.collections
    assert map_.get_array().size == len(best.path.simplices)
    with pytest.raises(DeclarationError, match="over names two of the parameters"):
        best.plot(over=("rho1", "rho1"))


def test_a_ridge_and_an_end_that_is_chosen():
    """The L1 norm is bounded up to a weight at which it has vanished; the ridge on its box."""
    X, y, V, w = rows(n=6, d=2)
    machine, parameters = sparse_ridge(X, y)
    best = fuse(machine, over=parameters, validation=(V, w), gap=0.1, box={"tau": (0.5, 5.0)})
    low, high = best.proved_on["zeta"]
    assert (low, best.proved_on["tau"]) == (0.0, (0.5, 5.0))
    assert dict(best.certificate.record)["fused over zeta"] == f"from 0 to {high:g}"
    assert np.abs(machine.solve(zeta=high, tau=1.0).alpha).max() <= 1e-6
    assert best.certificate.holds, str(best.certificate)
    tried = np.column_stack([[1e-3, 1.0, 1e4], [0.6, 3.0, 1.0]])
    assert (errors_at(machine, best.values, tried, V, w) >= best.lower_bound * (1.0 - ROUNDING)).all()


def test_a_budget_that_is_spent_is_said_also_with_three_parameters():
    X, y, V, w = rows(n=6, d=3)
    machine, parameters = two_groups(X, y, components=3)
    ends = box_of(parameters, [(1.0, 4.0)] * 3)
    best = fuse(machine, over=parameters, validation=(V, w), gap=1e-6, budget=14, box=ends)
    assert best.path.stop == "the budget of 14 solves is spent"
    assert not best.certificate.holds
    assert [row.name for row in best.certificate.failures] == ["gap of the search"]
    assert best.lower_bound <= best.validation_error
    assert best.path.simplices.shape[1] == 4
    pytest.importorskip("matplotlib").use("Agg")
    assert best.plot(over=("rho3", "rho1")).get_xlabel() == "rho3"


def build(X, y):
    return sparse_ridge(X, y)[0]


def test_folds_minimise_their_sum():
    X, y, _, _ = rows(n=8, d=2)
    at = np.arange(8)
    splits = [(at[at % 2 != k], at[at % 2 == k]) for k in range(2)]
    ends = {"zeta": (0.2, 1.0), "tau": (0.5, 1.0)}
    best = fuse(build, over=("zeta", "tau"), data=(X, y), cv=splits, gap=0.2, box=ends)
    assert best.certificate.holds, str(best.certificate)
    assert len(best.path.knots) == 2
    for values in ((0.4, 0.6), tuple(best.values.values())):
        each = [errors_at(build(X[a], y[a]), best.values, [values], X[b], y[b])[0] * b.size for a, b in splits]
        assert sum(each) / 8 >= best.lower_bound * (1.0 - ROUNDING)
    assert_allclose(sum(each) / 8, best.validation_error, rtol=1e-6)


@pytest.mark.parametrize("kind", ["constant targets", pytest.param("duplicates", marks=pytest.mark.slow)])
def test_degenerate_data(kind):
    X, y, V, w = rows(n=4, d=2)
    if kind == "constant targets":
        y = np.full(4, 3.0)
    else:
        X, y = np.vstack([X, X[:2], X[:2]]), np.append(y, [*y[:2], *(y[:2] + 1.0)])
    machine, parameters = sparse_ridge(X, y)
    best = fuse(machine, over=parameters, validation=(V, w), gap=0.1, box={"tau": (0.5, 5.0)})
    assert best.certificate.holds, str(best.certificate)
    tried = [[0.0, 0.5], [5.0, 5.0]]
    assert (errors_at(machine, best.values, tried, V, w) >= best.lower_bound * (1.0 - ROUNDING)).all()


def test_several_outputs_are_validated_together():
    X, y, V, w = rows(n=6, d=2)
    one, two = Substrate(RBF(1.0), X, y, name="one"), Substrate(RBF(1.0), X, y**2, name="two")
    zeta, tau = weights("zeta", "tau")
    norms = cp.norm1(one.alpha) + cp.norm1(two.alpha)
    squares = cp.sum_squares(one.e) + cp.sum_squares(two.e) + tau * (one.squared_norm + two.squared_norm)
    machine = Machine(one, two, minimize=0.5 * squares + zeta * norms)
    held = (V, {"one": w, "two": w**2})
    best = fuse(machine, over=(zeta, tau), validation=held, gap=0.5, box={zeta: (0.1, 1.0), tau: (0.5, 2.0)})
    assert best.certificate.holds, str(best.certificate)
    predicted = machine.solve(**best.values).predict(V)
    again = np.mean((w - predicted["one"]) ** 2) + np.mean((w**2 - predicted["two"]) ** 2)
    assert_allclose(best.validation_error, again, rtol=1e-6)


def test_where_no_chord_proves_anything_the_universal_bound_does():
    X, y, V, w = rows(n=6, d=2)
    s = Substrate(RBF(1.0), X, y)
    zeta, rho = weights("zeta", "rho")
    cost = cp.sum(cp.huber(s.e, 0.3)) + zeta * cp.norm1(s.alpha) + rho * cp.norm_inf(s.f())
    ends = {zeta: (0.2, 1.0), rho: (0.2, 1.0)}
    machine = Machine(s, minimize=cost)
    best = fuse(machine, over=(zeta, rho), validation=(V, w), box=ends, gap=0.1)
    assert best.certificate.holds, str(best.certificate)
    assert best.proved_on == {"zeta": (0.2, 1.0), "rho": (0.2, 1.0)}
    assert_allclose(best.validation_error, best.path.validation_errors.min(), rtol=1e-4)
    assert best.path.simplices.shape[1] == 3
    for values in np.random.default_rng(0).uniform(0.2, 1.0, size=(5, 2)):
        found = machine.solve(zeta=values[0], rho=values[1]).predict(V)
        assert np.mean((w - found) ** 2) >= best.lower_bound * (1.0 - 1e-6)
    early = fuse(machine, over=(zeta, rho), validation=(V, w), box=ends, budget=12)
    assert early.stop == "the budget of 12 solves is spent"
    assert not early.certificate.holds


def test_an_interruption_keeps_the_best_so_far():
    X, y, V, w = rows(n=6, d=2)
    seen = []

    def progress(*state):
        seen.append(state)
        if len(seen) == 3:
            raise KeyboardInterrupt

    ends = ((0.01, 1.0), (0.1, 1.0))
    machine, parameters = sparse_ridge(X, y)
    best = fuse(machine, parameters, validation=(V, w), gap=1e-9, progress=progress, box=box_of(parameters, ends))
    assert best.path.stop == "interrupted; the best so far is kept"
    assert_allclose(best.lower_bound * w.size, seen[-1][2], rtol=1e-9)


def test_an_interruption_before_the_box_is_covered_proves_nothing(monkeypatch):
    X, y, V, w = rows(n=6, d=2)
    machine, parameters = sparse_ridge(X, y)
    add, ends = KnotStore.add, ((0.2, 1.0), (0.5, 1.0))

    def interrupted(self, corner):
        if len(self.corners) == 3:
            raise KeyboardInterrupt
        return add(self, corner)

    monkeypatch.setattr(KnotStore, "add", interrupted)
    best = fuse(machine, parameters, validation=(V, w), box=box_of(parameters, ends))
    assert best.lower_bound == -np.inf
    assert dict(best.certificate.record)["no certificate"] == "the search ended before all of the box was covered"
    assert_allclose(best.validation_error, best.path.validation_errors.min(), rtol=1e-6)


def test_one_parameter_in_a_tuple_is_one_parameter_and_has_values_too():
    X, y, V, w = rows(n=6, d=2)
    s = Substrate(Linear(), X, y)
    (rho,) = weights("rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.norm_inf(s.f()))
    best = fuse(machine, over=(rho,), validation=(V, w), gap=0.1)
    assert best.values == {"rho": best.value}


# --- refusals -------------------------------------------------------------------------------------------------------


def machine_of(term, rules=()):
    X, y, V, w = rows(n=6, d=2)
    s = Substrate(RBF(1.0), X, y)
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + term(s), subject_to=[rule(s) for rule in rules]), (V, w)


def test_parameters_elsewhere_than_in_weights_are_refused():
    a, b, c, d = weights("a", "b", "c", "d")
    four, held = machine_of(
        lambda s: a * cp.norm1(s.alpha) + b * cp.norm_inf(s.f()) + c * cp.norm1(s.e) + d * cp.pos(s.b)
    )
    with pytest.raises(DeclarationError, match=r"two or three parameters with a proof, received 4.*give all but three"):
        fuse(four, over=(a, b, c, d), validation=held)
    inside, held = machine_of(lambda s: a * cp.norm1(s.alpha) + cp.norm1(b * s.f() - 1.0))
    with pytest.raises(DeclarationError, match=r"'b' enters a constraint|'b' multiplies a variable"):
        fuse(inside, over=(a, b), validation=held)
    bound, held = machine_of(lambda s: a * cp.norm1(s.alpha), [lambda s: cp.norm1(s.alpha) <= b])
    with pytest.raises(DeclarationError, match=r"'b' is in a constraint.*state which values.*box="):
        fuse(bound, over=(a, b), validation=held)
    both, held = machine_of(lambda s: b * cp.norm_inf(s.f()), [lambda s: cp.norm1(s.alpha) <= b])
    with pytest.raises(DeclarationError, match=r"'b' weighs a term of the objective and is in a constraint too"):
        fuse(both, over=b, validation=held, box={b: (0.1, 1.0)})
    idle, held = machine_of(lambda s: a * cp.norm1(s.alpha) + 0.0 * b)
    with pytest.raises(DeclarationError, match=r"does not depend on 'b'|no parameter 'b'"):
        fuse(idle, over=(a, b), validation=held)


def test_boxes_that_make_no_sense_are_refused():
    zeta, tau = weights("zeta", "tau")
    machine, held = machine_of(lambda s: zeta * cp.norm1(s.alpha) + tau * s.squared_norm)
    for box, words in (
        ([(0, 1), (1, 2)], "box is a dict of"),
        ({"rho": (0, 1)}, r"box has ends for \['rho'\], which are not fused over"),
        ({"zeta": 3}, "must be two numbers"),
        ({"zeta": (2, 1)}, "must have 0 <= low < high"),
        ({"zeta": (-1, 1)}, "must have 0 <= low < high"),
        ({"zeta": (0, np.nan)}, "must have 0 <= low < high"),
        ({tau: (0, 1)}, "'tau' weighs a quadratic term, so its lower end must be above zero"),
        ({tau: (1, np.inf)}, "a finite upper end"),
    ):
        with pytest.raises(DeclarationError, match=words):
            fuse(machine, over=(zeta, tau), validation=held, box=box)


def test_arguments_that_contradict_each_other_are_refused():
    zeta, tau, eta = weights("zeta", "tau", "eta")
    machine, held = machine_of(lambda s: zeta * cp.norm1(s.alpha) + tau * s.squared_norm)
    for over, options, words in (
        (("zeta", "tau"), {"up_to": 1.0}, "up_to is for one parameter"),
        ("zeta", {"box": {"zeta": (0, 1)}, "up_to": 1.0}, "give either up_to or box"),
        (("zeta", "zeta"), {}, "named twice"),
        (("zeta", "nothing"), {}, r"no parameter 'nothing'; it has \['tau', 'zeta'\]"),
        (("zeta", 3), {}, "cvxpy.Parameters or their names, received 3"),
        ({"zeta": 1, "tau": 2}, {}, "give several parameters as a tuple"),
    ):
        with pytest.raises(DeclarationError, match=words):
            fuse(machine, over=over, validation=held, **options)
    three, held = machine_of(lambda s: zeta * cp.norm1(s.alpha) + tau * s.squared_norm + eta * cp.norm_inf(s.f()))
    with pytest.raises(DeclarationError, match=r"\['eta'\] have no value"):
        fuse(three, over=(zeta, tau), validation=held)
    signed = cp.Parameter(name="signed")
    free, held = machine_of(lambda s: zeta * cp.norm1(s.alpha) + signed * s.b)
    with pytest.raises(DeclarationError, match="'signed' must be one non-negative number"):
        fuse(free, over=(zeta, signed), validation=held)
    with pytest.raises(DeclarationError, match="an estimator is fused over its one parameter"):
        fuse(FusedL1SubstrateRegressor(), ("zeta", "tau"), data=held, cv=3)


# --- many pairs -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_no_pair_of_twenty_thousand_is_below_the_bound(name):
    make, ends = MACHINES[name]
    rng = np.random.default_rng(2)
    for seed in range(10):
        X, y, V, w = rows(n=int(rng.integers(4, 14)), d=2 + seed % 2, seed=100 + seed)
        machine, parameters = make(X, y)
        best = fuse(machine, over=parameters, validation=(V, w), gap=1e-2, box=box_of(parameters, ends))
        assert best.certificate.holds, (seed, str(best.certificate))
        (fold,) = store_of(machine, parameters, ends, (V, w)).folds
        low, high = np.array(ends).T
        pairs = low + (high - low) * rng.random((2000, 2)) ** rng.choice([1.0, 4.0, 12.0], size=(2000, 1))
        chosen = np.array(list(best.values.values()))
        pairs[:500] = np.clip(chosen * (1.0 + 0.05 * rng.normal(size=(500, 2))), low, high)
        for pair in pairs:
            e = fold.errors(fold.program.solve(tuple(map(float, pair))))
            assert np.mean(e**2) >= best.lower_bound * (1.0 - ROUNDING), (seed, pair)


def test_a_penalty_that_never_vanishes_needs_an_upper_end():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 2)), rng.standard_normal(12)
    s = Substrate(RBF(1.0), X, y)
    one, two = cp.Parameter(nonneg=True, name="one"), cp.Parameter(nonneg=True, name="two")
    loss = 0.5 * cp.sum_squares(s.e) + one * cp.norm1(s.e) + two * cp.sum(cp.pos(s.f()))
    machine = Machine(s, minimize=0.5 * s.squared_norm + loss)
    with pytest.raises(DeclarationError, match=r"do not vanish .* box="):
        fuse(machine, over=(one, two), validation=(X, y))
    found = fuse(machine, over=(one, two), validation=(X, y), box={one: (0.0, 2.0), two: (0.0, 2.0)}, gap=0.1)
    assert found.proved_on == {"one": (0.0, 2.0), "two": (0.0, 2.0)}
    assert found.lower_bound <= found.validation_error
