"""Threads and Dask, in this process and on a cluster, give the bits of one thread, also when a worker is killed.

A device sums in an order of its own: to rounding.
"""

import os
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender

from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.reduced.left_out import OutputsOfBlock
from substrate.reduced.moments import MomentsOfLeaf, Origin
from substrate.reduced.rows import KernelValues
from substrate.streaming.array_source import ArraySource, PreparedSource, numbers
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, Block
from substrate.streaming.sources import source_of
from substrate.streaming.summation import SummationTree, highest

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(2)
N = 40 * LEAF + 1234
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, :1])
VALUES = KernelValues(RBF(1.0), X[:8])
FUNCTION = MomentsOfLeaf(VALUES, Origin(np.zeros(8), np.zeros(1), 1.0))
OUTPUTS = OutputsOfBlock(VALUES, np.ones((8, 1)), np.ones(1))


@pytest.fixture(scope="module")
def cluster():
    """Two processes, which compute what Dask is given while the client is the present one."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as opened,
        distributed.Client(opened, set_as_default=False) as client,
    ):
        yield client


def collection():
    return PreparedSource(
        source_of(da.from_array(X, chunks=(50_000, 2)), da.from_array(Y[:, 0], chunks=70_000)), numbers
    )


def bits(sums):
    (part,) = sums.parts
    return [np.asarray(getattr(part, name)).tobytes() for name in ("count", "first", "second", "cross", "squares")]


@pytest.fixture(scope="module")
def expected():
    return bits(OpenPasses().sums(ArraySource(X, Y), FUNCTION))


@pytest.mark.parametrize("home", HOMES)
def test_a_device_has_all_rows_in_one_block(home):
    send, n = sender(home), 2 * LEAF + 77
    here, there = ArraySource(X[:n], Y[:n]), ArraySource(send(X[:n]), send(Y[:n]))
    for passes in (OpenPasses(), OpenPasses(threads=2)):
        assert list(passes.each(there, lambda block: block.rows)) == [slice(0, n)]
    origin = Origin(send(np.zeros(8)), send(np.zeros(1)), 1.0)
    function = MomentsOfLeaf(KernelValues(RBF(1.0), send(X[:8])), origin)
    (wanted, _), (found, _) = (OpenPasses().sums(*job).moments() for job in ((here, FUNCTION), (there, function)))
    assert found.count == wanted.count == n
    for name in ("first", "second", "cross", "squares"):
        assert_close(getattr(found, name), getattr(wanted, name), 1e-12)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_bits(expected, threads):
    passes = OpenPasses(threads=threads)
    assert bits(passes.sums(ArraySource(X, Y), FUNCTION)) == expected
    outputs = [np.concatenate(list(one.each(ArraySource(X, Y), OUTPUTS))) for one in (OpenPasses(), passes)]
    assert np.array_equal(*outputs)


def test_dask_gives_the_same_bits(expected):
    passes = OpenPasses()
    assert bits(passes.sums(collection(), FUNCTION)) == expected
    outputs = [np.concatenate(list(passes.each(rows, OUTPUTS))) for rows in (ArraySource(X, Y), collection())]
    assert np.array_equal(*outputs)
    wanted = np.array([0, 77, LEAF - 1, LEAF, 30 * LEAF + 5, N - 1])
    assert np.array_equal(collection().take_rows(wanted), X[wanted])


def test_weights_travel_with_the_rows_of_dask():
    weights = RNG.integers(0, 3, size=N).astype(float)
    kept = np.flatnonzero(weights)
    source = PreparedSource(collection().inner, numbers, weights[kept], kept)
    expected = OpenPasses().sums(ArraySource(X[kept], Y[kept], weights=weights[kept]), FUNCTION)
    assert bits(OpenPasses().sums(source, FUNCTION)) == bits(expected)


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
def test_a_killed_worker_changes_nothing(cluster, expected, tmp_path):
    before = set(cluster.scheduler_info(n_workers=-1)["workers"])
    assert len(before) == 2
    with cluster.as_current():
        found = OpenPasses().sums(collection(), Deadly(str(tmp_path), 21 * LEAF))
    assert (tmp_path / "killed").exists(), "a worker died in the middle"
    assert bits(found) == expected
    cluster.wait_for_workers(2, timeout=60)
    assert set(cluster.scheduler_info(n_workers=-1)["workers"]) != before


def test_a_fault_on_a_worker_is_the_fault_of_the_rows(cluster):
    rows = X[: 3 * LEAF].copy()
    rows[LEAF + 3, 1] = np.nan
    source = source_of(da.from_array(rows, chunks=(5000, 2)), da.from_array(Y[: 3 * LEAF, 0], chunks=5000))
    for present in (nullcontext(), cluster.as_current()):
        with present, pytest.raises(DataError, match=rf"the Dask collection, .*row {LEAF + 3}, column 1"):
            OpenPasses().sums(PreparedSource(source, numbers), FUNCTION)


def test_a_large_basis_is_shared_out_among_threads(monkeypatch, expected):
    from substrate.streaming import passes

    monkeypatch.setattr(passes, "threads_for", lambda order: 3 if order >= 8 else 1)
    source = ArraySource(X, Y)
    shared = OpenPasses().share(source, 8)
    assert shared.threads == 3
    assert bits(shared.sums(source, FUNCTION)) == expected
    assert OpenPasses().share(source, 7).threads == 1
    assert OpenPasses().share(source_of([(X[:9], Y[:9, 0])]), 8).threads == 1
    monkeypatch.setattr(passes, "available_memory", lambda: 0.0)
    assert OpenPasses().share(source, 8).threads == 1


def test_the_function_sees_whole_micro_blocks():
    seen = []

    def leaf(blocks):
        seen.append([(type(block), block.start, block.X.shape[0]) for block in blocks])
        return 0

    OpenPasses().sums(ArraySource(X[: LEAF + 10], Y[: LEAF + 10]), leaf)
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
