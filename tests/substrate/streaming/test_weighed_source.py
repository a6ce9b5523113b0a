"""Rows with weights: those of weight zero are absent, wherever rows are, and every other one has its own weight."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from substrate.errors import DataError
from substrate.streaming.array_source import ArraySource, CodedSource, numbers
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, MICRO, Block
from substrate.streaming.sources import source_of
from substrate.streaming.weighed_source import WeighedSource, weights_of_source

RNG = np.random.default_rng(5)
N = LEAF + MICRO + 5
X = RNG.normal(size=(N, 2))
Y = RNG.normal(size=N)
V = RNG.uniform(0.5, 2.0, size=N) * (RNG.random(N) > 0.3)
V[MICRO : 2 * MICRO + 7] = 0.0  # a micro-block of which nothing is left
KEPT = np.flatnonzero(V)


@pytest.fixture(params=["Dask", "blocks"], name="rows")
def _rows(request):
    if request.param == "blocks":
        return source_of([(X[k : k + 777], Y[k : k + 777]) for k in range(0, N, 777)])
    da = pytest.importorskip("dask.array")
    return source_of(da.from_array(X, chunks=(999, 2)), da.from_array(Y, chunks=999))


def weighed(rows):
    return WeighedSource(rows, V[KEPT], KEPT)


def joined(blocks):
    return [np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "Y", "weights")]


@pytest.mark.parametrize("step", [MICRO, 3 * MICRO])
def test_the_rows_left_are_numbered_without_the_others(rows, step):
    source = weighed(rows)
    assert (source.n_rows, source.n_features) == (KEPT.size, 2)
    for start, stop in ((0, KEPT.size), (MICRO, 2 * MICRO + 11)):
        blocks = list(source.blocks(start, stop, step))
        assert [block.start for block in blocks] == list(range(start, stop, step))
        here = KEPT[start:stop]
        for found, expected in zip(joined(blocks), (X[here], Y[here], V[here]), strict=True):
            assert_array_equal(found, expected)
    some = np.array([0, 3, MICRO, KEPT.size - 1])
    assert_array_equal(source.take_rows(some), X[KEPT[some]])
    assert_array_equal(source.row_weights(), V[KEPT])


def test_without_zeros_rows_keep_their_numbers_and_without_weights_their_blocks(rows):
    ones = WeighedSource(rows, np.arange(1.0, N + 1.0))
    (block,) = ones.blocks(MICRO, MICRO + 9, MICRO)
    assert_array_equal(block.weights, np.arange(MICRO + 1.0, MICRO + 10.0))
    plain = WeighedSource(rows, None, KEPT)
    assert plain.row_weights() is None
    assert next(iter(plain.blocks(0, 5, MICRO))).weights is None


def test_derived_sources_hand_weights_on(rows):
    coded = CodedSource(weighed(rows), numbers)
    (block,) = coded.blocks(0, 40, MICRO)
    assert_array_equal(block.weights, V[KEPT[:40]])
    assert_array_equal(block.X, X[KEPT[:40]])
    assert_array_equal(coded.row_weights(), V[KEPT])


@pytest.mark.parametrize("numbered", [True, False])
def test_a_delayed_span_has_its_part_of_the_weights(numbered):
    da = pytest.importorskip("dask.array")
    rows = source_of(da.from_array(X, chunks=(999, 2)), da.from_array(Y, chunks=999))
    source = weighed(rows) if numbered else WeighedSource(rows, V + 1.0)
    start, stop = MICRO, 2 * MICRO
    span = CodedSource(source, numbers).delay(start, stop).compute()
    assert span.row_weights().size == MICRO
    for found, expected in zip(span.blocks(start, stop, 1000), source.blocks(start, stop, 1000), strict=True):
        assert_array_equal(found.X, expected.X)
        assert_array_equal(found.Y[:, 0], expected.Y)
        assert_array_equal(found.weights, expected.weights)
        assert found.start == expected.start


def test_arrays_have_weights_in_every_block():
    source = ArraySource(X, Y[:, None], weights=V)
    assert_array_equal(source.block_in_memory.weights, V)
    parts = list(OpenPasses().each(source, _weights, "weights"))
    assert_array_equal(np.concatenate(parts), V)


def _weights(block: Block):
    return block.weights


def test_weights_come_as_numbers_or_from_dask(rows):
    for given in (V, V.tolist(), Lazy()):
        assert_array_equal(weights_of_source(given, rows), V)


class Lazy:
    """What is asked of a Dask collection."""

    @staticmethod
    def compute():
        return V


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (V[:-1], rf"one entry per row: .* has {N} rows, received {N - 1}; give one weight for each"),
        (V - 1.0, "sample_weight must not be negative, received -1.0 at row"),
        (np.where(np.arange(N) == 4, np.nan, V), "sample_weight contains NaN or infinity"),
        (np.zeros(N), f"at least two rows of positive weight are needed, received 0 of {N}"),
        ("weight", "sample_weight must hold real numbers"),
        (np.ma.array(V), "sample_weight.*mask"),
        (V[:, None], "sample_weight"),
    ],
)
def test_other_weights_are_refused(rows, spoilt, message):
    with pytest.raises(DataError, match=message):
        weights_of_source(spoilt, rows)
