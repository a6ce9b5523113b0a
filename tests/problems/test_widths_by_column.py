"""Machines whose kernel has a width for every column: in all units, from files, on devices, and saved."""

import numpy as np
import pytest
from array_homes import sender
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from variants import componentwise_machine

from problems import LSSVMRegressor
from substrate.arrays import to_numpy
from substrate.errors import DataError, DeclarationError, ScaleWarning
from substrate.kernels import RBF, Laplacian, Matern

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


def test_the_wrong_number_of_widths_is_refused_when_fitting():
    with pytest.raises(DataError, match=r"the number of widths of RBF\(sigma=\(1.0, 2.0\)\) is 2, .* have 3 columns"):
        LSSVMRegressor(RBF((1.0, 2.0))).fit(X, y)
    with pytest.raises(DeclarationError, match=r"sigma\[0\] must be positive"):
        LSSVMRegressor().set_params(kernel=RBF()).set_params(kernel__sigma=[0.0, 1.0, 1.0])


def test_an_additive_machine_has_one_column_per_component():
    with pytest.raises(DataError, match="is 3, the points have 1 columns"):
        componentwise_machine(RBF((1.0, 2.0, 3.0))).fit(X, y)
    each, median = (componentwise_machine(RBF(rule)).fit(X, y).predict(NEW) for rule in ("each", "median"))
    assert_allclose(each, median, rtol=1e-8)


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
