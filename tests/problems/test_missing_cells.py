"""``missing="median"``: the machine of rows that were filled in, in every method that takes rows, and in its file."""

import pickle

import numpy as np
import pandas as pd
import pytest
from array_homes import HOMES, assert_close, sender
from every_model import ESTIMATORS, WEIGHTED, WHOLE_ROWS, make_data, output, over_estimators, quick_kernel, seeded
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import problems
from problems import (
    L1SubstrateClassifier,
    LSSVMClassifier,
    LSSVMKernelPCA,
    LSSVMRegressor,
    LSSVMRegressorCV,
    MachineRegressor,
    PrunedLSSVMRegressor,
    SparseLSSVMClassifier,
    SparseLSSVMRegressor,
    StackedLSSVMRegressor,
)
from problems.estimators.shared.input_fill import InputFill, find_missing, most_frequent_cell
from problems.tables import TabularRegressor
from problems.tables.table import read_table
from problems.tables.tabular_model import TabularModel, predictions_csv
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Categorical, Componentwise, Linear, Precomputed
from substrate.reduced import Basis
from substrate.uncertainty import cv_plus

#: Cells that are missing: one column has none in the training rows.
GAPS = np.array([[0, 0], [3, 2], [3, 0], [7, 2], [11, 0], [11, 2]])
LEAVE_OUT = [e for e in ESTIMATORS if hasattr(e, "leave_one_out") and not e.__name__.startswith("Pruned")]


def make_rows(estimator, n=20, seed=0):
    X, y = make_data(estimator, n=n, seed=seed)
    X[GAPS[:, 0], GAPS[:, 1]] = np.nan
    return X, y


def make_new(X):
    """Return new rows, in which every column is missing somewhere, one row altogether."""
    new = X[-5:] + 0.1
    new[0, 1] = new[1, 0] = np.nan
    new[2] = np.nan
    return new


def make_pair(estimator, X, y, **parameters):
    """Return the model with the rule, the one of rows that were filled in, and how they are."""
    parameters = {"kernel": quick_kernel(estimator)} | parameters
    model = seeded(estimator, missing="median", **parameters).fit(X, y)
    fill = InputFill(model.input_fill_)
    return model, seeded(estimator, **parameters).fit(fill.apply(X), y), fill


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@over_estimators
def test_it_is_the_machine_of_rows_that_were_filled_in(estimator, tmp_path):
    """Bit for bit: coefficients, predictions, the certificate given its rows again, and the file; scaled alike."""
    X, y = make_rows(estimator)
    given = X.copy()
    model, plain, fill = make_pair(estimator, X, y, standardize=True)
    np.testing.assert_array_equal(X, given)
    np.testing.assert_array_equal(model.input_fill_, np.nanmedian(X, axis=0))
    np.testing.assert_array_equal(model.support_values_, plain.support_values_)
    np.testing.assert_array_equal(model.input_scale_, plain.input_scale_)
    new = make_new(X)
    np.testing.assert_array_equal(output(model, new), output(plain, fill.apply(new)))
    assert str(model.certify(X, y)) == str(plain.certify(fill.apply(X), y))
    model.save(tmp_path / "model.npz")
    loaded = problems.load(tmp_path / "model.npz")
    assert loaded.missing == "median"
    np.testing.assert_array_equal(output(loaded, new), output(model, new))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@over_estimators
def test_another_fit_has_a_rule_of_its_own(estimator):
    X, y = make_rows(estimator)
    model = seeded(estimator, kernel=quick_kernel(estimator), missing="median", standardize=True)
    model.fit(3.0 * X + 1.0, y)
    np.testing.assert_array_equal(model.fit(X, y).input_fill_, np.nanmedian(X, axis=0))
    assert (model.input_scale_ < 2.0).all()


@pytest.mark.parametrize("estimator", LEAVE_OUT)
def test_rows_are_left_out_with_what_fills_in_held(estimator):
    X, y = make_rows(estimator)
    model, plain, fill = make_pair(estimator, X, y)
    left_out, wanted = model.leave_one_out(X, y), plain.leave_one_out(fill.apply(X), y)
    np.testing.assert_array_equal(left_out.residuals, wanted.residuals)
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(X[:3]), plain.predict_proba(fill.apply(X[:3])))


@pytest.mark.parametrize("estimator", [e for e in WEIGHTED if e not in WHOLE_ROWS])
@pytest.mark.some_cases(3)
def test_a_weight_of_two_is_a_row_twice(estimator):
    X, y = make_rows(estimator)
    twice = np.arange(len(y)) < 5
    weights = np.where(twice, 2.0, 1.0)
    weights[-1], X[-1, 1] = 0.0, 1e6
    rows = np.concatenate([np.arange(len(y) - 1), np.flatnonzero(twice)])
    for unit in (1.0, 0.1, 1e-30):
        model = seeded(estimator, kernel=quick_kernel(estimator), missing="median")
        model._keep_fill(X, unit * weights)
        np.testing.assert_array_equal(model.input_fill_, np.nanmedian(X[rows], axis=0))
    model.fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.input_fill_, np.nanmedian(X[rows], axis=0))


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(40, 3)), 1)
    X[rng.random(X.shape) < 0.2] = np.nan
    weights, codes, name = rng.choice([0.1, 0.2, 0.3, 0.7], size=40), {1}, str
    wanted = InputFill.of(X, weights, codes, name).values
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(40)
        np.testing.assert_array_equal(InputFill.of(X[order], weights[order], codes, name).values, wanted)
        sparse = csr_matrix(np.where(np.isnan(X), np.nan, X)[order])
        np.testing.assert_array_equal(InputFill.of(sparse, weights[order], (), name).values[[0, 2]], wanted[[0, 2]])


def test_sums_of_weights_are_rounded_once():
    for weights in ([0.1, 0.2, 0.3, 0.6], [0.3, 0.2, 0.1, 0.6]):
        assert most_frequent_cell([1.0, 1.0, 1.0, 0.0], weights) == 0.0


@pytest.mark.parametrize(("unit", "offset"), [(1e-300, 0.0), (1.7e307, 0.0), (1.0, 1e8), (1e-9, 1.0)])
def test_no_unit_and_no_offset_spoils_a_median(unit, offset):
    x = np.array([0.5, 3.0, -1.0, 7.0, np.nan, 9.0]) * unit + offset
    assert InputFill.of(x[:, None], np.ones(6), (), str).values[0] == x[1]
    even = np.append(x, [8.0 * unit + offset])
    np.testing.assert_allclose(InputFill.of(even[:, None], np.ones(7), (), str).values[0], 5.0 * unit + offset)


def test_it_is_a_pipeline_of_scikit_learn():
    X, y = make_rows(LSSVMRegressor)
    model = LSSVMRegressor(RBF(1.5), missing="median", standardize=True).fit(X, y)
    wanted = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), LSSVMRegressor(RBF(1.5))).fit(X, y)
    np.testing.assert_allclose(model.predict(make_new(X)), wanted.predict(make_new(X)), rtol=1e-10)


def test_tables_have_the_same_rule():
    X, y = make_rows(LSSVMRegressor, n=40)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = LSSVMRegressor(RBF(1.5), missing="median", standardize=True).fit(X, y)
    table = TabularRegressor(kernel="rbf", sigma=1.5, gamma=1.0, impute="median").fit(frame, y)
    np.testing.assert_array_equal(model.input_fill_, [input_.fill for input_ in table.model_.preparation.inputs])
    new = make_new(X)
    np.testing.assert_allclose(model.predict(new), table.predict(pd.DataFrame(new, columns=frame.columns)), rtol=1e-6)


def test_missing_cells_of_frames_and_of_objects_are_found():
    X, y = make_rows(LSSVMRegressor)
    wanted = LSSVMRegressor(RBF(1.5), missing="median").fit(X, y).support_values_
    given = (
        pd.DataFrame(X, dtype="Float64"),
        pd.DataFrame(X, dtype=object).where(pd.notna(pd.DataFrame(X)), None),
        X.astype(np.float32).astype(np.float64),
        csr_matrix(X),
    )
    for rows in given[:2]:
        np.testing.assert_array_equal(LSSVMRegressor(RBF(1.5), missing="median").fit(rows, y).support_values_, wanted)
    for rows in given[2:]:
        near = LSSVMRegressor(RBF(1.5), missing="median").fit(rows, y).support_values_
        np.testing.assert_allclose(near, wanted, rtol=1e-4, atol=1e-6)


def test_sparse_rows_are_filled_in_where_cells_are_stored():
    dense = np.random.default_rng(2).normal(size=(40, 3)) * (np.random.default_rng(3).random((40, 3)) > 0.4)
    weights = np.random.default_rng(4).choice([0.5, 1.0, 2.0], size=40)
    dense[[1, 5], [0, 2]] = np.nan
    sparse = csr_matrix(dense)
    np.testing.assert_array_equal(find_missing(sparse), find_missing(dense))
    wanted = InputFill.of(dense, weights, (), str)
    np.testing.assert_array_equal(InputFill.of(sparse, weights, (), str).values, wanted.values)
    np.testing.assert_array_equal(wanted.apply(sparse).toarray(), wanted.apply(dense))
    y = np.nan_to_num(dense).sum(axis=1)
    model = LSSVMRegressorCV(RBF(1.0), missing="median", standardize=True).fit(sparse, y, nested=4)
    assert model.certify(sparse, y).holds
    assert np.isfinite(model.predict_interval(sparse[:3], method="nested")).all()


@pytest.mark.parametrize("home", HOMES)
def test_rows_on_a_device_are_filled_in_there(home):
    send = sender(home)
    X, y = make_rows(LSSVMRegressor)
    on_host = LSSVMRegressor(RBF(1.5), missing="median", standardize=True).fit(X, y)
    model = LSSVMRegressor(RBF(1.5), missing="median", standardize=True).fit(send(X), send(y))
    assert_close(model.predict(send(make_new(X))), on_host.predict(make_new(X)))
    np.testing.assert_array_equal(model.input_fill_, on_host.input_fill_)
    assert model.certify(send(X), send(y)).holds
    np.testing.assert_allclose(model.to_numpy().predict(make_new(X)), on_host.predict(make_new(X)), rtol=1e-9)
    infinite = X.copy()
    infinite[1, 1] = np.inf
    with pytest.raises(DataError, match="X contains NaN or infinity"):
        LSSVMRegressor(RBF(1.5), missing="median").fit(send(infinite), send(y))
    with pytest.raises(DataError, match="X contains NaN or infinity"):
        model.predict(send(infinite))
    with pytest.raises(DataError, match=r"X contains NaN.*LSSVMRegressor\(missing='median'\)"):
        LSSVMRegressor(RBF(1.5)).fit(send(X), send(y))


def test_nested_machines_have_a_rule_of_their_own(tmp_path):
    """What is left out of a fold has no part in its medians; the file keeps them, and machines made after loading."""
    X, y = make_rows(LSSVMRegressorCV, n=24)
    X[12:, 1] += 5.0
    X[5, 1] = np.nan
    model = LSSVMRegressorCV(RBF(1.5), missing="median", standardize=True).fit(X, y, nested=3)
    assert len({tuple(parts["input_fill_"]) for parts in model.nested_machines_}) == 3
    ends = model.predict_interval(make_new(X), method="nested")
    for row in (0, 3, 20):
        (others,) = np.nonzero(model.nested_folds_ != model.nested_folds_[row])
        alone = LSSVMRegressorCV(RBF(1.5), missing="median", standardize=True).fit(X[others], y[others])
        np.testing.assert_allclose(model.nested_scores_[row], np.abs(y[row] - alone.predict(X[[row]])[0]), rtol=1e-6)
    np.testing.assert_allclose(ends, ends_by_refits(model, X, y, make_new(X)), rtol=1e-6)
    model.save(tmp_path / "nested.npz")
    loaded = problems.load(tmp_path / "nested.npz")
    np.testing.assert_array_equal(loaded.predict_interval(make_new(X), method="nested"), ends)
    later = LSSVMRegressor(RBF(1.5), missing="median", standardize=True).fit(X, y)
    later.save(tmp_path / "plain.npz")
    first, second = problems.load(tmp_path / "plain.npz"), later
    np.testing.assert_allclose(
        first.predict_interval(X[:3], method="nested"), second.predict_interval(X[:3], method="nested"), rtol=1e-6
    )
    np.testing.assert_allclose(
        first.nested_machines_[0]["input_fill_"], second.nested_machines_[0]["input_fill_"], rtol=1e-12
    )


def ends_by_refits(model, X, y, new):
    """Return CV+ of the estimator fitted to the rows beside each fold, as they were given."""
    folds = model.nested_folds_
    machines = [clone(model).fit(X[folds != fold], y[folds != fold]) for fold in range(folds.max() + 1)]
    centers = np.stack([machine.predict(new) for machine in machines], axis=-1)
    scores = np.array([np.abs(y[row] - machines[fold].predict(X[[row]])[0]) for row, fold in enumerate(folds)])
    return cv_plus(centers, folds, scores, 0.9)


def test_adaptive_nested_intervals_take_rows_with_missing_cells():
    X, y = make_rows(LSSVMRegressorCV, n=24)
    model = LSSVMRegressorCV(RBF(1.5), missing="median").fit(X, y, nested=3)
    ends = model.predict_interval(make_new(X), method="nested", adaptive=True)
    assert np.isfinite(ends).all()
    stack = StackedLSSVMRegressor(kernels=[RBF(1.0)], criteria="loo", search=None, missing="median")
    ends = stack.fit(X, y, nested=2).predict_interval(make_new(X), method="nested")
    np.testing.assert_allclose(ends, ends_by_refits(stack, X, y, make_new(X)), rtol=1e-6)


def test_what_fills_in_breaks_the_guarantee_of_full_conformal_intervals():
    X, y = make_rows(LSSVMRegressor, n=30)
    model = LSSVMRegressor(RBF(1.5), missing="median").fit(X, y)
    assert not model.interval_guarantee(0.8, "conformal").holds
    assert "missing cells" in str(model.interval_guarantee(0.8, "conformal"))
    assert LSSVMRegressor(RBF(1.5)).fit(np.nan_to_num(X), y).interval_guarantee(0.8, "conformal").holds


def test_missing_codes_are_a_category_of_their_own():
    """Also where the codes are one of several candidates; the most frequent one stands for those of new rows alone."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 3, size=60), rng.integers(0, 3, size=60)]).astype(float)
    X[:20, 1] = np.nan
    y = np.where(np.isnan(X[:, 1]), 5.0, X[:, 1]) + 0.1 * X[:, 0]
    kernel = RBF(2.0).on(0) * Categorical(0.5).on(1, 2)
    assert kernel.code_columns(3) == (1, 2)
    values, counts = np.unique(X[:, 2], return_counts=True)
    fill = LSSVMRegressor(kernel, 100.0, missing="median").fit(X, y).input_fill_
    np.testing.assert_array_equal(fill[1:], [-5.0, values[counts.argmax()]])
    assert fill[0] == np.median(X[:, 0])
    for model in (
        LSSVMRegressor(kernel, 100.0, missing="median", standardize=True).fit(X, y),
        LSSVMRegressorCV(kernels=[kernel, RBF(2.0)], missing="median").fit(X, y),
        SparseLSSVMRegressor(kernel, 100.0, basis=Basis(60, random_state=0), missing="median").fit(X, y),
    ):
        np.testing.assert_array_equal(model.input_fill_, fill)
        np.testing.assert_allclose(model.predict(X[:20]), y[:20], atol=0.3)
    X[:, 1] *= 8e307
    with pytest.raises(DataError, match="column 1 of X holds codes so large"):
        LSSVMRegressor(kernel, missing="median").fit(X, y)


def test_kernels_name_their_columns_of_codes():
    codes = Categorical(1.0)
    assert codes.code_columns(2) == (0, 1)
    assert RBF(1.0).code_columns(3) == ()
    assert (2.0 * codes.on(2) + Linear()).code_columns(3) == (2,)
    assert Componentwise([RBF(1.0), codes, codes]).code_columns(3) == (1, 2)
    assert Componentwise({(0, 1): RBF(1.0), (3,): codes}).code_columns(4) == (3,)


def test_what_cannot_be_filled_in_is_refused():
    X, y = make_rows(LSSVMRegressor)
    empty, infinite = X.copy(), X.copy()
    empty[:, 1], infinite[2, 2] = np.nan, -np.inf
    for model in (LSSVMRegressor(missing="median"), SparseLSSVMRegressor(missing="median")):
        with pytest.raises(DataError, match=r"column 1 of X has no value in the rows.*leave the column out"):
            clone(model).fit(empty, y)
        with pytest.raises(DataError, match="column 'b' of X has no value"):
            clone(model).fit(pd.DataFrame(empty, columns=["a", "b", "c"]), y)
        with pytest.raises(ValueError, match="X contains infinity"):
            clone(model).fit(infinite, y)
        with pytest.raises(ValueError, match="y contains NaN"):
            clone(model).fit(X, np.where(np.arange(len(y)) == 3, np.nan, y))
        with pytest.raises(ValueError, match="X contains infinity"):
            clone(model).fit(X, y).predict(infinite)
    only = np.ones(len(y))
    only[1:10], empty[:10, 1] = 0.0, 0.0
    empty[0, 1] = np.nan
    with pytest.raises(DataError, match="column 1 of X has no value"):
        LSSVMRegressor(missing="median").fit(empty, y, sample_weight=only)
    with pytest.raises(DeclarationError, match="precomputed kernel matrix has none"):
        LSSVMRegressor(Precomputed(), missing="median").fit(np.eye(len(y)), y)
    for rule in ("mean", True, 0.0):
        with pytest.raises(DeclarationError, match=r"missing must be None or one of \('median',\)"):
            LSSVMRegressor(missing=rule).fit(X, y)


def make_streams(folder, X, y):
    """Return the same rows as mapped arrays, two files, blocks, and a Parquet file, each with its targets."""
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y).to_parquet(folder / "rows.parquet")
    mapped = tuple(np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    blocks = [(X[:7], y[:7]), (X[7:], y[7:])]
    return mapped, (folder / "X.npy", folder / "y.npy"), (blocks, None), (folder / "rows.parquet", "y")


def test_rows_in_passes_are_filled_in_as_they_are_read(tmp_path):
    """By the numbers of rows in memory; new rows too, wherever they are."""
    pytest.importorskip("pyarrow", reason='pyarrow is not installed: pip install ".[parquet]"')
    X, y = make_rows(SparseLSSVMRegressor, n=40)
    parameters = {"basis": Basis(12, random_state=0), "missing": "median", "standardize": True}
    in_memory = SparseLSSVMRegressor(RBF(2.0), 10.0, **parameters).fit(X, y)
    np.save(tmp_path / "new.npy", make_new(X))
    for rows in make_streams(tmp_path, X, y):
        model = SparseLSSVMRegressor(RBF(2.0), 10.0, **parameters).fit(*rows)
        np.testing.assert_array_equal(model.input_fill_, in_memory.input_fill_)
        np.testing.assert_allclose(model.input_scale_, in_memory.input_scale_, rtol=1e-12)
        new = make_new(X) if not isinstance(rows[1], str) else pd.DataFrame(make_new(X), columns=["a", "b", "c"])
        np.testing.assert_allclose(model.predict(new), in_memory.predict(make_new(X)), rtol=1e-6, atol=1e-8)
        assert model.certify(*rows).holds
        assert model.certify(X, y).holds
        model.predict_to(tmp_path / "new.npy", tmp_path / "out.csv")
        written = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1, ndmin=2)[:, -1]
        np.testing.assert_allclose(written, model.predict(new), rtol=1e-12)
    pd.DataFrame(make_new(X)[:, ::-1], columns=["c", "b", "a"]).to_parquet(tmp_path / "new.parquet")
    model.predict_to(tmp_path / "new.parquet", tmp_path / "out.csv")  # its columns by name
    written = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1, ndmin=2)[:, -1]
    np.testing.assert_allclose(written, model.predict(new), rtol=1e-12)


def test_rows_in_passes_without_a_rule_or_a_value_are_refused(tmp_path):
    X, y = make_rows(SparseLSSVMRegressor)
    blocks = [(X[:7], y[:7]), (X[7:], y[7:])]
    parameters = {"basis": Basis(8, random_state=0)}
    with pytest.raises(DataError, match=r"NaN or infinity, first in row 0, column 0.*missing='median'"):
        SparseLSSVMRegressor(RBF(1.5), **parameters).fit(blocks)
    plain = SparseLSSVMRegressor(RBF(1.5), **parameters).fit(np.nan_to_num(X), y).set_params(missing="median")
    with pytest.raises(DataError, match="NaN or infinity, first in row 0"):
        plain.predict_to(lambda: [X], tmp_path / "out.npy")
    with pytest.raises(DataError, match="NaN or infinity, first in row 0"):
        plain.certify(blocks)
    empty, infinite = X.copy(), X.copy()
    empty[:, 1], infinite[9, 2] = np.nan, np.inf
    with pytest.raises(DataError, match="column 1 of the row blocks has no value in the rows of the fit"):
        SparseLSSVMRegressor(RBF(1.5), missing="median", **parameters).fit([(empty, y)])
    with pytest.raises(DataError, match=": infinity, first in row 9, column 2"):
        SparseLSSVMRegressor(RBF(1.5), missing="median", **parameters).fit([(infinite, y)])


def test_codes_in_passes_have_the_rule_of_rows_in_memory():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=30), rng.integers(0, 3, size=30), rng.integers(0, 3, size=30)]).astype(float)
    X[::5, 1], y = np.nan, X[:, 0]
    kernel = RBF(2.0).on(0) * Categorical(0.5).on(1, 2)
    model = SparseLSSVMRegressor(kernel, missing="median", basis=Basis(8, random_state=0))
    in_memory = clone(model).fit(X, y).input_fill_
    np.testing.assert_array_equal(clone(model).fit([(X[:9], y[:9]), (X[9:], y[9:])]).input_fill_, in_memory)
    assert in_memory[1] == -5.0


def test_missing_cells_are_refused_without_a_rule():
    """By name; a parameter that is set after a fit is no rule of that fit, and one that is taken away leaves it."""
    X, y = make_rows(LSSVMRegressor)
    with pytest.raises(DataError, match=r"X contains NaN.*LSSVMRegressor\(missing='median'\).*TabularRegressor"):
        LSSVMRegressor().fit(X, y)
    plain = LSSVMRegressor().fit(np.nan_to_num(X), y).set_params(missing="median")
    with pytest.raises(DataError, match="X contains NaN"):
        plain.predict(X)
    with pytest.raises(DataError, match="X contains NaN"):
        plain.certify(X, y)
    with pytest.raises(DataError, match=r"X contains NaN.*SimpleImputer"):
        LSSVMKernelPCA(RBF(1.0)).fit(np.nan_to_num(X)).transform(X)
    with pytest.raises(ValueError, match="NaN"):
        MachineRegressor(lambda X, y: None).fit(X, y)
    model = LSSVMRegressor(missing="median").fit(X, y)
    wanted = model.predict(X)
    np.testing.assert_array_equal(model.set_params(missing=None).predict(X), wanted)
    assert model.certify(X, y).holds


def test_rows_given_again_are_filled_in_by_the_numbers_of_the_fit():
    X, y = make_rows(LSSVMRegressor)
    for model in (
        LSSVMRegressor(RBF(1.5), missing="median"),
        SparseLSSVMRegressor(RBF(1.5), missing="median", basis=Basis(8, random_state=0)),
        PrunedLSSVMRegressor(RBF(1.5), missing="median"),
    ):
        model.fit(X, y)
        assert model.certify(X, y).holds
        model.input_fill_ = model.input_fill_ + 1.0
        assert not model.certify(X, y).holds
        with pytest.raises(DataError, match="X has 2 features"):
            model.certify(X[:, :2], y)


def test_validation_and_calibration_rows_are_filled_in():
    X, y = make_rows(LSSVMRegressorCV, n=40)
    model = LSSVMRegressorCV(RBF(1.5), cv=None, missing="median").fit(X[:20], y[:20], X_val=make_new(X), y_val=y[-5:])
    fill = InputFill(model.input_fill_)
    plain = LSSVMRegressorCV(RBF(1.5), cv=None)
    plain.fit(fill.apply(X[:20]), y[:20], X_val=fill.apply(make_new(X)), y_val=y[-5:])
    assert model.criterion_ == plain.criterion_
    split = model.calibrate(make_new(X), y[-5:]).predict_interval(make_new(X), 0.6, method="split")
    np.testing.assert_array_equal(
        split,
        plain.calibrate(fill.apply(make_new(X)), y[-5:]).predict_interval(fill.apply(make_new(X)), 0.6, method="split"),
    )


@pytest.mark.parametrize("estimator", [LSSVMClassifier, SparseLSSVMClassifier, L1SubstrateClassifier])
def test_probabilities_are_those_of_rows_that_were_filled_in(estimator):
    X, y = make_rows(estimator, n=40)
    model, plain, fill = make_pair(estimator, X, y, calibration="sigmoid")
    np.testing.assert_array_equal(model.predict_proba(make_new(X)), plain.predict_proba(fill.apply(make_new(X))))


def test_parameters_and_copies():
    X, y = make_rows(LSSVMRegressor)
    model = LSSVMRegressor(RBF(1.5), missing="median")
    assert clone(model).get_params()["missing"] == "median"
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not LSSVMRegressor().__sklearn_tags__().input_tags.allow_nan
    again = pickle.loads(pickle.dumps(model.fit(X, y)))
    np.testing.assert_array_equal(again.predict(make_new(X)), model.predict(make_new(X)))
    model.set_params(missing=None).fit(np.nan_to_num(X), y)
    assert not hasattr(model, "input_fill_")
    assert not hasattr(model, "missing_cells_")


def test_what_fills_in_is_checked_in_a_file(tmp_path):
    X, y = make_rows(LSSVMRegressor)
    spoilt = (
        ("input_fill_", np.ones(2), "input_fill_ must hold one finite number"),
        ("missing_cells_", np.array([[len(y), 0]]), "missing_cells_ must hold rows and columns"),
        ("missing_cells_", np.array([[0, 3]]), "missing_cells_ must hold rows and columns"),
        ("missing_cells_", np.array([[-1, 0]]), "missing_cells_ must hold rows and columns"),
    )
    for name, values, message in spoilt:
        model = LSSVMRegressor(RBF(1.0), missing="median").fit(X, y)
        setattr(model, name, values)
        with pytest.raises(DataError, match=message):
            model.save(tmp_path / "model.npz")


def test_a_table_is_predicted_by_the_rule_of_a_plain_model(tmp_path):
    X, y = make_rows(LSSVMRegressorCV, n=40)
    model = LSSVMRegressorCV(RBF(1.5), missing="median").fit(X, y, nested=4)
    model.save(tmp_path / "model.npz")
    new = pd.DataFrame(make_new(X), columns=["a", "b", "c"])
    new.to_csv(tmp_path / "new.csv", index=False)
    saved, table = TabularModel.load(tmp_path / "model.npz"), read_table(tmp_path / "new.csv", decided=True)
    rows = [line.split(",") for line in predictions_csv(saved, table, coverage=0.8).splitlines()]
    np.testing.assert_allclose([float(row[0]) for row in rows[1:]], model.predict(make_new(X)), rtol=1e-12)
    ends = model.predict_interval(make_new(X), 0.8)
    np.testing.assert_allclose([[float(cell) for cell in row[1:3]] for row in rows[1:]], ends, rtol=1e-9)
    assert f"imputed: a, 2 of 5 cells, by {model.input_fill_[0]:.6g}, as the model does" in saved.remarks(table)
