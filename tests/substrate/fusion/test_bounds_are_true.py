"""No value of the parameter validates better than the bound says, by solvers that ``fuse`` does not use."""

import re

import cvxpy as cp
import numpy as np
import pytest
from small_machines import exact_fitted_values

from substrate import Machine, Substrate, fuse
from substrate.fits.coordinates import shared_coordinates
from substrate.fits.l1 import solve_l1
from substrate.fits.variation import solve_maximal_variation
from substrate.fusion.task import ValidationSet
from substrate.kernels import RBF, Componentwise, Laplacian, Linear

#: What double precision may have changed in the independent solves.
ROUNDING = 1e-9


def random_fusion(seed):
    """A machine, its parameter, validation rows, and the validation error at any value by an active set."""
    rng = np.random.default_rng(seed)
    n, d, held = int(rng.integers(5, 9)), int(rng.integers(1, 4)), int(rng.integers(3, 10))
    X, V = rng.uniform(-2.0, 2.0, size=(n, d)), rng.uniform(-2.0, 2.0, size=(held, d))
    unit, offset = (10.0 ** rng.uniform(-3.0, 3.0), 10.0 ** rng.uniform(0.0, 3.0)) if rng.random() < 0.4 else (1.0, 0.0)
    y, w = (unit * (np.sin(P[:, 0]) + 0.4 * rng.normal(size=len(P)) + offset) for P in (X, V))
    rho = cp.Parameter(nonneg=True, name="rho")
    if rng.random() < 0.5:
        kernel = Componentwise([RBF(1.5), Linear(), Laplacian(1.0)][rng.integers(3)])
        s = Substrate(kernel, X, y)
        machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))
        parts = kernel.components(d)
        coordinates, below = shared_coordinates([part(X) for part in parts]), sum(part(V, X) for part in parts)

        def error(value):
            v = solve_maximal_variation(coordinates, y, value).v
            return np.mean((w - below @ coordinates.expand(v) - coordinates.bias_of(y, v)) ** 2)
    else:
        kernel = [RBF(0.7), Linear(), Laplacian(1.0)][rng.integers(3)]
        s = Substrate(kernel, X, y)
        machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.norm1(s.alpha))
        K, below = kernel(X), kernel(V, X)

        def error(value):
            solved = solve_l1(K, y, value)
            return np.mean((w - below @ solved.coefficients - solved.bias) ** 2)

    return machine, rho, (V, w), error, rng


def scanned(seeds, values=50, gap=1e-2):
    """How many fusions have a bound, and how many of these hold; no value of any is below its bound."""
    proved = holding = 0
    for seed in seeds:
        machine, rho, held, error, rng = random_fusion(seed)
        best = fuse(machine, over=rho, validation=held, gap=gap)
        if not np.isfinite(best.lower_bound):
            assert not best.certificate.holds, seed
            continue
        proved += 1
        last = best.path.values[-1]
        tried = np.concatenate(
            [
                last * 10.0 ** rng.uniform(-9.0, 0.0, size=values // 2),
                max(best.value, 1e-6 * last) * (1.0 + 0.05 * rng.normal(size=values // 4)),
                rng.uniform(0.0, last, size=values // 8),
                last * 10.0 ** rng.uniform(0.0, 3.0, size=values - values // 2 - values // 4 - values // 8),
            ]
        )
        low, high = best.proved_on["rho"]
        for value in tried[(tried >= low) & (tried <= high)]:
            found = error(float(value))
            assert found >= best.lower_bound * (1.0 - ROUNDING), (seed, value, found, best.lower_bound)
        assert best.lower_bound <= best.validation_error
        assert best.certificate["gap of the search"].passes == (best.gap <= gap * (1.0 + 1e-9)), seed
        assert best.certificate["gap of the search"].passes or "is met" not in best.stop, seed
        holding += best.certificate.holds
    return proved, holding


def test_no_value_is_below_the_bound():
    proved, holding = scanned(range(5), gap=0.05)
    assert proved >= 4
    assert holding >= proved - 1


def test_no_value_of_a_constrained_machine_is_below_the_bound():
    """Against the exact optimum in rational arithmetic."""
    pytest.importorskip("flint", reason="the exact optimum is found in rational arithmetic")
    rng = np.random.default_rng(0)
    X, V = rng.uniform(-2.0, 2.0, size=(7, 1)), rng.uniform(-2.0, 2.0, size=(5, 1))
    y, w = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    s = Substrate(Linear(), X, y)
    held = s.f(V)
    rho = cp.Parameter(nonneg=True, name="rho")
    objective = 0.5 * cp.sum_squares(s.e) + rho * cp.norm_inf(s.component(0))
    machine = Machine(s, minimize=objective, subject_to=[s.f() <= 0.9 * y.max(), held[0] >= -3.0])
    best = fuse(machine, over=rho, validation=(V, w))
    assert best.certificate.holds, str(best.certificate)
    slope = (V - X.mean()) @ np.linalg.pinv(X - X.mean())  # of a line, from its values at X
    for value in np.append(rng.uniform(0.0, 2.0 * best.path.values[-1], size=10), best.value):
        rho.value = float(value)
        (f,) = exact_fitted_values(machine)
        assert np.mean((w - f.mean() - slope @ f) ** 2) >= best.lower_bound * (1.0 - ROUNDING)


def lasso(penalty, rules=lambda s: []):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(8, 2))
    s = Substrate(Linear(), X, X @ [1.0, -2.0] + 0.1 * rng.normal(size=8))
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * penalty(s), subject_to=rules(s))
    return machine, rho, (X[:4] + 0.1, s.y[:4])


@pytest.mark.parametrize(("worse", "is_proved"), [(1e-7, True), (0.05, False)])
def test_a_machine_that_is_solved_less_exactly_than_its_vertex_has_the_gap_that_is_stated(
    worse, is_proved, monkeypatch
):
    """The reported error is the error of the machine, and the certificate compares it with the bound."""
    total = ValidationSet.total
    machine, rho, held, _, _ = random_fusion(122)
    whole = fuse(machine, over=rho, validation=held)
    monkeypatch.setattr(ValidationSet, "total", lambda self, values: (1.0 + worse) * total(self, values))
    best = fuse(machine, over=rho, validation=held)
    assert best.certificate["gap of the search"].passes == is_proved
    assert (best.stop == "the gap of 0.01 is met") == is_proved
    assert best.stop in dict(best.certificate.record)["search"]
    assert best.lower_bound <= whole.validation_error
    if not is_proved:
        assert "machine that was solved at the best does not" in best.stop
        first_line = str(best.certificate).splitlines()[0]
        words = re.search(r"proved to be within (\S+) of the best there is, not within (\S+)\)", first_line)
        assert float(words[1]) > float(words[2])


def test_a_choice_at_an_end_says_so():
    machine, rho, (V, _) = lasso(lambda s: cp.norm1(s.alpha))
    mean = machine.substrates[0].y.mean()
    against = mean - 0.3 * (machine.solve(rho=0.1).predict(V) - mean)
    cut = fuse(machine, over=rho, validation=(V, against), box={rho: (0.0, 0.01)})
    assert dict(cut.certificate.record)["choice"] == "rho at 0.01, an end of its range; box= looks further"
