"""What holds for every picture: nothing clipped, axes labelled with units, curves told apart without colour."""

from functools import cache

import numpy as np
import pytest
from variants import robust_machine

import problems
from problems import displays
from substrate.datasets import additive_function, motorcycle, ripley
from substrate.kernels import RBF

X, Y = motorcycle()
X, Y = X[::4], Y[::4]
P, LABELS = ripley()
P, LABELS = P[::8], LABELS[::8]
A, B = additive_function(30, 8, random_state=0)


@cache
def fused():
    return problems.FusedMaximalVariationRegressor(RBF(1.0), random_state=0).fit(A, B)


def regression_support():
    model = problems.L1SubstrateRegressor(RBF(6.6), zeta=20.0).fit(X, Y)
    return displays.SupportVectorsDisplay.from_estimator(model, X, Y)


def class_support():
    model = problems.LSSVMClassifier(RBF(0.6)).fit(P, LABELS)
    return displays.SupportVectorsDisplay.from_estimator(model, P, LABELS)


def robust():
    model = robust_machine(RBF(6.6), gamma=2.0).fit(X, Y)
    return displays.ResidualsDisplay.from_estimator(model, X, Y)


PICTURES = {
    "components": lambda: displays.ComponentFunctionsDisplay.from_estimator(fused(), A, B),
    "criterion": lambda: displays.CriterionDisplay.from_estimator(problems.LSSVMRegressorCV(RBF(6.6)).fit(X, Y)),
    "evolution": lambda: displays.EvolutionDiagramDisplay.from_estimator(fused()),
    "interval, one input": lambda: displays.IntervalDisplay.from_estimator(
        problems.LSSVMRegressor(RBF(6.6)).fit(X, Y), X, Y
    ),
    "interval": lambda: displays.IntervalDisplay.from_estimator(problems.LSSVMRegressor(RBF(1.0)).fit(A, B), A, B),
    "residuals": robust,
    "support, regression": regression_support,
    "support, classes": class_support,
}


def grey(colour) -> float:
    """The lightness of a print without colour, to one decimal."""
    from matplotlib.colors import to_rgb

    return round(float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114))), 1)


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_can_be_read(plt, name):
    display = PICTURES[name]()
    figure = display.figure_
    figure.canvas.draw()  # lays it out
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01
    for axes in figure.axes:
        if axes.get_subplotspec().is_last_row() or name == "components":
            assert "(" in axes.get_xlabel() or "no unit" in axes.get_xlabel(), axes.get_xlabel()
        if axes.get_subplotspec().is_first_col():
            assert "(" in axes.get_ylabel(), axes.get_ylabel()
        named = [line for line in axes.lines if not line.get_label().startswith("_")]
        looks = {
            (line.get_linestyle(), line.get_marker(), grey(line.get_color()), line.get_markevery() == [-1])
            for line in named
        }
        assert len(looks) == len(named), "two curves look the same in grey"
    assert any(axes.get_legend() is not None for axes in figure.axes)
