"""matplotlib without a screen, and no figure left open; displays are skipped, and say so, where it is missing."""

import pytest


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")
