"""Threads and Dask, in this process and on a cluster, give the bits of one thread, also when a worker is killed.

A device sums in another order: to rounding.
"""

import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender

from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.reduced.features import Origin, sum_moments
from substrate.reduced.rows import KernelValues
from substrate.reduced.spectrum import outputs_of_block
from substrate.streaming import passes
from substrate.streaming.passes import each_block, sum_blocks
from substrate.streaming.rows import BLOCK_ROWS, SPAN_ROWS, ArraySource, numbers, source_of

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(2)
N = 10 * SPAN_ROWS + 1234
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, :1])
VALUES = KernelValues(RBF(1.0), X[:8])
FUNCTION = partial(sum_moments, VALUES, Origin(np.zeros(8), np.zeros(1), 1.0), None, None)
OUTPUTS = partial(outputs_of_block, VALUES, np.ones((8, 1)), np.ones(1))


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
    return replace(source_of(da.from_array(X, chunks=(50_000, 2)), da.from_array(Y[:, 0], chunks=70_000)), code=numbers)


def bits(sums):
    (part,) = sums.parts
    return [np.asarray(getattr(part, name)).tobytes() for name in ("count", "first", "second", "cross", "squares")]


@pytest.fixture(scope="module")
def expected():
    return bits(sum_blocks(ArraySource(X, Y), FUNCTION))


@pytest.mark.parametrize("home", HOMES)
def test_a_device_has_all_rows_in_one_block(home):
    send, n = sender(home), 2 * BLOCK_ROWS + 77
    here, there = ArraySource(X[:n], Y[:n]), ArraySource(send(X[:n]), send(Y[:n]))
    assert list(each_block(there, lambda block: block.rows)) == [slice(0, n)]
    origin = Origin(send(np.zeros(8)), send(np.zeros(1)), 1.0)
    function = partial(sum_moments, KernelValues(RBF(1.0), send(X[:8])), origin, None, None)
    (wanted, _), (found, _) = (sum_blocks(*job).moments() for job in ((here, FUNCTION), (there, function)))
    assert found.count == wanted.count == n
    for name in ("first", "second", "cross", "squares"):
        assert_close(getattr(found, name), getattr(wanted, name), 1e-12)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_bits(monkeypatch, expected, threads):
    monkeypatch.setattr(passes, "threads_for", lambda order: threads if order >= 8 else 1)
    assert bits(sum_blocks(ArraySource(X, Y), FUNCTION, 8)) == expected
    outputs = [np.concatenate(list(each_block(ArraySource(X, Y), OUTPUTS, order))) for order in (0, 8)]
    assert np.array_equal(*outputs)


def test_dask_gives_the_same_bits(expected):
    assert bits(sum_blocks(collection(), FUNCTION)) == expected
    outputs = [np.concatenate(list(each_block(rows, OUTPUTS))) for rows in (ArraySource(X, Y), collection())]
    assert np.array_equal(*outputs)
    wanted = np.array([0, 77, BLOCK_ROWS - 1, BLOCK_ROWS, 9 * SPAN_ROWS + 5, N - 1])
    assert np.array_equal(collection().take_rows(wanted), X[wanted])


def test_weights_travel_with_the_rows_of_dask():
    weights = RNG.integers(0, 3, size=N).astype(float)
    kept = np.flatnonzero(weights)
    source = replace(collection(), weights=weights[kept], kept=kept)
    expected = sum_blocks(ArraySource(X[kept], Y[kept], weights=weights[kept]), FUNCTION)
    assert bits(sum_blocks(source, FUNCTION)) == bits(expected)


@dataclass(frozen=True)
class Deadly:
    """The sums; the worker that first comes to one block leaves a mark and kills itself."""

    folder: str
    deadly: int

    def __call__(self, block):
        if block.start == self.deadly:
            try:
                os.close(os.open(os.path.join(self.folder, "killed"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), 9)
        return FUNCTION(block)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.slow
def test_a_killed_worker_changes_nothing(cluster, expected, tmp_path):
    before = set(cluster.scheduler_info(n_workers=-1)["workers"])
    assert len(before) == 2
    with cluster.as_current():
        found = sum_blocks(collection(), Deadly(str(tmp_path), 5 * SPAN_ROWS + BLOCK_ROWS))
    assert (tmp_path / "killed").exists(), "a worker died in the middle"
    assert bits(found) == expected
    cluster.wait_for_workers(2, timeout=60)
    assert set(cluster.scheduler_info(n_workers=-1)["workers"]) != before


def test_a_fault_on_a_worker_is_the_fault_of_the_rows(cluster):
    rows = X[: 3 * BLOCK_ROWS].copy()
    rows[BLOCK_ROWS + 3, 1] = np.nan
    source = source_of(da.from_array(rows, chunks=(5000, 2)), da.from_array(Y[: 3 * BLOCK_ROWS, 0], chunks=5000))
    for present in (nullcontext(), cluster.as_current()):
        with present, pytest.raises(DataError, match=rf"the Dask collection, .*row {BLOCK_ROWS + 3}, column 1"):
            sum_blocks(replace(source, code=numbers), FUNCTION)
