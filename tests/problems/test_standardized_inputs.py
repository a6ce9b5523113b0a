"""``standardize=True``: the machine of scaled rows, in every method that takes rows, and in its file."""

import numpy as np
import pytest
from every_model import ESTIMATORS, WEIGHTED, WHOLE_ROWS, make_data, output, over_estimators, quick_kernel, seeded
from scipy.sparse import csr_matrix
from sklearn.preprocessing import StandardScaler

import problems
from problems import (
    LSSVMClassifier,
    LSSVMRegressor,
    LSSVMRegressorCV,
    PartiallyLinearLSSVMRegressor,
    SparseLSSVMRegressor,
    SymmetricLSSVMRegressor,
)
from problems.estimators.shared.input_scales import InputScales
from substrate.errors import DataError, DeclarationError, ScaleWarning
from substrate.kernels import RBF, Precomputed
from substrate.reduced import Basis

#: Units and offsets of three columns that a kernel of the distance cannot compare.
UNITS, OFFSETS = np.array([1e9, 1e-9, 1.0]), np.array([0.0, 3e-9, 1e8])
LEAVE_OUT = [e for e in ESTIMATORS if hasattr(e, "leave_one_out") and not e.__name__.startswith("Pruned")]


def make_rows(estimator, n=20, seed=0):
    X, y = make_data(estimator, n=n, seed=seed)
    return X * UNITS + OFFSETS, y


def make_pair(estimator, X, y, **parameters):
    """Return the model that scales, the one of scaled rows, and the scales."""
    parameters = {"kernel": quick_kernel(estimator)} | parameters
    model = seeded(estimator, standardize=True, **parameters).fit(X, y)
    scales = InputScales(model.input_center_, model.input_scale_)
    return model, seeded(estimator, **parameters).fit(scales.apply(X), y), scales


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@over_estimators
def test_it_is_the_machine_of_scaled_rows(estimator, tmp_path):
    """Bit for bit: coefficients, predictions, the certificate given its rows again, and the file."""
    X, y = make_rows(estimator)
    model, plain, scales = make_pair(estimator, X, y)
    np.testing.assert_array_equal(model.support_values_, plain.support_values_)
    new = X[:5] + 0.1 * UNITS
    np.testing.assert_array_equal(output(model, new), output(plain, scales.apply(new)))
    assert str(model.certify(X, y)) == str(plain.certify(scales.apply(X), y))
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(output(problems.load(tmp_path / "model.npz"), new), output(model, new))


@pytest.mark.parametrize("estimator", LEAVE_OUT)
def test_rows_are_left_out_of_the_machine_of_scaled_rows(estimator):
    X, y = make_rows(estimator)
    model, plain, scales = make_pair(estimator, X, y)
    left_out, wanted = model.leave_one_out(X, y), plain.leave_one_out(scales.apply(X), y)
    np.testing.assert_array_equal(left_out.residuals, wanted.residuals)
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(X[:3]), plain.predict_proba(scales.apply(X[:3])))


@pytest.mark.parametrize("estimator", [e for e in WEIGHTED if e not in WHOLE_ROWS])
@pytest.mark.some_cases(3)
def test_a_weight_of_two_is_a_row_twice(estimator):
    X, y = make_rows(estimator)
    twice = np.arange(len(y)) < 5
    weights = np.where(twice, 2.0, 1.0)
    weights[-1] = 0.0
    rows = np.concatenate([np.arange(len(y) - 1), np.flatnonzero(twice)])
    scales, of_rows = InputScales.of(X, weights), InputScales.of(X[rows])
    np.testing.assert_allclose(scales.center, of_rows.center, rtol=1e-12)
    np.testing.assert_allclose(scales.scale, of_rows.scale, rtol=1e-12)
    model = seeded(estimator, kernel=quick_kernel(estimator), standardize=True).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.input_scale_, of_rows.scale, rtol=1e-12)


def test_scales_are_those_of_scikit_learn_where_its_sums_are_exact_enough():
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1.0, 10.0, 1e-3, 1.0] + [0.0, 5.0, 0.0, -3.0]
    X[:, 3] = 7.0
    wanted, scales = StandardScaler().fit(X), InputScales.of(X)
    np.testing.assert_allclose(scales.apply(X), wanted.transform(X), atol=1e-12)
    np.testing.assert_array_equal((scales.scale[3], scales.center[3]), (1.0, 7.0))
    np.testing.assert_allclose(scales.undo(scales.apply(X)), X, rtol=1e-14)


@pytest.mark.parametrize(("unit", "offset"), [(1e-300, 0.0), (1e300, 0.0), (1.0, 1e8), (1e-9, 1.0), (1e9, -1e15)])
def test_no_unit_and_no_offset_spoils_a_scale(unit, offset):
    """Against rational sums of the numbers as they are rounded."""
    from fractions import Fraction

    x = np.random.default_rng(1).normal(size=30) * unit + offset
    exact = [Fraction(value) for value in x.tolist()]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    scales = InputScales.of(x[:, None])
    scaled_variance = float(variance / Fraction(unit) ** 2)
    assert abs(Fraction(float(scales.center[0])) - mean) <= Fraction(1, 10**12) * max(abs(value) for value in exact)
    np.testing.assert_allclose(float(scales.scale[0]) / unit, np.sqrt(scaled_variance), rtol=1e-7)


def test_a_column_that_varies_by_rounding_is_constant():
    x = np.where(np.arange(20) % 2 == 0, 0.3, 0.1 + 0.2)
    assert InputScales.of(np.column_stack([x, np.arange(20.0)])).scale[0] == 1.0


def test_sparse_rows_are_scaled_and_not_centred():
    dense = np.random.default_rng(2).normal(size=(40, 3)) * (np.random.default_rng(3).random((40, 3)) > 0.6)
    weights = np.random.default_rng(4).random(40) + 0.5
    sparse, full = InputScales.of(csr_matrix(dense), weights), InputScales.of(dense, weights)
    np.testing.assert_allclose(sparse.scale, full.scale, rtol=1e-12)
    assert not sparse.center.any()
    y = dense.sum(axis=1)
    of_sparse = LSSVMRegressor(RBF(1.0), standardize=True).fit(csr_matrix(dense), y)
    of_dense = LSSVMRegressor(RBF(1.0), standardize=True).fit(dense, y)
    np.testing.assert_allclose(of_sparse.predict(csr_matrix(dense)), of_dense.predict(dense), rtol=1e-9)


def test_columns_with_a_meaning_of_their_own_keep_their_units():
    """The coefficient of a linear column is that of the column as it is; a symmetric machine keeps its origin."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=60) * 1e3, rng.normal(size=60)])
    y = 0.25 * X[:, 0] + np.sin(X[:, 1])
    model = PartiallyLinearLSSVMRegressor(RBF(1.0), 100.0, linear_columns=[0], standardize=True).fit(X, y)
    np.testing.assert_allclose(model.coef_, 0.25, rtol=1e-3)
    assert model.input_scale_[0] == 1.0 != model.input_scale_[1]
    symmetric = SymmetricLSSVMRegressor(RBF(1.0), standardize=True).fit(X + 5.0, y)
    np.testing.assert_allclose(symmetric.predict(-X), symmetric.predict(X), rtol=1e-9, atol=1e-9)


def test_points_of_a_basis_are_in_the_units_of_the_rows():
    X, y = make_rows(SparseLSSVMRegressor, n=30)
    by_points = SparseLSSVMRegressor(RBF(1.0), basis=Basis(rule=X[:8]), standardize=True).fit(X, y)
    by_number = SparseLSSVMRegressor(RBF(1.0), basis=Basis(rule=np.arange(8)), standardize=True).fit(X, y)
    np.testing.assert_array_equal(by_points.predict(X), by_number.predict(X))


def test_rows_in_passes_are_scaled_as_they_are_read(tmp_path):
    X, y = make_rows(SparseLSSVMRegressor, n=200)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r"), np.load(tmp_path / "y.npy", mmap_mode="r")
    basis = Basis(20, random_state=0)
    in_memory = SparseLSSVMRegressor(RBF(2.0), 10.0, basis=basis, standardize=True).fit(X, y)
    read = SparseLSSVMRegressor(RBF(2.0), 10.0, basis=basis, standardize=True).fit(*mapped)
    np.testing.assert_allclose(read.input_scale_, in_memory.input_scale_, rtol=1e-10)
    np.testing.assert_allclose(read.predict(X), in_memory.predict(X), rtol=1e-4, atol=1e-4)
    assert read.certify(*mapped).holds
    read.predict_to(X, tmp_path / "out.csv")
    written = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1, ndmin=2)[:, -1]
    np.testing.assert_allclose(written, read.predict(X), rtol=1e-12)


def test_nested_machines_have_scales_of_their_own(tmp_path):
    """What is left out of a fold has no part in its scales, and the file keeps them."""
    X, y = make_rows(LSSVMRegressorCV, n=40)
    X[0, 2] += 50.0
    model = LSSVMRegressorCV(RBF(1.5), standardize=True).fit(X, y, nested=4)
    folds = [parts["input_scale_"] for parts in model.nested_machines_]
    assert len({tuple(scale) for scale in folds}) == 4
    fold = int(model.nested_folds_[0])
    others = np.flatnonzero(model.nested_folds_ != fold)
    alone = LSSVMRegressorCV(RBF(1.5), standardize=True).fit(X[others], y[others])
    wanted = np.abs(y[0] - alone.predict(X[:1])[0])
    np.testing.assert_allclose(model.nested_scores_[0], wanted, rtol=1e-6, atol=1e-9)
    model.save(tmp_path / "model.npz")
    loaded = problems.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(
        loaded.predict_interval(X[:3], method="nested"), model.predict_interval(X[:3], method="nested")
    )


def test_scales_break_the_guarantee_of_full_conformal_intervals():
    """They are computed from the rows that are left out."""
    X, y = make_rows(LSSVMRegressor, n=30)
    plain = LSSVMRegressor(RBF(1.5)).fit(X / UNITS, y)
    scaled = LSSVMRegressor(RBF(1.5), standardize=True).fit(X, y)
    assert plain.interval_guarantee(0.8, "conformal").holds
    assert not scaled.interval_guarantee(0.8, "conformal").holds
    assert "scales of the inputs" in str(scaled.interval_guarantee(0.8, "conformal"))


def test_recommended_standardises_and_raises_no_warning_of_scales(recwarn):
    model = LSSVMRegressorCV.recommended(max_evaluations=2)
    assert model.standardize
    X, y = make_rows(LSSVMRegressorCV)
    model.set_params(kernels=[RBF(1.0)], search=None).fit(X, y)
    assert not [warning for warning in recwarn if issubclass(warning.category, ScaleWarning)]
    with pytest.warns(ScaleWarning, match="standardize=True"):
        LSSVMRegressor(RBF(1.0)).fit(X, y)


def test_what_cannot_be_scaled_is_refused():
    X, y = make_rows(LSSVMRegressor)
    with pytest.raises(DeclarationError, match="precomputed kernel matrix has none"):
        LSSVMRegressor(Precomputed(), standardize=True).fit(X @ X.T, y)
    tiny = X.copy()
    tiny[:, 0] = np.linspace(0.0, 1e-300, len(y))
    model = LSSVMClassifier(RBF(1.0), standardize=True).fit(tiny, y > 0.0)
    new = tiny[:1].copy()
    new[0, 0] = 1e200
    with pytest.raises(DataError, match="infinite in units of the training rows"):
        model.predict(new)


def test_scales_of_a_file_are_checked(tmp_path):
    X, y = make_rows(LSSVMRegressor)
    for scale, message in ((np.ones(2), "one finite number"), (np.array([1.0, -1.0, 1.0]), "positive")):
        model = LSSVMRegressor(RBF(1.0), standardize=True).fit(X, y)
        model.input_scale_ = scale
        with pytest.raises(DataError, match=message):
            model.save(tmp_path / "model.npz")
