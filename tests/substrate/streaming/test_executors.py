"""Threads and the workers of a real Dask cluster give the bits of one process, also when a worker is killed.

A device sums in an order of its own: to rounding.
"""

import os
from dataclasses import dataclass

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF
from substrate.reduced.left_out import OutputsOfBlock
from substrate.reduced.moments import MomentsOfLeaf, Origin
from substrate.reduced.rows import KernelValues
from substrate.streaming.array_source import ArraySource, CodedSource, numbers
from substrate.streaming.dask_client import DaskClient, DaskCluster, executor_of
from substrate.streaming.executors import Joblib, Pass, Serial, SummationTree, highest, sum_over
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, Block
from substrate.streaming.sources import source_of

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

RNG = np.random.default_rng(2)
N = 40 * LEAF + 1234
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, :1])
VALUES = KernelValues(RBF(1.0), X[:8])
FUNCTION = MomentsOfLeaf(VALUES, Origin(np.zeros(8), np.zeros(1), 1.0))
OUTPUTS = OutputsOfBlock(VALUES, np.ones((8, 1)), np.ones(1))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", Y[:, 0])
    return CodedSource(source_of(folder / "X.npy", folder / "y.npy"), numbers)


def bits(sums):
    (part,) = sums.parts
    return [np.asarray(getattr(part, name)).tobytes() for name in ("count", "first", "second", "cross", "squares")]


@pytest.fixture(scope="module")
def expected():
    return bits(OpenPasses().sums(ArraySource(X, Y), FUNCTION, "sums"))


@pytest.mark.parametrize("home", HOMES)
def test_a_device_has_all_rows_in_one_block(home):
    send, n = sender(home), 2 * LEAF + 77
    here, there = ArraySource(X[:n], Y[:n]), ArraySource(send(X[:n]), send(Y[:n]))
    for passes in (OpenPasses(), OpenPasses(Joblib(2))):
        assert list(passes.each(there, lambda block: block.rows, "rows")) == [slice(0, n)]
    origin = Origin(send(np.zeros(8)), send(np.zeros(1)), 1.0)
    function = MomentsOfLeaf(KernelValues(RBF(1.0), send(X[:8])), origin)
    (wanted, _), (found, _) = (
        OpenPasses().sums(*job, "sums").moments() for job in ((here, FUNCTION), (there, function))
    )
    assert found.count == wanted.count == n
    for name in ("first", "second", "cross", "squares"):
        assert_close(getattr(found, name), getattr(wanted, name), 1e-12)


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_give_the_same_bits(files, expected, jobs):
    for source in (ArraySource(X, Y), files):
        assert bits(OpenPasses(Joblib(jobs)).sums(source, FUNCTION, "sums")) == expected


def test_other_processes_of_joblib_give_the_same_bits(files, expected):
    from joblib import parallel_config

    with parallel_config(backend="loky", n_jobs=2):
        assert bits(OpenPasses(executor_of("joblib")).sums(files, FUNCTION, "sums")) == expected


def test_dask_workers_give_the_same_bits(client, files, expected):
    da = pytest.importorskip("dask.array")
    passes = OpenPasses(DaskClient(client), memory_budget=1e6)
    for source in (files, ArraySource(X, Y)):
        assert bits(passes.sums(source, FUNCTION, "sums")) == expected
    tree = SummationTree([(1, passes.sums(ArraySource(X[: 2 * LEAF], Y[: 2 * LEAF]), FUNCTION, "sums"))])
    job = Pass(sum_over, FUNCTION, files, LEAF)
    for span, part in passes.executor.results(job, 2 * LEAF, N, 4):  # as a fit that is resumed
        tree.push(span.height, part)
    assert bits(tree.total()) == expected
    few = 5 * LEAF + 7
    collection = source_of(da.from_array(X[:few], chunks=(50_000, 2)), da.from_array(Y[:few, 0], chunks=70_000))
    alone = bits(OpenPasses().sums(ArraySource(X[:few], Y[:few]), FUNCTION, "sums"))
    assert bits(passes.sums(CodedSource(collection, numbers), FUNCTION, "sums")) == alone
    for source in (files, ArraySource(X, Y)):
        outputs = [np.concatenate(list(one.each(source, OUTPUTS, "outputs"))) for one in (OpenPasses(), passes)]
        assert np.array_equal(*outputs)
    wanted = np.array([0, 77, LEAF - 1, LEAF, 30 * LEAF + 5, N - 1])
    assert np.array_equal(passes.take_rows(files, wanted), X[wanted])


@dataclass(frozen=True)
class Deadly:
    """The sums; the worker that first comes to one leaf leaves a mark and kills itself."""

    folder: str
    deadly: int

    def __call__(self, blocks):
        held = list(blocks)
        if held[0].start == self.deadly:
            try:
                os.close(os.open(os.path.join(self.folder, "killed"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), 9)
        return FUNCTION(iter(held))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.slow
def test_a_killed_worker_changes_nothing(client, files, expected, tmp_path):
    before = set(client.scheduler_info(n_workers=-1)["workers"])
    assert len(before) == 2
    for source in (files, ArraySource(X, Y)):
        (tmp_path / "killed").unlink(missing_ok=True)
        found = OpenPasses(DaskClient(client)).sums(source, Deadly(str(tmp_path), 21 * LEAF), "sums")
        assert (tmp_path / "killed").exists(), "a worker died in the middle"
        assert bits(found) == expected
    client.wait_for_workers(2, timeout=60)
    assert set(client.scheduler_info(n_workers=-1)["workers"]) != before


def test_a_fault_on_a_worker_is_the_fault_of_the_rows(client, tmp_path):
    rows = X[: 3 * LEAF].copy()
    rows[LEAF + 3, 1] = np.nan
    np.save(tmp_path / "X.npy", rows)
    np.save(tmp_path / "y.npy", Y[: 3 * LEAF, 0])
    source = CodedSource(source_of(tmp_path / "X.npy", tmp_path / "y.npy"), numbers)
    with pytest.raises(DataError, match=rf"X\.npy.*row {LEAF + 3}, column 1"):
        OpenPasses(DaskClient(client)).sums(source, FUNCTION, "sums")


def test_rows_of_this_process_only_stay_here(client):
    source = source_of([(X[:100], Y[:100, 0])])
    for executor in (DaskClient(client), Joblib(2)):
        with pytest.raises(DataError, match="can be read by this process only"):
            OpenPasses(executor).sums(source, FUNCTION, "sums")


def test_a_large_basis_is_shared_out_among_threads(monkeypatch, expected):
    from substrate.streaming import passes

    monkeypatch.setattr(passes, "threads_for", lambda order: 3 if order >= 8 else 1)
    source = ArraySource(X, Y)
    shared = OpenPasses().share(source, 8)
    assert shared.executor == Joblib(3)
    assert bits(shared.sums(source, FUNCTION, "sums")) == expected
    assert OpenPasses().share(source, 7).executor == Serial()
    assert OpenPasses(Serial(alone=True)).share(source, 8).executor == Serial(alone=True)
    assert OpenPasses().share(source_of([(X[:9], Y[:9, 0])]), 8).executor == Serial()
    monkeypatch.setattr(passes, "available_memory", lambda: 0.0)
    assert OpenPasses().share(source, 8).executor == Serial()


def test_every_word_has_its_executor(client):
    kinds = {None: Serial, "serial": Serial, "joblib": Joblib, "dask": DaskCluster, "tcp://somewhere:8786": DaskCluster}
    for word, kind in kinds.items():
        assert type(executor_of(word)) is kind
    assert executor_of("tcp://somewhere:8786").address == "tcp://somewhere:8786"
    assert executor_of(client).client is client
    executor = Joblib(2)
    assert executor_of(executor) is executor
    for wrong in ("spark", 3, True, object()):
        with pytest.raises(DeclarationError, match="executor must be None"):
            executor_of(wrong)


def test_a_scheduler_by_its_address(client, files, expected):
    with executor_of(client.scheduler.address) as executor:
        assert bits(OpenPasses(executor).sums(files, FUNCTION, "sums")) == expected
    assert client.status == "running"


def test_the_function_sees_whole_micro_blocks():
    seen = []

    def leaf(blocks):
        seen.append([(type(block), block.start, block.X.shape[0]) for block in blocks])
        return 0

    OpenPasses(memory_budget=1.0).sums(ArraySource(X[: LEAF + 10], Y[: LEAF + 10]), leaf, "sums")
    assert seen == [[(Block, k * 4096, 4096) for k in range(4)], [(Block, LEAF, 10)]]


@dataclass
class _Depths:
    """How many additions every leaf went through."""

    additions: list[int]

    def __add__(self, other: "_Depths") -> "_Depths":
        return _Depths([1 + count for count in self.additions + other.additions])


@pytest.mark.parametrize("leaves", [1, 2, 3, 5, 8, 13, 16, 17, 31, 100])
def test_no_leaf_goes_through_more_additions_than_the_height(leaves):
    tree = SummationTree()
    for _ in range(leaves):
        tree.push(0, _Depths([0]))
    assert max(tree.total().additions) == highest(leaves * LEAF) == highest((leaves - 1) * LEAF + 1)
