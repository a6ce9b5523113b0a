"""``fuse`` over two and three parameters: the result and its proof, folds, budgets, and what it refuses."""

import cvxpy as cp
import numpy as np
import pytest
from joint_machines import MACHINES, rows, two_groups, weights
from numpy.testing import assert_allclose

from substrate import Fusion, Machine, Substrate, fuse
from substrate.errors import DeclarationError
from substrate.kernels import RBF

#: What the solver of machines may change in a validation error, relative.
ROUNDING = 1e-6


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
    ends = box_of(parameters, [(0.0, 20.0)] * 2)
    return fuse(machine, over=parameters, validation=(V, w), gap=0.05, box=ends), machine, V, w


def test_the_result_has_values_by_name_a_bound_and_a_certificate_that_holds(fused):
    best, machine, V, w = fused
    assert isinstance(best, Fusion)
    assert list(best.values) == ["rho1", "rho2"]
    assert (best.rho1, best.rho2) == tuple(best.values.values())
    assert best.certificate.holds, str(best.certificate)
    assert "Fusion over rho1 and rho2: holds" in str(best.certificate).splitlines()[0]
    assert 0.0 < best.lower_bound <= best.validation_error
    assert best.gap <= 0.05
    assert best.stop == "the gap of 0.05 is met"
    at = [[max(best.rho1, 1e-9), max(best.rho2, 1e-9)]]
    assert_allclose(errors_at(machine, best.values, at, V, w), best.validation_error, rtol=1e-4)
    assert_allclose(best.predict(V), best.result.predict(V))


def test_no_pair_is_below_the_bound(fused):
    """By the solver of machines, which the search does not use.

    :equation [Pelckmans2005]_ (28): fusion over several weights at once
    """
    best, machine, V, w = fused
    rng = np.random.default_rng(0)
    tried = 20.0 * rng.random((6, 2)) ** 4
    near = np.array(list(best.values.values())) * (1.0 + 0.1 * rng.normal(size=(3, 2)))
    errors = errors_at(machine, best.values, np.vstack([tried, np.clip(near, 1e-9, 20.0)]), V, w)
    assert (errors >= best.lower_bound * (1.0 - ROUNDING)).all()


def test_the_path_holds_vertices_and_simplices_that_cover_the_box(fused):
    path = fused[0].path
    assert path.parameters == ("rho1", "rho2")
    assert path.values.shape == (len(path), 2)
    assert path.simplices.shape == (path.bounds.size, 3)
    assert path.bounds.min() >= fused[0].lower_bound * (1.0 - 1e-12)
    corners = path.values[path.simplices]
    sides = corners[:, 1:] - corners[:, :1]
    areas = 0.5 * np.abs(sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0])
    assert_allclose(areas.sum(), 400.0, rtol=1e-9)


def test_the_map_shows_the_optimum_and_the_bound(fused):
    pytest.importorskip("matplotlib").use("Agg")
    best = fused[0]
    axes = best.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rho1", "rho2")
    (mark,) = [line for line in axes.get_lines() if line.get_label().startswith("best")]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (best.rho1, best.rho2)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert any(f"lower bound {best.lower_bound:.4g}" in label for label in labels)
    with pytest.raises(DeclarationError, match="over names two of the parameters"):
        best.plot(over=("rho1", "rho1"))


@pytest.mark.parametrize("name", ["L1 and ridge", "variation and ridge"])
def test_no_pair_of_any_machine_is_below_the_bound(name):
    make, ends = MACHINES[name]
    X, y, V, w = rows(n=8, d=2, seed=3)
    machine, parameters = make(X, y)
    best = fuse(machine, over=parameters, validation=(V, w), gap=0.1, box=box_of(parameters, ends))
    assert best.certificate.holds, str(best.certificate)
    low, high = np.array(ends).T
    tried = np.maximum(low + (high - low) * np.random.default_rng(1).random((8, 2)) ** 4, 1e-9)
    assert (errors_at(machine, best.values, tried, V, w) >= best.lower_bound * (1.0 - ROUNDING)).all()


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
    with pytest.raises(DeclarationError, match=r"one to three parameters with a proof, received 4.*give all but three"):
        fuse(four, over=(a, b, c, d), validation=held)
    inside, held = machine_of(lambda s: a * cp.norm1(s.alpha) + cp.norm1(b * s.f() - 1.0))
    with pytest.raises(DeclarationError, match="'b' multiplies a variable"):
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


def test_boxes_and_parameters_that_make_no_sense_are_refused():
    zeta, tau = weights("zeta", "tau")
    machine, held = machine_of(lambda s: zeta * cp.norm1(s.alpha) + tau * s.squared_norm)
    for box, words in (
        ([(0, 1), (1, 2)], "box is a dict of"),
        ({"rho": (0, 1)}, "box has a range for 'rho', which is not fused over"),
        ({"zeta": 3}, "must be two numbers"),
        ({"zeta": (2, 1)}, "low < high"),
        ({"zeta": (-1, 1)}, "is not negative, and its range begins at -1"),
        ({"zeta": (0, np.nan)}, "low < high"),
    ):
        with pytest.raises(DeclarationError, match=words):
            fuse(machine, over=(zeta, tau), validation=held, box=box)
    for over, words in (
        (("zeta", "zeta"), "named twice"),
        (("zeta", "nothing"), r"no parameter 'nothing'; it has \['tau', 'zeta'\]"),
        (("zeta", 3), "over is a cvxpy.Parameter or its name, or a tuple of them"),
        ({"zeta": 1, "tau": 2}, "over is a cvxpy.Parameter or its name, or a tuple of them"),
        ("zeta", r"the parameters \['tau'\] have no value"),
    ):
        with pytest.raises(DeclarationError, match=words):
            fuse(machine, over=over, validation=held)
