r"""The path in zeta of the L1 substrate on a reduced basis, exact, from sums over the rows.

.. math:: \beta(\zeta) = \arg\min_{\beta} \min_b \; \tfrac12 \big\| t - \hat K \beta - b 1 \big\|^2 + \zeta \|\beta\|_1

is affine between knots. n columns of n entries stand for those of all rows (:mod:`substrate.closed_form.reduced_l1`),
and :mod:`substrate.paths.l1_homotopy` follows them, both signs in one block, which is the path of the lasso
([Efron2004]_). scikit-learn's ``lars_path_gram`` walks it too, but drops a column for good when the pivot it brings is
small, and columns of kernel values are nearly dependent as a rule; here one that depends on those in use waits.
"""

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.reduced_l1 import L1Sums
from substrate.errors import SolverError
from substrate.paths.knots import Path, Point
from substrate.paths.l1_homotopy import CentredColumns, path_of_columns

__all__ = ["coefficients_at", "point_at", "reduced_l1_paths"]

#: How often a path may be taken up again.
_RESTARTS = 20
_ROUNDING = 1e-12


def reduced_l1_paths(sums: L1Sums, zeta_min: float | None) -> tuple[Path, ...]:
    """A path an output, down to ``zeta_min`` (None: a small share of its zeta_max), targets in their unit."""
    B, targets = sums.columns()
    # what rounding, and directions left out, change of the correlations: up to there zero and not zero are the same
    noise = np.maximum(sums.noise(), np.abs(B @ targets - sums.cross).max(axis=0, initial=0.0))
    if not B.shape[1]:  # no column has a direction: a kernel without values, or without differences
        B, targets = np.zeros((B.shape[0], 1)), np.zeros((1, targets.shape[1]))
    paths = []
    for k in range(targets.shape[1]):
        columns = CentredColumns(B, targets[:, k], sums.means, float(sums.target_means[k]), float(noise[k]))
        paths.append(path_of_columns(columns, zeta_min, zero_sum=False, restarts=_RESTARTS))
    return tuple(paths)


def point_at(path: Path, zeta: float) -> Point:
    """The solution at zeta; refused where the path does not reach."""
    # the last knot is where zeta was asked for, up to rounding of correlations
    near = path.lowest - _ROUNDING * (zeta + float(path.values[-1]))
    there = path.lowest if near <= zeta < path.lowest else zeta
    if not path.covers(there):
        raise SolverError(
            f"zeta = {zeta:g} is not covered: the path was followed from {path.highest:g} to {path.lowest:g} only "
            f"({path.stop}); use a larger zeta, or fewer basis vectors"
        )
    return path.at(there)


def coefficients_at(paths: tuple[Path, ...], zeta: float) -> Array:
    """Beta of every output, a column each."""
    return np.column_stack([point_at(path, zeta).primal for path in paths])
