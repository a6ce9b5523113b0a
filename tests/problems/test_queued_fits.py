"""Systems that a device solves while the host checks its rows: the same machines, and the same refusals."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from problems import LSSVMRegressor, PartiallyLinearLSSVMRegressor, SymmetricLSSVMRegressor
from substrate.device_gram import DeviceGram, HostVectors
from substrate.errors import DataError, DeclarationError, ScaleWarning, SolverError
from substrate.gram import Gram
from substrate.kernels import RBF, Componentwise
from substrate.least_squares import queued_system
from substrate.least_squares.queued_system import QueuedSystem
from substrate.least_squares.saddle_system import solve_saddle_system

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)


def spoil(values, entry):
    """Return a copy with another entry in its middle."""
    copy = values.copy()
    copy[(30, *(0 for _ in copy.shape[1:]))] = entry
    return copy


@pytest.fixture
def queued(monkeypatch):
    """Return the systems that are queued, in a list that fits fill."""
    systems, ordinary = [], QueuedSystem.queue.__func__

    def queue(cls, *arguments):
        systems.append(ordinary(cls, *arguments))
        return systems[-1]

    monkeypatch.setattr(QueuedSystem, "queue", classmethod(queue))
    return systems


def fit_waiting(model, *arrays, monkeypatch):
    """Fit with nothing queued."""
    with monkeypatch.context() as patch:
        patch.setattr(queued_system, "_MOST_ROWS", 0)
        return clone(model).fit(*(torch.as_tensor(array) for array in arrays))


TARGETS = {
    "plain": y,
    "a column": y[:, None],
    "two outputs": np.stack([y, X[:, 1]], axis=1),
    "an offset": y + 1e8,
    "large": 1e9 * y,
    "small": 1e-9 * y,
    "squares overflow": 1e200 * y,
    "squares vanish": 1e-200 * y,
    "constant": np.full(60, 3.0),
    "zero": np.zeros(60),
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_machine_is_the_same(name, queued, monkeypatch):
    model, target = LSSVMRegressor(RBF(1.5), 2.0), TARGETS[name]
    model.fit(torch.as_tensor(X), torch.as_tensor(target))
    assert queued[0] is not None
    known = fit_waiting(model, X, target, monkeypatch=monkeypatch)
    assert queued[1:] == [None]
    assert model.certificate_.holds
    assert [row.name for row in model.certificate_.rows] == [row.name for row in known.certificate_.rows]
    assert model.certificate_.record == known.certificate_.record
    assert type(model.bias_) is type(known.bias_)
    scale = np.abs(target - target.mean(axis=0)).max()
    for attribute in ("support_values_", "bias_", "ridge_", "noise_variance_"):
        found, wanted = (np.asarray(getattr(machine, attribute)) for machine in (model, known))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("n", [2, 3])
def test_few_rows_and_equal_ones(n, queued, monkeypatch):
    model, points = LSSVMRegressor(RBF(1.5), 2.0), np.repeat(X[:1], n, axis=0)
    model.fit(torch.as_tensor(points), torch.as_tensor(y[:n]))
    known = fit_waiting(model, points, y[:n], monkeypatch=monkeypatch)
    assert queued[0] is not None
    assert model.certificate_.holds
    np.testing.assert_allclose(model.support_values_, known.support_values_, rtol=0.0, atol=1e-14)


def test_what_is_queued_is_refined_as_any_solution(queued, monkeypatch):
    """A solution is off by a millionth; the residual shows it, and corrects it."""
    model, ordinary = LSSVMRegressor(RBF(1.5), 2.0), DeviceGram.solve
    known = fit_waiting(model, X, y, monkeypatch=monkeypatch)
    monkeypatch.setattr(
        DeviceGram, "solve", lambda self, B, checked=True: ordinary(self, B, checked) * (1.0 if checked else 1.000001)
    )
    model.fit(torch.as_tensor(X), torch.as_tensor(y))
    assert queued[-1] is not None
    assert known.n_iter_ == 1 < model.n_iter_
    assert model.certificate_.holds
    np.testing.assert_allclose(model.support_values_, known.support_values_, rtol=0.0, atol=1e-11)


REFUSED = {
    "NaN in X": (LSSVMRegressor(RBF(1.5)), spoil(X, np.nan), y),
    "infinity in X": (LSSVMRegressor(RBF(1.5)), spoil(X, -np.inf), y),
    "NaN in y": (LSSVMRegressor(RBF(1.5)), X, spoil(y, np.nan)),
    "infinity in y": (LSSVMRegressor(RBF(1.5)), X, spoil(y[:, None], np.inf)),
    "NaN in X and y": (LSSVMRegressor(RBF(1.5)), spoil(X, np.nan), spoil(y, np.nan)),
    "a negative gamma": (LSSVMRegressor(RBF(1.5), -1.0), X, y),
    "a gamma that is no number": (LSSVMRegressor(RBF(1.5), float("nan")), X, y),
    "a gamma that leaves the range": (LSSVMRegressor(RBF(1.5), 5e-324), X, y),
    "a wrong gamma and NaN": (LSSVMRegressor(RBF(1.5), "many"), spoil(X, np.nan), y),
    "widths of other columns": (LSSVMRegressor(RBF((1.0, 2.0))), X, y),
    "widths of other columns and NaN": (LSSVMRegressor(RBF((1.0, 2.0))), X, spoil(y, np.nan)),
    "no factor": (LSSVMRegressor(RBF(1e3), 1e19), np.repeat(X[:20], 3, axis=0), y),
    "an unknown solver": (LSSVMRegressor(RBF(1.5), solver="gauss"), X, y),
}


def refusal(fit):
    """Return the error of a fit, in words, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises((DataError, DeclarationError, SolverError)) as refused:
            fit()
    return type(refused.value), str(refused.value), [str(told.message) for told in caught]


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_the_same(name, monkeypatch):
    model, points, target = REFUSED[name]
    known = refusal(lambda: fit_waiting(model, points, target, monkeypatch=monkeypatch))
    assert refusal(lambda: model.fit(torch.as_tensor(points), torch.as_tensor(target))) == known
    assert not model.__sklearn_is_fitted__()


def test_columns_of_different_scale_are_warned_of_alike(queued, monkeypatch):
    model, points = LSSVMRegressor(RBF(3.0)), X * np.array([1.0, 1e4, 3.0])
    with pytest.warns(ScaleWarning, match=r"column 1 .* dominates column 0") as known:
        fit_waiting(model, points, y, monkeypatch=monkeypatch)
    with pytest.warns(ScaleWarning, match=r"column 1 .* dominates column 0") as found:
        model.fit(torch.as_tensor(points), torch.as_tensor(y))
    assert [str(told.message) for told in found] == [str(told.message) for told in known]
    assert [system is None for system in queued] == [True, False]


def test_another_system_is_not_answered():
    system = QueuedSystem.queue(RBF(1.5), torch.as_tensor(X), torch.as_tensor(y), 2.0)
    host, ridge = HostVectors(system.gram), np.full(60, 0.5)
    assert system.solve(host, y[:, None], 2.0 * ridge) is None
    assert system.solve(host, 1e-200 * y[:, None], ridge) is None
    solved = system.solve(host, y[:, None], ridge)
    known = solve_saddle_system(Gram.of(RBF(1.5), X), y[:, None], ridge)
    np.testing.assert_allclose(solved.support_values, known.support_values, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(solved.products, known.products, rtol=0.0, atol=1e-12)
    np.testing.assert_array_equal(host.diagonal, np.ones(60))


def test_one_cell_is_found_wherever_it_is(queued):
    for row, column, entry in ((0, 0, np.nan), (59, 2, np.inf), (30, 1, -np.inf)):
        points = X.copy()
        points[row, column] = entry
        with pytest.raises(DataError, match=r"^X contains NaN or infinity; .* a machine needs a number in every cell"):
            LSSVMRegressor(RBF(1.5)).fit(torch.as_tensor(points), torch.as_tensor(y))
    assert None not in queued


@pytest.mark.parametrize(
    "model",
    [
        LSSVMRegressor(),
        LSSVMRegressor(RBF("each")),
        LSSVMRegressor(RBF(1.5), solver="cg"),
        LSSVMRegressor(RBF(1.5), [2.0]),
        PartiallyLinearLSSVMRegressor(RBF(1.5), linear_columns=[1]),
    ],
    ids=repr,
)
def test_what_rows_decide_is_not_queued(model, queued):
    model.fit(torch.as_tensor(X), torch.as_tensor(y))
    assert [system for system in queued if system is not None] == []
    assert model.certificate_.holds


@pytest.mark.parametrize(
    "model", [SymmetricLSSVMRegressor(RBF(1.5), 2.0), LSSVMRegressor(Componentwise(RBF(1.5)), 2.0)], ids=repr
)
def test_other_kernels_are_those_of_the_fit(model, queued, monkeypatch):
    model.fit(torch.as_tensor(X), torch.as_tensor(y))
    known = fit_waiting(model, X, y, monkeypatch=monkeypatch)
    np.testing.assert_allclose(model.support_values_, known.support_values_, rtol=0.0, atol=1e-12)
    assert model.kernel_ == known.kernel_
    assert len(queued) == 2


def test_weights_are_waited_for(queued):
    weights = np.where(np.arange(60) % 7 == 0, 0.0, 1.0)
    LSSVMRegressor(RBF(1.5)).fit(*(torch.as_tensor(array) for array in (X, y, weights)))
    assert queued == []
