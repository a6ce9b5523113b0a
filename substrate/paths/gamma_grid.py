r"""The best gamma of a grid, for criteria of leave-one-out residuals that are not smooth.

Medians, trimmed means, absolute values and misclassification have kinks or steps in lambda, so they are not bounded
between two points of a grid: the lower bound of such a search is minus infinity, and no certificate states one.
"""

from collections.abc import Callable

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.spectrum import Spectrum
from substrate.namespaces import to_numpy
from substrate.paths.gamma_result import GammaSearch

__all__ = ["GRID", "grid_gamma"]

#: Points of the grid, equally spaced in log lambda.
GRID = 400
_AT_ONCE = 50


def grid_gamma(
    spectrum: Spectrum, Y: Array, lambdas: tuple[float, float], loss: Callable[[Array], Array], points: int = GRID
) -> GammaSearch:
    """Evaluate ``loss`` of the residuals, from shape (N, lambdas, outputs) to (lambdas, gammas to choose).

    Of equal values the largest lambda wins, the smoothest machine.
    """
    targets = spectrum.targets(Y)
    low, high = (np.log(value - spectrum.lift) for value in lambdas)
    grid = np.exp(np.linspace(high, low, points)) + spectrum.lift
    losses = np.concatenate(
        [loss(to_numpy(spectrum.leave_one_out(targets, grid[k : k + _AT_ONCE]))) for k in range(0, points, _AT_ONCE)]
    )
    best = losses.argmin(axis=0)
    values = losses.min(axis=0)
    return GammaSearch(
        gamma=1.0 / grid[best],
        values=values,
        bounds=np.full(values.size, -np.inf),
        slack=np.zeros(values.size),
        unit=1.0,
        gamma_range=(1.0 / lambdas[1], 1.0 / lambdas[0]),
        gap=np.inf,
        intervals=0,
        evaluations=points,
        seen=1.0 / grid,
        curve=losses,
    )
