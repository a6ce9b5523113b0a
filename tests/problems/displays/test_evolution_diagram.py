"""The evolution diagram draws the path of the fit: knots, optimum and bound."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from problems import FusedMaximalVariationRegressor, MaximalVariationRegressor
from problems.displays import EvolutionDiagramDisplay
from substrate.datasets import additive_function
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear


@pytest.fixture(scope="module")
def fused():
    X, y = additive_function(24, 8, random_state=0)
    X_val, y_val = additive_function(24, 8, random_state=1)
    return FusedMaximalVariationRegressor(RBF(1.0)).fit(X, y, X_val, y_val)


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_the_curves_are_the_path(plt, fused):
    display = EvolutionDiagramDisplay.from_estimator(fused)
    above, below = display.axes_
    path, drawn = fused.path_, display.values_to_draw()
    assert np.isin(path["values"][path["values"] >= drawn[0]], drawn).all()
    assert drawn[0] < fused.rho_ < drawn[-1] == path["values"][-1]
    known = lines(above)
    named = [label for label in known if label.startswith("x")]
    assert len(named) == 6
    assert "2 others" in known
    for name in named:
        assert_array_equal(known[name].get_xdata(), drawn)
        t = path["maximal_variation"][:, int(name[1:]) - 1]
        assert_allclose(known[name].get_ydata(), np.interp(drawn, path["values"], t))
    errors = lines(below)
    assert_allclose(errors["validation"].get_ydata(), np.interp(drawn, path["values"], path["criterion"]))
    (optimum,) = [line for label, line in errors.items() if label.startswith("fused optimum")]
    assert_array_equal(optimum.get_xydata(), [[fused.rho_, fused.criterion_]])
    (bound,) = [line for label, line in errors.items() if label.startswith("lower bound")]
    assert set(bound.get_ydata()) == {fused.criterion_lower_bound_}


def test_refusals(plt, fused):
    X, y = additive_function(18, 4, random_state=0)
    single = MaximalVariationRegressor(RBF(1.0)).fit(X, y)
    with pytest.raises(DeclarationError, match="EvolutionDiagramDisplay draws FusedMaximalVariationRegressor and"):
        EvolutionDiagramDisplay.from_estimator(single)
    with pytest.raises(NotFittedError):
        EvolutionDiagramDisplay.from_estimator(FusedMaximalVariationRegressor())
    with pytest.raises(DeclarationError, match="rho_min"):
        EvolutionDiagramDisplay.from_estimator(fused, rho_min=-1.0)
    folds = FusedMaximalVariationRegressor(RBF(1.0), cv=2).fit(X, y)
    with pytest.raises(DataError, match="several folds or machines"):
        EvolutionDiagramDisplay.from_estimator(folds)
    assert plt.get_fignums() == []


def test_one_rho_for_each_group_has_no_evolution():
    X, y = additive_function(20, 4, random_state=0)
    groups = {"groups": [[0, 1], [2, 3]], "gap": 0.5}
    model = FusedMaximalVariationRegressor(Linear(), random_state=0, **groups).fit(X, y)
    with pytest.raises(DataError, match="one rho for each group of inputs"):
        EvolutionDiagramDisplay.from_estimator(model)
