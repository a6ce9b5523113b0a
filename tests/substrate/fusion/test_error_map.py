"""The map of the validation error: what is drawn covers the box that was searched."""

import numpy as np
import pytest

from substrate.fusion.result import Fusion, JointPath


def cut_on_one_side():
    """A box of two triangles, one of which was cut at the middle of the edge that they share."""
    values = np.array([[1.0, 1.0], [100.0, 1.0], [1.0, 100.0], [100.0, 100.0], [50.5, 50.5]])
    simplices = np.array([[0, 1, 2], [3, 1, 4], [3, 4, 2]])
    errors = np.array([2.0, 1.0, 3.0, 4.0, 2.5])
    path = JointPath(("a", "b"), values, errors, (), simplices, np.full(3, 0.5), "made for a test")
    box = {"a": (1.0, 100.0), "b": (1.0, 100.0)}
    return Fusion({"a": 100.0, "b": 1.0}, 1.0, 0.5, box, None, path, None)


def test_there_are_no_gaps_between_triangles():
    """On logarithmic axes the shared edge is a curve; drawn straight, it would miss the knot in its middle."""
    pytest.importorskip("matplotlib").use("Agg")
    axes = cut_on_one_side().plot()
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    (drawn,) = axes.collections
    outlines = [outline.transformed(axes.transData) for outline in drawn.get_paths()]
    places = axes.transAxes.transform(np.random.default_rng(0).uniform(size=(2000, 2)))
    covered = np.any([outline.contains_points(places) for outline in outlines], axis=0)
    assert covered.mean() >= 0.998  # the edges are drawn in steps
