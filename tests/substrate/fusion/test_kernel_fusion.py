"""``fuse_kernels``: a list of kernels above the weights, with one statement for the whole list."""

import cvxpy as cp
import numpy as np
import pytest

from substrate import Fusion, Machine, Substrate, fuse, fuse_kernels
from substrate.errors import DeclarationError, SolverError
from substrate.kernels import RBF, Laplacian, Linear

BOX = {"C": (0.1, 10.0)}


def halves(seed=0, n=12):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(2 * n, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=2 * n)
    return {"data": (X[:n], y[:n]), "validation": (X[n:], y[n:])}


def tube(kernel, X, y):
    s, C = Substrate(kernel, X, y), cp.Parameter(nonneg=True, name="C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def two_weights(kernel, X, y):
    s = Substrate(kernel, X, y)
    zeta, tau = (cp.Parameter(nonneg=True, name=name) for name in ("zeta", "tau"))
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha) + tau * cp.sum_squares(s.alpha))


@pytest.fixture(scope="module")
def chosen():
    return fuse_kernels(tube, [RBF(0.5), RBF(1.5), Linear()], "C", gap=0.05, box=BOX, **halves())


def test_the_statement_covers_the_whole_list(chosen):
    """:equation [Pelckmans2005]_ (28): no kernel of the list validates better at any weight"""
    assert chosen.certificate.holds, str(chosen.certificate)
    assert list(chosen.fusions) == ["RBF(sigma=0.5)", "RBF(sigma=1.5)", "Linear()"]
    assert chosen.lower_bound == min(one.lower_bound for one in chosen.fusions.values())
    assert chosen.validation_error == min(one.validation_error for one in chosen.fusions.values())
    assert chosen.gap <= 0.05
    assert chosen.proved_on == BOX
    rng = np.random.default_rng(0)
    known = halves()
    for kernel in (RBF(0.5), RBF(1.5), Linear()):
        machine = tube(kernel, *known["data"])
        X, y = known["validation"]
        for value in 10.0 ** rng.uniform(-1.0, 1.0, size=5):
            error = np.mean((y - machine.solve(C=float(value)).predict(X)) ** 2)
            assert error >= chosen.lower_bound * (1.0 - 1e-6)


def test_it_says_what_is_not_covered(chosen):
    first = str(chosen.certificate).splitlines()[0]
    assert first.startswith("Fusion over C and 3 kernels, those listed and none between: holds")
    facts = chosen.certificate.record
    assert ("kernel chosen", chosen.name) in facts
    assert "widths" in dict(facts)["not covered"]
    assert "C from 0.1 to 10" in dict(facts)["kernel Linear()"]


def test_the_chosen_machine_is_returned(chosen):
    X, y = halves()["validation"]
    assert isinstance(chosen, Fusion)
    assert chosen.kernel == RBF(0.5)
    assert chosen.best is chosen.fusions[chosen.name]
    assert chosen.C == chosen.values["C"] == chosen.best.value
    np.testing.assert_allclose(np.mean((y - chosen.predict(X)) ** 2), chosen.validation_error, rtol=1e-9)
    alone = fuse(lambda *rows: tube(RBF(0.5), *rows), over="C", gap=0.05, box=BOX, **halves())
    assert alone.validation_error == chosen.validation_error


def test_every_path_is_drawn(chosen):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = chosen.plot()
    labels = [line.get_label() for line in ax.lines]
    assert labels[:3] == list(chosen.fusions)
    assert labels[3].startswith("best: RBF(sigma=0.5), C = ")
    assert labels[4] == "lower bound, 3 kernels"
    plt.close(ax.figure)


def test_two_weights_and_folds():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = halves(n=8)["data"]
    found = fuse_kernels(
        two_weights,
        {"wide": RBF(2.0), "rough": Laplacian(1.0)},
        ("zeta", "tau"),
        data=(X, y),
        cv=2,
        gap=0.3,
        box={"zeta": (0.1, 1.0), "tau": (0.1, 1.0)},
    )
    assert set(found.values) == {"zeta", "tau"}
    assert found.lower_bound == min(one.lower_bound for one in found.fusions.values())
    axes = found.plot()
    assert [ax.get_title().removesuffix(", chosen") for ax in axes] == ["wide", "rough"]
    plt.close(axes[0].figure)
    with pytest.raises(DeclarationError, match="axes of their own"):
        found.plot(ax=axes[0])


def test_what_is_not_proved_of_one_is_not_proved_of_the_list():
    found = fuse_kernels(tube, [RBF(0.5), RBF(1.5)], "C", gap=1e-9, box=BOX, budget=12, **halves())
    assert not found.certificate.holds
    assert "DOES NOT HOLD" in str(found.certificate).splitlines()[0]
    assert found.lower_bound <= found.validation_error


def test_a_kernel_that_fails_leaves_nothing_proved():
    def build(kernel, X, y):
        if kernel == Linear():
            raise SolverError("no point was found")
        return tube(kernel, X, y)

    found = fuse_kernels(build, [RBF(1.5), Linear()], "C", gap=0.05, box=BOX, **halves())
    assert not found.certificate.holds
    assert found.lower_bound == -np.inf
    assert found.failures == {"Linear()": "no point was found"}
    assert dict(found.certificate.record)["kernel Linear()"] == "not fused, no point was found"
    with pytest.raises(SolverError, match="no kernel of the list"):
        fuse_kernels(build, [Linear()], "C", gap=0.05, box=BOX, **halves())


def test_an_interrupt_keeps_what_was_found():
    calls = []

    def interrupt(*state):
        calls.append(state)
        if len(calls) == 3:
            raise KeyboardInterrupt

    found = fuse_kernels(tube, [RBF(1.5), Linear()], "C", gap=1e-3, box=BOX, progress=interrupt, **halves())
    assert list(found.fusions) == ["RBF(sigma=1.5)"]
    assert found.failures == {"Linear()": "interrupted"}
    assert not found.certificate.holds


@pytest.mark.parametrize(
    ("kernels", "words"),
    [([], "is empty"), ([RBF(1.0), RBF(1.0)], "the same one twice"), ("rbf", "a list of kernels"), (3, "a list of")],
)
def test_bad_lists_are_refused(kernels, words):
    with pytest.raises(DeclarationError, match=words):
        fuse_kernels(tube, kernels, "C", **halves())
    with pytest.raises(DeclarationError, match="build is a function"):
        fuse_kernels(None, [RBF(1.0)], "C", **halves())
