"""The weighted LS-SVM: declared, closed form and the bordered matrix agree, with weights given or found."""

import naive_pruning as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import ls_svm_regression, weighted_ls_svm
from substrate.datasets import motorcycle, sinc_outliers
from substrate.errors import DeclarationError
from substrate.kernels import RBF

over_forms = pytest.mark.parametrize("form", ["primal", "dual"])


def sinc():
    data = sinc_outliers(60, n_outliers=4, random_state=0)
    return RBF(1.0)(data.data), data.target, data.outliers


def test_the_closed_form_is_algorithm_1_written_down_naively():
    """:equation [Suykens2002]_ (12): against the system written out, with the weights of Algorithm 1."""
    for K, y, gamma in ((*sinc()[:2], 10.0), (RBF(6.6)(motorcycle()[0]), motorcycle()[1], 2.0)):
        v, alpha, b = naive.algorithm_1(K, y, gamma)
        assert_allclose(weighted_ls_svm.algorithm_1_weights(K, y, gamma), v, rtol=1e-8)
        found = weighted_ls_svm.closed_form(K, y, gamma)
        assert_allclose(found["support_values"], alpha, atol=1e-9 * np.abs(alpha).max())
        assert_allclose(found["bias"], b, rtol=1e-9)
        assert_allclose(found["errors"], y - K @ alpha - b, atol=1e-8 * np.abs(y).max())


@over_forms
@pytest.mark.parametrize("found", [True, False], ids=["found", "given"])
def test_declared_and_closed_form_agree(form, found):
    """:equation [Suykens2002]_ (10): the declared problem against the closed form."""
    K, y, _ = sinc()
    weights = None if found else np.random.default_rng(3).uniform(1e-4, 1.0, size=60)
    declared = weighted_ls_svm.declare(K, y, 10.0, weights, form).solve()
    certificate = declared.certificate(against=weighted_ls_svm.closed_form(K, y, 10.0, weights))
    assert certificate.holds, str(certificate)
    assert certificate.title == f"Weighted LS-SVM ({form})"


def test_an_outlier_has_the_smallest_weight_and_support_value_and_without_weights_the_largest():
    K, y, outliers = sinc()
    plain = np.abs(ls_svm_regression.closed_form(K, y, 10.0)["support_values"])
    found = np.abs(weighted_ls_svm.closed_form(K, y, 10.0)["support_values"])
    assert_array_equal(np.sort(plain.argsort()[-4:]), outliers)
    assert set(outliers) <= set(found.argsort()[:6])
    assert_allclose(weighted_ls_svm.algorithm_1_weights(K, y, 10.0)[outliers], 1e-4)


@pytest.mark.parametrize("weighting", ["huber", "logistic", "myriad"])
@pytest.mark.parametrize("scale", ["iqr", "mad"])
def test_other_weights_and_scales(weighting, scale):
    K, y, outliers = sinc()
    v = weighted_ls_svm.algorithm_1_weights(K, y, 10.0, weighting, scale)
    assert set(v.argsort()[:4]) == set(outliers)
    declared = weighted_ls_svm.declare(K, y, 10.0, weighting=weighting, scale=scale).solve()
    against = weighted_ls_svm.closed_form(K, y, 10.0, weighting=weighting, scale=scale)
    assert declared.certificate(against=against).holds
    assert_allclose(against["support_values"], weighted_ls_svm.closed_form(K, y, 10.0, v)["support_values"])


def test_unknown_weights_are_refused():
    K, y, _ = sinc()
    for call in (weighted_ls_svm.declare, weighted_ls_svm.closed_form):
        with pytest.raises(DeclarationError, match="weighting must be one of"):
            call(K, y, 1.0, weighting="tukey")
        with pytest.raises(DeclarationError, match="scale must be one of"):
            call(K, y, 1.0, scale="std")
