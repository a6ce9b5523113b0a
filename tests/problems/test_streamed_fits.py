"""The same call fits arrays and files: same bits, same certificate, same leave-one-out; and it can be resumed."""

import signal
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import problems
from problems import SparseLSSVMClassifier, SparseLSSVMClassifierCV, SparseLSSVMRegressor, SparseLSSVMRegressorCV
from problems.estimators.reduced.ls_svm_machine import LeftOutSums
from substrate.errors import DataError, DeclarationError, ScaleWarning
from substrate.kernels import RBF
from substrate.reduced import Basis
from substrate.streaming import Passes
from substrate.streaming.array_source import width_rows
from substrate.streaming.executors import Joblib, Serial

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(8)
N = 20_000
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.normal(size=N)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
KERNEL = RBF(1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("rows")
    inputs = {"u": X[:, 0], "v": X[:, 1]}
    pq.write_table(pa.table({**inputs, "y": Y}), made / "numbers.parquet", row_group_size=6000)
    pq.write_table(pa.table({**inputs, "c": LABELS}), made / "classes.parquet", row_group_size=7000)
    np.save(made / "X.npy", X)
    np.save(made / "y.npy", Y)
    return made


@pytest.fixture(scope="module")
def client():
    """A cluster inside this process: connections as they are, no waiting for workers to start."""
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as opened,
    ):
        yield opened


def same(one, other):
    names = ("support_values_", "bias_", "support_", "basis_", "leverage_factor_", "degrees_of_freedom_")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize(
    "basis", ["feature_vectors", "stochastic", "pivoted_cholesky", "random", np.arange(0, 900, 30)]
)
def test_a_file_is_fitted_like_an_array(folder, basis):
    n = None if isinstance(basis, np.ndarray) else 30
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(n, basis, n_candidates=400, n_scoring=200, random_state=0))
    arrays = clone(model).fit(X, Y)
    streamed = clone(model).fit(folder / "numbers.parquet", "y")
    assert same(arrays, streamed)
    assert arrays.certificate_.rows == streamed.certificate_.rows
    assert streamed.certificate_.holds
    assert list(streamed.feature_names_in_) == ["u", "v"]
    assert same(clone(model).fit(folder / "X.npy", folder / "y.npy"), arrays)


@pytest.mark.parametrize("basis", ["renyi", "kmeans++"])
def test_rules_that_need_no_matrix_choose_from_ten_times_the_candidates(basis):
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(20, rule=basis, n_candidates=30, random_state=0))
    assert "300 candidates" in dict(clone(model).fit(X, Y).certificate_.record)["basis"]
    assert "candidates" not in dict(clone(model).fit(X[:300], Y[:300]).certificate_.record)["basis"], "all of them"
    with pytest.raises(DeclarationError, match=r"basis\.n=301 exceeds the 300 candidates of basis\.n_candidates=30"):
        clone(model).set_params(basis__n=301).fit(X, Y)


def test_classes_are_learnt_from_the_file(folder):
    model = SparseLSSVMClassifier(KERNEL, 5.0, basis=Basis(25, random_state=0))
    arrays, streamed = clone(model).fit(X, LABELS), clone(model).fit(folder / "classes.parquet", "c")
    assert same(arrays, streamed)
    assert list(streamed.classes_) == ["high", "low", "middle"]
    one, other = arrays.leave_one_out(X, LABELS), streamed.leave_one_out(folder / "classes.parquet", "c")
    assert other.misclassification == pytest.approx(one.misclassification, abs=1e-12)
    assert_allclose(other.mean_square, one.mean_square, rtol=1e-10)


@pytest.mark.parametrize("criterion", ["gcv", "loo", "folds"])
def test_gamma_is_chosen_alike(folder, criterion):
    from sklearn.model_selection import KFold

    model = SparseLSSVMRegressorCV(
        KERNEL, cv=5 if criterion == "folds" else criterion, basis=Basis(15, random_state=0), gamma_range=(0.01, 10.0)
    )
    arrays = clone(model).set_params(cv=KFold(5) if criterion == "folds" else criterion).fit(X, Y)
    streamed = clone(model).fit(folder / "numbers.parquet", "y")
    assert same(arrays, streamed)
    assert (streamed.gamma_, streamed.criterion_lower_bound_) == (arrays.gamma_, arrays.criterion_lower_bound_)


def test_classes_and_gamma_together(folder):
    model = SparseLSSVMClassifierCV(KERNEL, cv="gcv", basis=Basis(15, random_state=0))
    assert same(clone(model).fit(X, LABELS), clone(model).fit(folder / "classes.parquet", "c"))


def test_leave_one_out_and_certificate_of_a_stream(folder):
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0)).fit(X, Y)
    for rows in [(folder / "numbers.parquet", "y"), (lambda: [(X, Y)],)]:
        left, known = model.leave_one_out(*rows), model.leave_one_out(X, Y)
        assert left.certificate.holds
        for name in ("press", "mean_square", "mean_absolute", "gcv", "degrees_of_freedom"):
            assert_allclose(getattr(left, name), getattr(known, name), rtol=1e-10)
        assert model.certify(*rows).holds
    model.bias_ += 1e-3
    assert not model.certify(folder / "numbers.parquet", "y").holds
    with pytest.raises(DataError, match="fitted to 20000 rows, these are 100"):
        model.certify([(X[:100], Y[:100])])


def test_executors_change_no_bit(folder, client):
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0))
    expected = clone(model).fit(X, Y)
    for executor in ("serial", "joblib", Joblib(2), client):
        model.set_params(passes__executor=executor, passes__memory_budget=1e5)
        assert same(clone(model).fit(folder / "numbers.parquet", "y"), expected)
        assert same(clone(model).fit(X, Y), expected)


def test_mapped_files_are_read_and_not_mapped(folder, monkeypatch):
    """Whatever the budget; but not where the file is not what the map shows."""
    from problems.estimators.reduced.machine import NpySource

    asked = []
    monkeypatch.setattr(
        NpySource, "from_memory_map", lambda *given, made=NpySource.from_memory_map: asked.append(1) or made(*given)
    )
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0))
    expected = clone(model).fit(X, Y)
    rows, targets = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    for budget in (1e5, 1e9):
        asked.clear()
        assert same(clone(model).set_params(passes__memory_budget=budget).fit(rows, targets), expected)
        assert len(asked) == 1
    assert type(model.fit(rows, targets).leave_one_out(rows, targets)) is LeftOutSums
    asked.clear()
    changed = np.load(folder / "X.npy", mmap_mode="c")
    changed += 1.0
    assert same(clone(model).fit(changed, targets), clone(model).fit(X + 1.0, Y)), "changes that no file has"
    assert same(clone(model).fit(rows, Y), expected), "targets in memory"
    assert asked == []


def test_what_was_written_to_a_map_is_read(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros_like(X))
    np.save(tmp_path / "y.npy", Y)
    rows = np.load(tmp_path / "X.npy", mmap_mode="r+")
    rows[:] = X
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0))
    assert same(clone(model).fit(rows, np.load(tmp_path / "y.npy", mmap_mode="r")), clone(model).fit(X, Y))
    (tmp_path / "X.npy").unlink()
    assert same(clone(model).fit(rows, np.load(tmp_path / "y.npy", mmap_mode="r")), clone(model).fit(X, Y)), "file gone"


def test_a_mapped_kernel_matrix_is_a_matrix_in_memory(tmp_path):
    np.save(tmp_path / "K.npy", KERNEL(X[:300]))
    np.save(tmp_path / "y.npy", Y[:300])
    K, y = (np.load(tmp_path / name, mmap_mode="r") for name in ("K.npy", "y.npy"))
    model = SparseLSSVMRegressor("precomputed", 5.0, basis=Basis(10, random_state=0), passes=Passes(memory_budget=1.0))
    assert np.array_equal(clone(model).fit(K, y).support_values_, clone(model).fit(np.array(K), y).support_values_)


def test_a_client_survives_clones_searches_and_files(client, tmp_path):
    model = SparseLSSVMRegressor(KERNEL, basis=Basis(10, random_state=0), passes=Passes(executor=client))
    assert clone(model).passes.executor is client
    assert clone(make_pipeline(StandardScaler(), model))[-1].passes.executor is client
    search = GridSearchCV(model, {"basis__n": [5, 10]}, cv=2).fit(X[:400], Y[:400])
    assert search.best_estimator_.passes.executor is client
    search.best_estimator_.save(tmp_path / "model.npz")
    assert problems.load(tmp_path / "model.npz").passes is None


@pytest.mark.parametrize("name", ["out.npy", "out.parquet", "out.csv"])
def test_prediction_goes_from_file_to_file(folder, tmp_path, name):
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0)).fit(folder / "numbers.parquet", "y")
    model.predict_to(folder / "numbers.parquet", tmp_path / name)
    found = {
        ".npy": lambda path: np.load(path),
        ".parquet": lambda path: pq.read_table(path)["prediction"].to_numpy(),
        ".csv": lambda path: np.loadtxt(path, skiprows=1),
    }[f".{name.split('.')[1]}"](tmp_path / name)
    assert_allclose(
        found, SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0)).fit(X, Y).predict(X), atol=1e-9
    )


def test_classes_go_to_files_with_their_outputs(folder, tmp_path):
    model = SparseLSSVMClassifier(KERNEL, 5.0, basis=Basis(25, random_state=0)).fit(X, LABELS)
    model.predict_to(folder / "X.npy", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["prediction", "decision_high", "decision_low", "decision_middle"]
    assert np.array_equal(table["prediction"].to_pylist(), model.predict(X))
    assert_allclose(table["decision_low"].to_numpy(), model.decision_function(X)[:, 1], atol=1e-9)
    model.predict_to(X, tmp_path / "out.npy")
    assert np.array_equal(np.load(tmp_path / "out.npy"), model.predict(X))


def test_nothing_is_written_by_half(folder, tmp_path):
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(10, random_state=0)).fit(X, Y)
    spoilt = X.copy()
    spoilt[-1, 0] = np.nan
    np.save(tmp_path / "spoilt.npy", spoilt)
    (tmp_path / "out.csv").write_text("what was there before", encoding="utf-8")
    with pytest.raises(DataError, match=rf"spoilt\.npy.*row {N - 1}, column 0"):
        model.predict_to(tmp_path / "spoilt.npy", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "what was there before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "spoilt.npy"]
    with pytest.raises(DataError, match="would destroy"):
        model.predict_to(tmp_path / "spoilt.npy", tmp_path / "spoilt.npy")
    with pytest.raises(DataError, match="must end in"):
        model.predict_to(folder / "X.npy", tmp_path / "out.txt")
    with pytest.raises(DataError, match="does not exist"):
        model.predict_to(folder / "X.npy", tmp_path / "nowhere" / "out.npy")
    with pytest.raises(DataError, match="predict_to"):
        model.predict(folder / "X.npy")


class Broken(Serial):
    """Stops at the first span of a pass but the first few."""

    passes = 0

    def results(self, job, start, stop, level):
        type(self).passes += 1
        yield from Serial.results(self, job, start, stop, level)
        if type(self).passes == 2:
            raise KeyboardInterrupt


def test_an_interrupted_fit_is_resumed(folder, tmp_path):
    path = tmp_path / "sums.npz"
    model = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0), passes=Passes(checkpoint=path))
    expected = SparseLSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0)).fit(X, Y)
    Broken.passes = 0
    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(passes__executor=Broken()).fit(folder / "numbers.parquet", "y")
    assert path.exists()
    for other in [{"gamma": 6.0}, {"basis__random_state": 1}, {"kernel": RBF(2.0)}, {"basis__n": 24}]:
        with pytest.raises(DataError, match="another problem"):
            clone(model).set_params(**other).fit(folder / "numbers.parquet", "y")
    with pytest.raises(DataError, match="another problem"):
        clone(model).fit([(X[:-1], Y[:-1])])
    resumed = clone(model).fit(folder / "numbers.parquet", "y")
    assert same(resumed, expected)
    assert not path.exists()
    assert same(clone(model).fit(X, Y), expected)
    with pytest.raises(DeclarationError, match=r"integer basis\.random_state"):
        clone(model).set_params(basis__random_state=None).fit(X, Y)


def test_what_cannot_be_streamed_is_refused(folder):
    parquet = folder / "numbers.parquet"
    with pytest.raises(DataError, match="regression needs numbers"):
        SparseLSSVMRegressor(KERNEL).fit(folder / "classes.parquet", "c")
    with pytest.raises(DataError, match="has no targets"):
        SparseLSSVMRegressor(KERNEL).fit(folder / "X.npy")
    with pytest.raises(DataError, match="must be in memory"):
        SparseLSSVMRegressor("precomputed").fit(parquet, "y")
    with pytest.raises(DeclarationError, match=r"passes\.executor must be"):
        SparseLSSVMRegressor(KERNEL, passes="spark").fit(X, Y)
    with pytest.raises(DeclarationError, match=r"passes\.memory_budget must be positive"):
        SparseLSSVMRegressor(KERNEL, passes=Passes(memory_budget=0.0)).fit(X, Y)
    with pytest.raises(DeclarationError, match="cv must be a number of folds, at least 2"):
        SparseLSSVMRegressorCV(KERNEL, cv=1).fit(parquet, "y")
    with pytest.raises(DataError, match="no class of the row blocks has more than 4 rows"):
        SparseLSSVMClassifierCV(KERNEL, cv=5).fit([(X[:8], np.repeat([0, 1], 4))])
    with pytest.raises(DataError, match="absent from the training rows of a fold: it has 1 rows"):
        SparseLSSVMClassifierCV(KERNEL, cv=5).fit([(X[:8], np.repeat([0, 1], [7, 1]))])
    with pytest.raises(DataError, match="one class"):
        SparseLSSVMClassifier(KERNEL).fit([(X[:50], np.zeros(50))])
    with pytest.raises(DataError, match="at least two"):
        SparseLSSVMRegressor(KERNEL).fit([(X[:1], Y[:1])])


def test_a_fault_leaves_no_fit_behind(folder, tmp_path):
    model = SparseLSSVMRegressor(KERNEL, basis=Basis(10, random_state=0)).fit(X, Y)
    spoilt = X.copy()
    spoilt[-1] = np.inf
    np.save(tmp_path / "X.npy", spoilt)
    with pytest.raises(DataError, match=rf"row {N - 1}"):
        model.fit(tmp_path / "X.npy", folder / "y.npy")
    assert not model.__sklearn_is_fitted__()


INTERRUPTED = """
import time
import dask.array as da
from problems import SparseLSSVMRegressor

def slowly(block):
    print("begun", flush=True)
    time.sleep(0.1)
    return block

X = da.random.default_rng(0).normal(size=(200 * 16384, 2), chunks=(16384, 2)).map_blocks(slowly, meta=da.zeros(1)._meta)
SparseLSSVMRegressor(basis=5).fit(X, X[:, 0])
"""


def test_an_interrupt_ends_a_fit_of_dask_with_one_traceback():
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "begun\n", child.stderr.read()
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert said.count("Traceback") == 1, said
    assert said.endswith("KeyboardInterrupt\n"), said


def test_columns_on_different_scales_are_told_of_a_stream():
    wide = X * [1.0, 1e4]
    with pytest.warns(ScaleWarning, match="dominates column 0"):
        SparseLSSVMRegressor(KERNEL, basis=Basis(5, random_state=0)).fit([(wide[:500], Y[:500])])


def test_a_width_is_found_from_some_rows():
    model = SparseLSSVMRegressor("rbf", basis=Basis(10, random_state=0))
    found = clone(model).fit(X, Y).kernel_
    assert found == RBF().resolved(X[width_rows(N)]) != RBF().resolved(X)
    assert found.sigma == pytest.approx(RBF().resolved(X).sigma, rel=0.05)
    assert clone(model).set_params(basis__random_state=1).fit(X, Y).kernel_ == found, (
        "no lot of the basis decides a width"
    )
    assert clone(model).fit(X[:3000], Y[:3000]).kernel_ == RBF().resolved(X[:3000])


@dataclass(frozen=True, repr=False)
class Unsettled(RBF):
    """A kernel of somebody else that depends on data without a word among its parameters."""

    sigma: float | str = 1.0
    settled: bool = False

    def _resolve(self, X):
        return self if self.settled else Unsettled(2.0 * float(np.std(X)), True)


def test_a_kernel_is_asked_whether_it_depends_on_data():
    model = SparseLSSVMRegressor(Unsettled(), basis=Basis(10, random_state=0))
    streamed = clone(model).fit([(X, Y)])
    assert streamed.kernel_.settled
    assert same(streamed, clone(model).fit(X, Y))
