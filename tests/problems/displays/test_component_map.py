"""The map of rows: points where the scores are, groups by mark, numbers by colour, and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

from problems import LSSVMKernelPCA
from problems.displays import ComponentMapDisplay
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X = np.random.default_rng(0).normal(size=(20, 3))


@pytest.fixture(scope="module")
def model():
    return LSSVMKernelPCA(RBF(2.0), 3).fit(X)


def test_points_are_where_the_scores_are(plt, model):
    display = ComponentMapDisplay.from_estimator(model, X, components=(2, 0))
    (drawn,) = display.ax_.collections
    assert_allclose(drawn.get_offsets(), model.transform(X)[:, [2, 0]])
    assert "component 3" in display.ax_.get_xlabel()
    assert "% of the variance" in display.ax_.get_ylabel()


def test_groups_have_marks_and_numbers_a_bar(plt, model):
    groups = np.array(["a", "b"] * 10)
    display = ComponentMapDisplay.from_estimator(model, X, groups=groups, name="kind")
    shapes = [collection.get_paths()[0].vertices.shape for collection in display.ax_.collections]
    assert len(shapes) == 2
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b"]
    numbers = ComponentMapDisplay.from_estimator(model, X, groups=np.linspace(0.0, 1.0, 20), name="share")
    assert len(numbers.figure_.axes) == 2
    assert numbers.figure_.axes[1].get_ylabel() == "share"


def test_refusals(plt, model):
    with pytest.raises(DeclarationError, match="components must be two numbers from 0 to 2"):
        ComponentMapDisplay.from_estimator(model, X, components=(0, 3))
    with pytest.raises(DataError, match="one entry for each of the 20 rows"):
        ComponentMapDisplay.from_estimator(model, X, groups=["a"])
    with pytest.raises(DeclarationError, match="draws components"):
        ComponentMapDisplay.from_estimator(LinearRegression().fit(X, X[:, 0]), X)
