"""Results as things: files that execute nothing, pickles, several threads, and what they show of themselves."""

import json
import pickle
import threading
import zipfile

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from substrate import Column, LinearOperator, LinearPart, Machine, Measure, Result, Substrate, load
from substrate.errors import DataError, DeclarationError, ModelFileWarning
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
        assert_array_equal(found.gradient(NEW, 0), expected.gradient(NEW, 0))
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


def test_measures_and_weighted_outputs_are_saved(tmp_path):
    """Integrals against measures, multiples, columns of X and variables of the user's own in an output."""
    path, s, shift = tmp_path / "result.npz", Substrate(RBF(1.0), X, Y), cp.Variable(name="shift")
    squares = s.squared_norm + cp.sum_squares(s.e)
    mean = [s.integral(Measure.of_points(X[:3], [0.5, 0.25, 0.25])) == 0.3]
    for machine in (
        Machine(s, minimize=squares, subject_to=mean),
        Machine(s, minimize=squares + cp.square(shift - 1.0), predict=2.0 * s - shift + 3.0),
        Machine(s, minimize=squares, predict=s * Column(1)),
    ):
        result = machine.solve()
        result.save(path)
        assert_array_equal(load(path).predict(NEW), result.predict(NEW))
    machine = Machine(s, minimize=squares, predict=s * (lambda rows: rows[:, 0]))
    with pytest.raises(DataError, match="is a function"):
        machine.solve().save(path)


def test_a_measure_that_does_not_fit_its_machine_is_refused(tmp_path):
    """Boxes of other columns."""
    path, s = tmp_path / "result.npz", Substrate(RBF(1.0), X, Y)
    machine = Machine(
        s, minimize=s.squared_norm + cp.sum_squares(s.e), subject_to=[s.integral(Measure.of_points(X[:3])) == 0.3]
    )
    machine.solve().save(path)

    def spoil(header):
        text = json.dumps(header)
        found = json.loads(text)
        entry = next(e for e in _entries(found) if isinstance(e, dict) and e.get("class") == "Measure")
        entry["fields"]["boxes"] = {"kind": "list", "items": [1.0]}
        header.clear()
        header.update(found)

    rewritten(path, spoil)
    with pytest.raises(DataError, match=r"boxes|belong to nothing"):
        load(path)


def _entries(tree):
    """All parts of a tree of lists and dicts."""
    yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _entries(child)


def test_functions_are_refused_before_a_file_appears(tmp_path):
    path = tmp_path / "result.npz"
    s, w = Substrate(RBF(1.0), X, Y), cp.Variable(1)
    part = LinearPart(w, features=lambda rows: np.tanh(rows[:, :1]))
    cost = s.squared_norm + cp.sum_squares(s.e - part(X)) + cp.sum_squares(w)
    with pytest.raises(DataError, match="is a function"):
        Machine(s, minimize=cost, predict=s + part).solve().save(path)
    t = Substrate(RBF(1.0), X, Y)
    heat = (lambda rows: 1.0 + rows[:, 0] ** 2) * LinearOperator.derivative({0: 1})
    machine = Machine(t, minimize=t.squared_norm + cp.sum_squares(t.e), subject_to=[t.apply(heat, NEW) >= -1.0])
    with pytest.raises(DataError, match="is a function"):
        machine.solve().save(path)
    own = Substrate(lambda A, B: A @ B.T + 1.0, X, Y)
    with pytest.raises(DataError, match="is a function and cannot be saved"):
        Machine(own, minimize=own.squared_norm + cp.sum_squares(own.e)).solve().save(path)
    assert not path.exists()


def rewritten(path, change):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_a_changed_file_does_not_hold(tmp_path):
    path = tmp_path / "result.npz"
    by_rows().solve().save(path)
    rewritten(path, lambda header: header["content"]["fields"].update(objective=0.0))
    with pytest.warns(ModelFileWarning, match="changed after it was written"):
        loaded = load(path)
    assert not loaded.certificate.holds


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


def test_a_model_is_no_result(tmp_path):
    from problems import LSSVMRegressor

    path = tmp_path / "model.npz"
    LSSVMRegressor().fit(X, Y).save(path)
    with pytest.raises(DataError, match=r"problems\.load"):
        load(path)


def test_several_threads_solve_machines_and_predict():
    """One machine that all share, each at its own parameter, and one that each has to itself."""
    shared, expected = by_rows(), {}
    for C in (0.5, 1.0, 2.0, 4.0):
        expected[C] = by_rows().solve(C=C).predict(NEW)
    found, failed = {}, []

    def work(C):
        try:
            own = by_rows()
            for _ in range(3):
                found[C, "shared"] = shared.solve(C=C).predict(NEW)
                found[C, "own"] = own.solve(C=C).predict(NEW)
        except Exception as error:  # an exception of a thread is no failure of a test
            failed.append(error)

    threads = [threading.Thread(target=work, args=(C,)) for C in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for (C, _), values in found.items():
        assert_allclose(values, expected[C], atol=1e-8)


def test_they_show_what_they_are():
    machine = by_rows()
    result = machine.solve(C=2.0)
    assert {"alpha", "b", "f", "norm", "predict", "save", "certificate"} <= set(dir(result))
    assert repr(result).startswith("<Result: objective ")
    assert "C=2.0; its certificate holds; <Substrate: RBF(sigma=1.0), regression, 14 rows>" in repr(result)
    assert repr(machine) == "<Machine on <Substrate: RBF(sigma=1.0), regression, 14 rows>, parameters C>"
    both = several().solve()
    assert "alpha" not in dir(both)
    assert "<Substrate 'low': RBF" in repr(both)
    assert "1 constraint" in repr(several())


def test_options_of_a_solver_are_passed_on_and_judged():
    machine = constrained()
    loose = {"tol_gap_abs": 1e-1, "tol_gap_rel": 1e-1, "tol_feas": 1e-1, "max_iter": 2}
    with pytest.warns(ConvergenceWarning, match="does not hold"):
        rough = machine.solve("CLARABEL", options=loose)
    assert not rough.certificate.holds
    assert machine.solve("CLARABEL", options={"max_iter": 300}).certificate.holds
    with pytest.raises(DeclarationError, match="has no option"):
        machine.solve("CLARABEL", options={"no_such_option": 1})
    with pytest.raises(DeclarationError, match="belong to one solver"):
        by_rows().solve(options={"max_iter": 3})
