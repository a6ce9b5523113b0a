"""The squared-hinge machine: page and estimator agree; Fisher's discriminant is the LS-SVM."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import KernelClassifier, LSSVMClassifier, squared_hinge_svm
from substrate.datasets import ripley
from substrate.kernels import RBF, Linear

KERNEL, GAMMA = RBF(0.5), 30.0
X, LABELS = ripley()
X, LABELS = X[::4], LABELS[::4]
Y = np.where(LABELS.max() == LABELS, 1.0, -1.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_page_and_estimator_agree(weighted):
    """:place [Cawley2004]_ section 4: the 2-norm SVM as an LS-SVM on its support rows"""
    weights = np.random.default_rng(0).uniform(0.5, 2.0, Y.size) if weighted else None
    declared = squared_hinge_svm.declare(KERNEL(X), Y, GAMMA, weights).solve()
    closed = squared_hinge_svm.closed_form(KERNEL(X), Y, GAMMA, weights)
    assert_allclose(declared.support_values, closed["support_values"], atol=1e-4 * GAMMA)
    assert_allclose(declared.bias, closed["bias"], atol=1e-4)
    pulls = GAMMA * (np.ones(Y.size) if weights is None else weights)
    assert_allclose(closed["support_values"], pulls * np.maximum(closed["errors"], 0.0), atol=1e-8)
    model = KernelClassifier(KERNEL, GAMMA).fit(X, LABELS, weights)
    (support,) = np.nonzero(closed["support_values"])
    assert_array_equal(model.support_, support)
    assert_allclose(Y[support] * model.support_values_, closed["support_values"][support], rtol=1e-9)
    assert_allclose(model.decision_function(X), Y * (1.0 - closed["errors"]), atol=1e-9)
    assert model.certificate_.holds
    assert model.certify(X, LABELS, weights).holds
    assert model.n_support_ == support.size < Y.size


@pytest.mark.parametrize("gamma", [0.1, 10.0])
def test_the_ls_svm_is_the_kernel_fisher_discriminant(gamma):
    """:place [Cawley2004]_ section 4: the kernel Fisher discriminant, whose direction agrees with the LS-SVM"""
    model = LSSVMClassifier(Linear(), gamma).fit(X, LABELS)
    w = X.T @ (Y - model.decision_function(X))  # in proportion to sum alpha y x
    means = [X[side == Y].mean(axis=0) for side in (1.0, -1.0)]
    within = sum((X[side == Y] - mean).T @ (X[side == Y] - mean) for side, mean in zip((1.0, -1.0), means, strict=True))
    fisher = np.linalg.solve(within + np.eye(2) / gamma, means[0] - means[1])
    assert_allclose(w / np.linalg.norm(w), fisher / np.linalg.norm(fisher), atol=1e-8)
