"""A pass that is broken off goes on where it was, to the same bits; another problem's file is refused."""

import numpy as np
import pytest

from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.progress import RowProgress
from substrate.reduced.folds import ConsecutiveFolds
from substrate.reduced.moments import FoldSums, MomentsOfLeaf, Origin
from substrate.reduced.rows import KernelValues
from substrate.streaming.array_source import ArraySource
from substrate.streaming.executors import Joblib, Serial, SummationTree
from substrate.streaming.passes import Checkpoint, OpenPasses, digest
from substrate.streaming.source import LEAF

RNG = np.random.default_rng(4)
N = 21 * LEAF + 99
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, :1])
FUNCTION = MomentsOfLeaf(
    KernelValues(RBF(1.0), X[:6]), Origin(np.zeros(6), np.zeros(1), 1.0), folds=ConsecutiveFolds(3, N)
)
SOURCE = ArraySource(X, Y)


class Breaking(Serial):
    """One process that is interrupted when it comes to a row."""

    def __init__(self, row):
        object.__setattr__(self, "row", row)

    def results(self, job, start, stop, level):
        for span, result in Serial.results(self, job, start, stop, level):
            if span.start >= self.row:
                raise KeyboardInterrupt
            yield span, result


def bits(sums):
    return [
        np.asarray(getattr(part, name)).tobytes()
        for part in sums.parts
        for name in ("count", "first", "second", "targets", "cross", "squares")
    ]


def test_a_broken_pass_goes_on_to_the_same_bits(tmp_path):
    path, expected = tmp_path / "sums.npz", bits(OpenPasses().sums(SOURCE, FUNCTION, "sums"))
    for row in (8 * LEAF, 16 * LEAF):
        with pytest.raises(KeyboardInterrupt):
            OpenPasses(Breaking(row), checkpoint=Checkpoint(path, "these rows")).sums(SOURCE, FUNCTION, "sums")
        begun, _ = Checkpoint(path, "these rows").begun(digest(FUNCTION), FUNCTION)
        assert begun == row
    kept = Checkpoint(path, "these rows")
    assert bits(OpenPasses(checkpoint=kept).sums(SOURCE, FUNCTION, "sums")) == expected
    kept.finish()
    assert not path.exists()


def test_a_function_that_is_interrupted_loses_its_leaf_only(tmp_path):
    path, reached = tmp_path / "sums.npz", 6 * LEAF
    kept = Checkpoint(path, "these")
    honest, name = MomentsOfLeaf.__call__, digest(FUNCTION)

    def stopped(blocks):
        held = list(blocks)
        if held and held[0].start == reached:
            raise KeyboardInterrupt
        return honest(FUNCTION, held)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MomentsOfLeaf, "__call__", lambda self, blocks: stopped(blocks))
        with pytest.raises(KeyboardInterrupt):
            OpenPasses(checkpoint=kept).sums(SOURCE, FUNCTION, "sums")
    assert Checkpoint(path, "these").begun(name, FUNCTION)[0] == reached
    again = OpenPasses(checkpoint=Checkpoint(path, "these")).sums(SOURCE, FUNCTION, "sums")
    assert bits(again) == bits(OpenPasses().sums(SOURCE, FUNCTION, "sums"))


def test_sums_with_other_fields_are_not_taken_for_these(tmp_path):
    path, name = tmp_path / "sums.npz", digest(FUNCTION)
    kept = Checkpoint(path, "these")
    kept.at(name, LEAF, SummationTree([(0, (np.ones(3), 1.0))]))
    kept.write()
    assert Checkpoint(path, "these").begun(name, FUNCTION)[0] == 0
    again = OpenPasses(checkpoint=Checkpoint(path, "these")).sums(SOURCE, FUNCTION, "sums")
    assert bits(again) == bits(OpenPasses().sums(SOURCE, FUNCTION, "sums"))


def test_an_interrupt_while_a_state_is_kept_leaves_the_one_before(tmp_path, monkeypatch):
    from substrate.streaming import passes

    path, reached, ordinary = tmp_path / "sums.npz", [], passes._arrays

    def stopped(value):
        reached.extend([1] * isinstance(value, FoldSums))
        if len(reached) == 11:  # the third of three nodes, after seven leaves
            raise KeyboardInterrupt
        yield from ordinary(value)

    with monkeypatch.context() as patch:
        patch.setattr(passes, "_arrays", stopped)
        with pytest.raises(KeyboardInterrupt):
            OpenPasses(checkpoint=Checkpoint(path, "these")).sums(SOURCE, FUNCTION, "sums")
    begun, _ = Checkpoint(path, "these").begun(digest(FUNCTION), FUNCTION)
    assert begun == 6 * LEAF
    again = OpenPasses(checkpoint=Checkpoint(path, "these")).sums(SOURCE, FUNCTION, "sums")
    assert bits(again) == bits(OpenPasses().sums(SOURCE, FUNCTION, "sums"))


@pytest.mark.parametrize("begun", [1, 6, *(pytest.param(k, marks=pytest.mark.slow) for k in (3, 20))])
@pytest.mark.parametrize("executor", [Serial(), Joblib(1), Joblib(3)], ids=repr)
@pytest.mark.some_cases(3)
def test_another_executor_goes_on_from_any_leaf(tmp_path, begun, executor):
    class Leaves(Breaking):
        level = 0

    path = tmp_path / "sums.npz"
    with pytest.raises(KeyboardInterrupt):
        OpenPasses(Leaves(begun * LEAF), checkpoint=Checkpoint(path, "these")).sums(SOURCE, FUNCTION, "sums")
    assert Checkpoint(path, "these").begun(digest(FUNCTION), FUNCTION)[0] == begun * LEAF
    again = OpenPasses(executor, checkpoint=Checkpoint(path, "these")).sums(SOURCE, FUNCTION, "sums")
    assert bits(again) == bits(OpenPasses().sums(SOURCE, FUNCTION, "sums"))


def test_what_was_summed_is_not_read_again(tmp_path):
    path = tmp_path / "sums.npz"
    with pytest.raises(KeyboardInterrupt):
        OpenPasses(Breaking(8 * LEAF), checkpoint=Checkpoint(path, "these")).sums(SOURCE, FUNCTION, "sums")
    spoilt = X.copy()
    spoilt[: 8 * LEAF] = 1e3  # whoever reads these rows again gets something else
    again = OpenPasses(checkpoint=Checkpoint(path, "these")).sums(ArraySource(spoilt, Y), FUNCTION, "sums")
    assert bits(again) == bits(OpenPasses().sums(SOURCE, FUNCTION, "sums"))


def test_a_finished_pass_is_read_from_the_file(tmp_path):
    path = tmp_path / "sums.npz"
    kept = Checkpoint(path, "these", interval=0.0)
    expected = bits(OpenPasses(checkpoint=kept).sums(SOURCE, FUNCTION, "sums"))
    nothing = OpenPasses(Breaking(0), checkpoint=Checkpoint(path, "these"))
    assert bits(nothing.sums(SOURCE, FUNCTION, "sums")) == expected


def test_another_problem_is_refused(tmp_path):
    path = tmp_path / "sums.npz"
    Checkpoint(path, "these").write()
    with pytest.raises(DataError, match="belongs to another problem"):
        Checkpoint(path, "those")
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="not a model file"):
        Checkpoint(path, "these")


def test_another_function_has_another_digest():
    values, origin = FUNCTION.values, FUNCTION.origin
    others = [
        MomentsOfLeaf(KernelValues(RBF(1.5), X[:6]), origin, folds=FUNCTION.folds),
        MomentsOfLeaf(KernelValues(RBF(1.0), X[1:7]), origin, folds=FUNCTION.folds),
        MomentsOfLeaf(values, Origin(np.zeros(6), np.ones(1), 1.0), folds=FUNCTION.folds),
        MomentsOfLeaf(values, origin),
        MomentsOfLeaf(values, origin, np.eye(6), folds=FUNCTION.folds),
    ]
    same = MomentsOfLeaf(KernelValues(RBF(1.0), X[:6].copy()), origin, folds=ConsecutiveFolds(3, N))
    assert digest(same) == digest(FUNCTION)
    assert len({digest(one) for one in [FUNCTION, *others]}) == 6


def test_progress_speaks_on_a_terminal_only():
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, shown, words in [(io.StringIO(), True, ""), (Terminal(), False, ""), (Terminal(), True, "rows/s")]:
        progress = RowProgress("sums", 1000, shown, 0, stream)
        progress.at(500)
        progress.close()
        said = stream.getvalue()
        assert words in said
        assert bool(said) is bool(words)
    assert "500 of 1,000 rows" in said
