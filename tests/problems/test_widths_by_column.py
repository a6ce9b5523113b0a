"""Machines whose kernel has a width for every column: in all units, from files, on devices, and saved."""

import numpy as np
import pytest
from array_homes import sender
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from variants import componentwise_machine

from problems import LSSVMRegressor, PrunedLSSVMRegressor
from substrate.arrays import to_numpy
from substrate.composition import Substrate
from substrate.errors import DataError, DeclarationError, ScaleWarning
from substrate.kernels import RBF, Laplacian, Matern
from substrate.reduced import Basis

RNG = np.random.default_rng(0)
UNITS = np.array([1e-12, 1.0, 1e12])
X, NEW = RNG.normal(size=(60, 3)), RNG.normal(size=(9, 3))
y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=60)
by_kernel = pytest.mark.parametrize("kernel", [RBF("each"), Laplacian("each"), Matern("each", 2.5)], ids=repr)


@by_kernel
def test_a_width_for_each_column_needs_no_standardised_columns(kernel):
    """On distinct rows it is the median width of standardised columns, and nothing warns of units."""
    own = LSSVMRegressor(kernel, 10.0).fit(X * UNITS, y)
    scaled = make_pipeline(StandardScaler(), LSSVMRegressor(kernel.with_params(sigma="median"), 10.0)).fit(X * UNITS, y)
    assert_allclose(own.predict(NEW * UNITS), scaled.predict(NEW * UNITS), rtol=1e-8)
    assert own.certificate_.holds
    assert repr(own.kernel_) in str(own.certificate_)
    with pytest.warns(ScaleWarning):
        LSSVMRegressor(kernel.with_params(sigma="median")).fit(X * UNITS, y)


def test_widths_are_a_parameter_like_any_other():
    model = LSSVMRegressor(RBF((1.0, 2.0, 3.0)))
    assert model.get_params()["kernel__sigma"] == (1.0, 2.0, 3.0)
    model.set_params(kernel__sigma=np.array([2.0, 1.0, 4.0]))
    assert model.kernel == RBF((2.0, 1.0, 4.0)) == clone(model).kernel
    grid = {"kernel__sigma": ["median", "each", 2.0, (1.0, 1.0, 50.0)]}
    assert GridSearchCV(LSSVMRegressor(RBF()), grid, cv=3).fit(X, y).best_params_["kernel__sigma"] == (1.0, 1.0, 50.0)


@pytest.mark.parametrize("make", [LSSVMRegressor])
def test_the_wrong_number_of_widths_is_refused_when_fitting(make):
    with pytest.raises(DataError, match=r"the number of widths of RBF\(sigma=\(1.0, 2.0\)\) is 2, .* have 3 columns"):
        make(RBF((1.0, 2.0))).fit(X, y)
    with pytest.raises(DeclarationError, match=r"sigma\[0\] must be positive"):
        make().set_params(kernel=RBF()).set_params(kernel__sigma=[0.0, 1.0, 1.0])


def test_an_additive_machine_has_one_column_per_component():
    with pytest.raises(DataError, match="is 3, the points have 1 columns"):
        componentwise_machine(RBF((1.0, 2.0, 3.0))).fit(X, y)
    each, median = (componentwise_machine(RBF(rule)).fit(X, y).predict(NEW) for rule in ("each", "median"))
    assert_allclose(each, median, rtol=1e-8)


@by_kernel
def test_rows_of_a_map_and_a_stream_have_the_widths_of_an_array(kernel, tmp_path):
    wide = X * UNITS
    np.save(tmp_path / "X.npy", wide)
    np.save(tmp_path / "y.npy", y)
    model = LSSVMRegressor(kernel, 10.0, basis=Basis(12, random_state=0))
    known = clone(model).fit(wide, y)
    assert known.kernel_ == kernel.resolved(wide)
    mapped = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    for rows in (tuple(mapped), ([(wide[:31], y[:31]), (wide[31:], y[31:])],)):
        found = clone(model).fit(*rows)
        assert found.kernel_ == known.kernel_
        assert np.array_equal(found.predict(NEW * UNITS), known.predict(NEW * UNITS))
        assert found.certificate_.holds


def test_a_stream_of_another_number_of_columns_is_refused():
    with pytest.raises(DataError, match=r"is 2, the points have 3 columns"):
        LSSVMRegressor(RBF((1.0, 2.0)), basis="feature_vectors").fit([(X, y)])


@by_kernel
def test_arrays_of_a_device_have_the_same_widths(kernel):
    send, (wide, new) = sender("torch"), (X * UNITS, NEW * UNITS)
    there, here = (LSSVMRegressor(kernel, 10.0).fit(put(wide), put(y)) for put in (send, np.asarray))
    assert there.kernel_ == here.kernel_
    assert_allclose(to_numpy(there.predict(send(new))), here.predict(new), rtol=1e-8)


def test_a_file_with_the_wrong_number_of_widths_is_refused(tmp_path):
    model = LSSVMRegressor(RBF("each")).fit(X, y)
    model.kernel_ = RBF((1.0, 2.0))
    with pytest.raises(
        DataError, match=r"could not be loaded again: the number of widths of .* is 2, the points have 3"
    ):
        model.save(tmp_path / "model.lssvm")


def test_sparse_rows_and_a_composed_machine():
    few = np.where(np.abs(X) < 0.5, 0.0, X)
    sparse, dense = (LSSVMRegressor(RBF("each")).fit(form(few), y) for form in (csr_array, np.asarray))
    assert sparse.kernel_ == dense.kernel_
    assert_allclose(sparse.predict(csr_array(NEW)), dense.predict(NEW), rtol=1e-9)
    assert Substrate(RBF("each"), X, y).kernel == RBF("each").resolved(X)


def test_a_pruned_machine_widens_all_widths_together():
    model = PrunedLSSVMRegressor(RBF((1.0, 2.0, 30.0)), 5.0, retune=True, growth=1.0, cv="loo").fit(X, y)
    kernels = {step.kernel for step in model.pruning_path_}
    assert len(kernels) > 1
    assert all(np.ptp(np.divide(kernel.sigma, (1.0, 2.0, 30.0))) < 1e-12 for kernel in kernels)
