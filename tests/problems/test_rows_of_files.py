"""LS-SVMs on all rows of files, Dask collections and blocks: the machine of the same rows in memory, to the bit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from problems import LSSVMClassifier, LSSVMRegressor, LSSVMRegressorCV, RobustLSSVMRegressor, load
from substrate.arrays import memory_limit
from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.streaming.source import LEAF, Block
from substrate.streaming.sources import RowBlocks

NAMES = ["a", "b", "c"]
TABLES = ("parquet", "folder", "dask")
KINDS = (*TABLES, "npy", "blocks")


def draw_rows(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def store(kind: str, X: Any, y: Any, folder: Path) -> tuple[Any, Any]:
    """Return rows and targets as they are given to ``fit``."""
    frame = pd.DataFrame(X, columns=NAMES).assign(target=y)
    if kind == "parquet":
        frame.to_parquet(folder / "rows.parquet")
        return str(folder / "rows.parquet"), "target"
    if kind == "folder":
        for k, part in enumerate((frame[:50], frame[50:])):
            part.to_parquet(folder / f"{k}.parquet")
        return folder, "target"
    if kind == "npy":
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        return folder / "X.npy", folder / "y.npy"
    if kind == "blocks":
        return [(X[:30], y[:30]), (X[30:], y[30:])], None
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(frame, npartitions=3), "target"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_the_machine_of_its_rows(kind: str, tmp_path: Path) -> None:
    X, y = draw_rows(120)
    rows, targets = store(kind, X, y, tmp_path)
    model = LSSVMRegressor(RBF(1.5), 10.0)
    plain = model.fit(X, y)
    expected = plain.support_values_.copy(), plain.bias_, plain.predict(X[:9])
    read = LSSVMRegressor(RBF(1.5), 10.0).fit(rows, targets)
    assert np.array_equal(read.support_values_, expected[0])
    assert read.bias_ == expected[1]
    assert list(getattr(read, "feature_names_in_", [])) == (NAMES if kind in TABLES else [])
    assert np.array_equal(read.predict(pd.DataFrame(X[:9], columns=NAMES) if kind in TABLES else X[:9]), expected[2])
    again = read.certify(rows, targets)
    assert again.holds
    assert str(again) == str(plain.certify(X, y))


def test_labels_of_a_file_are_those_of_the_rows(tmp_path: Path) -> None:
    X, y = draw_rows(90)
    labels = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    rows, targets = store("parquet", X, labels, tmp_path)
    read, plain = LSSVMClassifier(RBF(1.5)).fit(rows, targets), LSSVMClassifier(RBF(1.5)).fit(X, labels)
    assert np.array_equal(read.support_values_, plain.support_values_)
    assert list(read.classes_) == ["high", "low", "middle"]


def test_conjugate_gradients_on_a_file_of_several_leaves_reach_a_proved_accuracy(tmp_path: Path) -> None:
    X, y = draw_rows(LEAF + 7)
    rows, targets = store("npy", X[: LEAF + 7], y, tmp_path)
    # few directions of a wide kernel: a handful of iterations on many rows
    model = LSSVMRegressor(RBF(40.0), 1e-3, solver="cg", tol=1e-2, cg_tol=1e-4).fit(rows, targets)
    assert model.solver_ == "cg"
    assert model.support_values_.size == LEAF + 7
    assert np.array_equal(model.support_vectors_[-7:], X[-7:])
    assert model.certificate_.holds


def test_a_search_of_gamma_reads_files_too(tmp_path: Path) -> None:
    X, y = draw_rows(60)
    rows, targets = store("parquet", X, y, tmp_path)
    read, plain = LSSVMRegressorCV(RBF(1.5)).fit(rows, targets), LSSVMRegressorCV(RBF(1.5)).fit(X, y)
    assert read.gamma_ == plain.gamma_
    assert np.array_equal(read.support_values_, plain.support_values_)
    assert list(read.feature_names_in_) == NAMES


def test_weights_come_as_an_array_or_a_file(tmp_path: Path) -> None:
    X, y = draw_rows(60)
    rows, targets = store("npy", X, y, tmp_path)
    weights = np.arange(60) % 3.0
    np.save(tmp_path / "w.npy", weights)
    plain = LSSVMRegressor().fit(X, y, sample_weight=weights)
    for given in (weights, tmp_path / "w.npy"):
        read = LSSVMRegressor().fit(rows, targets, sample_weight=given)
        assert np.array_equal(read.support_values_, plain.support_values_)
        assert read.certify(rows, targets, sample_weight=given).holds
    with pytest.raises(DataError, match="one entry per row"):
        LSSVMRegressor().fit(rows, targets, sample_weight=weights[1:])


def test_new_rows_are_read_by_the_names_of_the_fit(tmp_path: Path) -> None:
    X, y = draw_rows(60)
    rows, targets = store("parquet", X, y, tmp_path)
    model = LSSVMRegressor().fit(rows, targets)
    expected = model.predict(pd.DataFrame(X, columns=NAMES))
    assert np.array_equal(model.predict(rows), expected)  # the target is a column of the file, and is passed over
    pd.DataFrame(X[:, ::-1], columns=NAMES[::-1]).to_parquet(tmp_path / "turned.parquet")
    assert np.array_equal(model.predict(tmp_path / "turned.parquet"), expected)
    model.save(tmp_path / "model.npz")
    assert np.array_equal(load(tmp_path / "model.npz").predict(rows), expected)
    np.save(tmp_path / "narrow.npy", X[:, :2])
    with pytest.raises(DataError, match="has 2 columns, the model has 3"):
        model.predict(tmp_path / "narrow.npy")


class Announced(RowBlocks):
    """Blocks that end before the rows that they announce."""

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        return super().blocks(start, min(stop, self.rows - 3), step)


def test_rows_that_a_source_announces_and_does_not_have_are_refused() -> None:
    X, y = draw_rows(40)
    whole = RowBlocks.of([(X, y)])
    assert LSSVMRegressor().fit(whole).support_values_.size == 40
    with pytest.raises(DataError, match="ends early: row 37 is missing, 40 rows were announced"):
        LSSVMRegressor().fit(Announced(whole.factory, whole.rows, whole.width))


def test_what_cannot_be_read_is_refused_in_words(tmp_path: Path) -> None:
    X, y = draw_rows(40)
    rows, targets = store("parquet", X, y, tmp_path)
    with pytest.raises(DataError, match="RobustLSSVMRegressor takes arrays and data frames"):
        RobustLSSVMRegressor().fit(rows, targets)
    with pytest.raises(DataError, match="has no targets"):
        LSSVMRegressor().fit(rows)
    with pytest.raises(DataError, match="must be in memory"):
        LSSVMRegressor("precomputed").fit(rows, targets)
    with pytest.raises(DataError, match="there is no file"):
        LSSVMRegressor().fit(tmp_path / "absent.parquet", "target")
    with pytest.raises(ValueError, match="requires y to be passed"):
        LSSVMRegressor().fit(X)
    with memory_limit(1000.0), pytest.raises(DataError, match=r"the 40 rows of .* SparseLSSVMRegressor"):
        LSSVMRegressor().fit(rows, targets)
    X[3, 1] = np.nan
    np.save(tmp_path / "holes.npy", X)
    np.save(tmp_path / "t.npy", y)
    with pytest.raises(DataError, match="row 3, column 1"):
        LSSVMRegressor().fit(tmp_path / "holes.npy", tmp_path / "t.npy")
