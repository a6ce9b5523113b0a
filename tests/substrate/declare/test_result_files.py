"""Results as things: files that execute nothing, pickles, several threads, and what they show of themselves."""

import json
import pickle
import zipfile

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from substrate import LinearPart, Machine, Result, Substrate, load
from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise, Linear

RNG = np.random.default_rng(7)
X = RNG.standard_normal((14, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.standard_normal(14)
NEW = RNG.standard_normal((5, 2))


def by_rows():
    s = Substrate(RBF(1.0), X, Y)
    C = cp.Parameter(nonneg=True, name="C", value=3.0)
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def constrained():
    s = Substrate(RBF(1.0), X, Y)
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e), subject_to=[s.gradient(NEW, 0) >= -1.0])


def several():
    low, high = Substrate(RBF(1.0), X, Y, name="low"), Substrate(Linear(), X, Y, name="high")
    cost = low.squared_norm + high.squared_norm + cp.sum_squares(low.e) + cp.sum_squares(high.e)
    return Machine(low, high, minimize=cost, subject_to=[low.f() <= high.f()])


def columns():
    s = Substrate(Componentwise(RBF(1.0)), X, np.column_stack([Y, -Y]))
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e))


def partly_linear():
    s, w = Substrate(RBF(1.0), X, Y), cp.Variable(1)
    part = LinearPart(w, columns=[1])
    cost = s.squared_norm + cp.sum_squares(s.e - part(X)) + cp.sum_squares(w)
    return Machine(s, minimize=cost, predict=s + part)


def observed():
    places, slopes = [X, NEW], [Y, 2.0 * np.cos(2.0 * NEW[:, 0])]
    s = Substrate(RBF(1.0), places, slopes, observed=["value", {0: 1}])
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e))


def observed_slopes():
    slopes = np.column_stack([np.cos(NEW[:, 0]), np.sin(NEW[:, 0])])
    s = Substrate(RBF(1.0), NEW, slopes, observed={0: 1}, bias=False)
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e))


def sparse_basis():
    s = Substrate(RBF(1.0), sp.csr_matrix(X), Y, basis=[0, 3, 5, 9])
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e))


def classes():
    s = Substrate(RBF(1.0), X, np.where(Y > 0.0, 1.0, -1.0), task="classification")
    return Machine(s, minimize=0.5 * s.squared_norm + cp.sum(cp.pos(s.e)))


MACHINES = [
    by_rows,
    constrained,
    several,
    columns,
    partly_linear,
    observed,
    observed_slopes,
    sparse_basis,
    classes,
]
over_machines = pytest.mark.parametrize("build", MACHINES, ids=lambda build: build.__name__)


def assert_same(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_array_equal(found[name], expected[name])
    else:
        assert_array_equal(found, expected)


@over_machines
def test_a_file_has_all_that_predicts_and_certifies(build, tmp_path):
    result = build().solve()
    path = tmp_path / "result.npz"
    result.save(path)
    loaded = load(path)
    assert isinstance(loaded, Result)
    assert_same(loaded.predict(NEW), result.predict(NEW))
    assert str(loaded.certificate) == str(result.certificate)
    assert loaded.objective == result.objective
    assert loaded.solver_record == result.solver_record
    assert {key: float(value) for key, value in loaded.parameters.items()} == {
        key: float(value) for key, value in result.parameters.items()
    }
    for found, expected in zip(loaded.expansions, result.expansions, strict=True):
        for name in ("alpha", "b", "e", "f", "maximal_variation", "norm"):
            assert_array_equal(getattr(found, name), getattr(expected, name))
        assert_array_equal(found.derivative(NEW, {0: 1}), expected.derivative(NEW, {0: 1}))
    again = tmp_path / "again.npz"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


@over_machines
def test_results_and_machines_are_pickled(build):
    machine = build()
    result = machine.solve()
    assert_same(pickle.loads(pickle.dumps(result)).predict(NEW), result.predict(NEW))
    again = pickle.loads(pickle.dumps(machine)).solve().predict(NEW)
    for name in again if isinstance(again, dict) else (None,):
        found, expected = (again, result.predict(NEW)) if name is None else (again[name], result.predict(NEW)[name])
        assert_allclose(found, expected, atol=1e-8)


def rewritten(path, change):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "result.npz"
    by_rows().solve().save(path)
    rewritten(path, lambda header: header["content"]["fields"].update(objective=0.0))
    with pytest.raises(DataError, match="changed after it was written"):
        load(path)


def substrate_of(tree):
    """The fields of the substrate of a result of one."""
    return tree["expansions"]["items"][0]["fields"]["substrate"]["fields"]


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.pop("expansions"),
        lambda tree: tree["outputs"]["items"][0]["items"][1].update(items=[7]),
        lambda tree: tree["outputs"]["items"][0]["items"].__setitem__(0, 3),
        lambda tree: tree.update(certificate=1),
        lambda tree: tree.update(attempts={"kind": "tuple", "items": [1, 2]}),
        lambda tree: substrate_of(tree).update(kernel={"kind": "value", "class": "Foreign", "fields": {}}),
        lambda tree: substrate_of(tree).update(task="anything"),
        lambda tree: substrate_of(tree).update(name=3),
        lambda tree: substrate_of(tree).update(y=None),
    ],
)
def test_a_file_that_is_no_result_is_refused(change, tmp_path):
    path = tmp_path / "result.npz"
    by_rows().solve().save(path)
    rewritten(path, lambda header: change(header["content"]["fields"]))
    with pytest.raises(DataError):
        load(path)
