"""The display of a classifier: the numbers in its curves, several classes, and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, confusion_matrix, roc_auc_score

from problems import LSSVMClassifier, LSSVMRegressor
from problems.displays import ClassificationDisplay
from substrate.datasets import ripley
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X, Y = ripley()
X_NEW, Y_NEW = ripley(subset="test")
X_NEW, Y_NEW = X_NEW[::5], Y_NEW[::5]


def test_curves_and_matrix_are_those_of_scikit_learn(plt):
    model = LSSVMClassifier(RBF(0.5)).fit(X, Y)
    drawn = ClassificationDisplay.from_estimator(model, X_NEW, Y_NEW)
    p, truth = model.predict_proba(X_NEW)[:, 1], model.classes_[1] == Y_NEW
    observed, predicted = calibration_curve(truth, p, n_bins=10, strategy="quantile")
    assert_allclose(drawn.axes_[0].lines[-1].get_xydata(), np.column_stack([predicted, observed]))
    assert_allclose(drawn.brier, brier_score_loss(truth, p))
    cells = [int(text.get_text()) for text in drawn.axes_[1].texts]
    assert cells == confusion_matrix(Y_NEW, model.predict(X_NEW)).ravel().tolist()
    area = roc_auc_score(truth, model.decision_function(X_NEW))
    labels = [line.get_label() for line in drawn.axes_[2].lines]
    assert labels[0] == f"class {model.classes_[1]} (AUC = {area:.2f})"


def test_several_classes_have_a_curve_each(plt):
    three = (X[:, 0] > 0.2).astype(int) + (X[:, 0] > -0.4)
    model = LSSVMClassifier(RBF(0.5)).fit(X[::2], three[::2])
    drawn = ClassificationDisplay.from_estimator(model, X[1::2], three[1::2])
    named = [line.get_label() for line in drawn.axes_[0].lines]
    assert sorted(named[1:]) == ["class 0", "class 1", "class 2"]
    assert np.isfinite(drawn.brier)


def test_refusals(plt):
    model = LSSVMClassifier(RBF(0.5)).fit(X, Y)
    with pytest.raises(DeclarationError, match="ClassificationDisplay draws classifiers"):
        ClassificationDisplay.from_estimator(LSSVMRegressor().fit(X, Y.astype(float)), X, Y)
    with pytest.raises(DataError, match="one label per row of X"):
        ClassificationDisplay.from_estimator(model, X_NEW, Y_NEW[:3])
    with pytest.raises(DeclarationError, match="no probabilities"):
        ClassificationDisplay.from_estimator(model.set_params(calibration=None), X_NEW, Y_NEW)
