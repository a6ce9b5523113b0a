"""The pruning path: sizes, scores and spectra of its steps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from problems import LSSVMRegressor, PrunedLSSVMClassifier, PrunedLSSVMRegressor
from problems.displays import PruningPathDisplay
from substrate.datasets import motorcycle, ripley
from substrate.errors import DeclarationError
from substrate.kernels import RBF


@pytest.fixture(scope="module")
def model():
    X, y = motorcycle()
    return PrunedLSSVMRegressor(RBF(6.6), gamma=2.0).fit(X[::2], y[::2])


def test_scores_and_spectra(plt, model):
    display = PruningPathDisplay.from_estimator(model)
    score, spectrum = display.axes_
    path, chosen = model.pruning_path_, model.step_
    lines = {line.get_label(): line for line in score.lines}
    assert_array_equal(lines["path"].get_xdata(), [step.size for step in path])
    assert_array_equal(lines["path"].get_ydata(), [step.score for step in path])
    assert_array_equal(
        lines[f"chosen: {model.support_.size} rows"].get_xydata(), [[path[chosen].size, path[chosen].score]]
    )
    assert chosen + 1 < len(path), "the last machine degraded"
    assert_array_equal(lines["degraded"].get_xdata(), [step.size for step in path[chosen + 1 :]])
    assert score.xaxis_inverted()
    for line, step in zip(spectrum.lines, sorted({0, chosen // 2, chosen}), strict=True):
        assert_allclose(line.get_ydata(), np.sort(np.abs(path[step].support_values))[::-1])
        assert_array_equal(line.get_xdata(), np.arange(1, path[step].size + 1))
    assert len({line.get_linestyle() for line in spectrum.lines}) == len(spectrum.lines)
    assert score.get_ylabel() == "error on all training rows (units of y, squared)"


def test_steps_and_axes_by_request(plt, model):
    _, axes = plt.subplots(1, 2)
    display = PruningPathDisplay.from_estimator(model, steps=[1], ax=axes)
    assert_array_equal(display.axes_, axes)
    assert list(display.spectra) == [1]
    assert len(axes[1].lines) == 1


def test_a_classifier_counts_wrong_rows(plt):
    X, y = ripley()
    model = PrunedLSSVMClassifier(RBF(0.6), n_support=20).fit(X[::5], y[::5])
    display = PruningPathDisplay.from_estimator(model)
    assert display.axes_[0].get_ylabel().endswith("(share of rows)")
    assert "degraded" not in [line.get_label() for line in display.axes_[0].lines]


def test_refusals(plt, model):
    with pytest.raises(DeclarationError, match="draws PrunedLSSVMRegressor and PrunedLSSVMClassifier"):
        PruningPathDisplay.from_estimator(LSSVMRegressor())
    with pytest.raises(NotFittedError):
        PruningPathDisplay.from_estimator(PrunedLSSVMRegressor())
    with pytest.raises(DeclarationError, match="steps must be numbers from 0 to"):
        PruningPathDisplay.from_estimator(model, steps=[999])
    assert plt.get_fignums() == []
