"""What is no kernel is refused by name, and an indefinite matrix gives a warning and a line in the certificate."""

import numpy as np
import pytest
import scipy.sparse as sp
from every_model import (
    SIGMA,
    assert_unfitted,
    location_of,
    make_data,
    make_estimator,
    output,
    over_kerneled,
    over_pairwise,
    seeded,
)
from numpy.testing import assert_allclose
from sklearn.base import is_regressor
from spoilt_values import brief, indefinite

from substrate.errors import IndefiniteKernelWarning
from substrate.kernels import RBF, Precomputed


@over_pairwise
def test_precomputed_matrices_of_wrong_shape_or_form(estimator):
    X, y = make_data(estimator)
    K = RBF(SIGMA)(X)
    for wrong in (K[:, :-1], np.hstack([K, K])):
        with pytest.raises(ValueError, match="square"):
            seeded(estimator, kernel=Precomputed()).fit(wrong, y)
    model = seeded(estimator, kernel=Precomputed()).fit(K, y)
    for wrong in (K[:, :-1], np.hstack([K, K]), K[:, 0]):
        with pytest.raises(ValueError, match=r"features|2D"):
            model.predict(wrong)
    lopsided = K.copy()
    lopsided[0, 1] += 0.01
    with pytest.raises(ValueError, match="not symmetric"):
        seeded(estimator, kernel=Precomputed()).fit(lopsided, y)
    rounded = K.copy()
    rounded[0, 1] += 1e-13
    model = seeded(estimator, kernel=Precomputed()).fit(rounded, y)
    assert "symmetrised" in str(model.certificate_)


def solves_the_saddle_system(model):
    """Whether its closed form factors a K + D that may be indefinite.

    Some are convex in the coefficients whatever K is, and those that choose gamma choose it so that K + D is definite.
    """
    dense = ("ls_svm_regression", "ls_svm_classification", "ls_svm_substrate")
    return model._page in dense and model._chooses is None and location_of(model) == "mean"


@over_pairwise
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_indefinite_matrix_warns_in_closed_form_and_is_recorded(estimator):
    _, y = make_data(estimator)
    K = indefinite(len(y))
    with pytest.warns(IndefiniteKernelWarning, match=r"smallest eigenvalue -5"):
        model = seeded(estimator, kernel=Precomputed()).fit(K, y)
    if not solves_the_saddle_system(model):
        assert "not positive semi-definite" in str(model.certificate_)
        return
    assert "indefinite factorisation" in str(model.certificate_)
    if is_regressor(model):
        system = np.block([[np.zeros((1, 1)), np.ones((1, len(y)))], [np.ones((len(y), 1)), K + np.eye(len(y))]])
        solution = np.linalg.solve(system, np.r_[0.0, y])
        assert_allclose(model.bias_, solution[0], rtol=1e-9)
        assert_allclose(model.support_values_, solution[1:], rtol=1e-9, atol=1e-10)


@over_kerneled
def test_a_callable_kernel_works_like_the_kernel_it_computes(estimator):
    X, y = make_data(estimator)

    def radial(X, Z):
        return np.exp(-((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=-1) / SIGMA**2)

    expected = output(make_estimator(estimator).fit(X, y), X)
    for rows in (X, sp.csr_matrix(X)):
        assert_allclose(output(seeded(estimator, kernel=radial).fit(rows, y), rows), expected, rtol=1e-9)


@over_kerneled
@pytest.mark.parametrize("kernel", ["gaussian", 3, None, RBF, object()], ids=brief)
def test_what_is_no_kernel_is_refused(estimator, kernel):
    X, y = make_data(estimator)
    model = seeded(estimator, kernel=kernel)
    with pytest.raises(ValueError, match="kernel"):
        model.fit(X, y)
    assert_unfitted(model)
