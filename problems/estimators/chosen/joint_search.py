r"""Several weights of one machine, chosen together: the problems of the folds as one of cvxpy, fused.

Structure detection in its orthonormal coordinates u, with the components l in groups g,

.. math:: \min_u \; \tfrac12 \|u - \tilde y\|^2 + \sum_g \rho_g \sum_{l \in g} \|B^l u\|_\infty,

and the L1 substrate with a ridge, P the projection off 1,

.. math:: \min_\alpha \; \tfrac12 \|P (y - K \alpha)\|^2 + \tfrac{\tau}{2} \alpha^T K \alpha + \zeta \|\alpha\|_1
          \quad \text{s.t.} \quad 1^T \alpha = 0,

are affine in their weights, over which :func:`substrate.fuse` searches with a bound. The bias is eliminated: it is the
mean of y less that of the fitted values. [Pelckmans2005]_ eq. (28) with several weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from problems.estimators.chosen.fused import Choice
from substrate.arrays import Array, non_negative
from substrate.errors import DeclarationError
from substrate.fits.coordinates import ComponentCoordinates
from substrate.fits.variation import divide_from_right, rho_max
from substrate.kernels import Kernel

__all__ = ["Ends", "WeighedFold", "checked_range", "joint_choice", "sparse_fold", "variation_fold"]

#: Smallest and largest value of every weight.
Ends = tuple[tuple[float, float], ...]


def checked_range(range_: Any, name: str, *, positive: bool = False) -> tuple[float, float]:
    """Return two numbers, the first one zero or above, or above zero where it must be ``positive``, the second one
    finite.
    """
    least = "0 < low" if positive else "0 <= low"
    try:
        low, high = (non_negative(end, name) for end in range_)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{name} must be (low, high) with {least} < high, received {range_!r}") from error
    if not low < high or (positive and low == 0.0):
        raise DeclarationError(f"{name} must be (low, high) with {least} < high, received {range_!r}")
    return low, high


@dataclass(frozen=True, slots=True)
class WeighedFold:
    """The machine of a fold: ``declare`` takes the weights as parameters of cvxpy and returns the objective, the
    constraints and the fitted values of the validation rows; ``targets`` are what these should be, and ``largest`` is
    how large a weight of the linear term can matter.
    """

    declare: Callable[[Sequence[Any]], tuple[Any, list[Any], Any]]
    targets: Array
    largest: float


def variation_fold(
    coordinates: ComponentCoordinates, y: Array, rows: Array, y_check: Array, members: Sequence[int]
) -> WeighedFold:
    """Return the fold of structure detection; ``rows`` take v to values at the validation rows, ``members`` are
    groups.
    """
    R, target = coordinates.metric, coordinates.targets(y)
    # a component of its own coordinates vanishes exactly in v; otherwise u is better conditioned
    components = coordinates.parts if coordinates.is_decoupled else divide_from_right(coordinates.parts, R)
    M = rows - coordinates.parts.sum(axis=0).mean(axis=0)
    M = M if coordinates.is_decoupled else solve_triangular(R, M.T, trans="T").T

    def declare(weights: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        import cvxpy as cp

        u = cp.Variable(components.shape[2])
        misfit = R @ u - target if coordinates.is_decoupled else u - target
        penalty = sum(weights[g] * cp.norm_inf(part @ u) for g, part in zip(members, components, strict=True))
        return 0.5 * cp.sum_squares(misfit) + penalty, [], M @ u

    return WeighedFold(declare, y_check - y.mean(), rho_max(coordinates, y))


def sparse_fold(K: Array, y: Array, rows: Array, y_check: Array) -> WeighedFold:
    """Return the fold of the L1 substrate, over zeta and the ridge; ``rows`` are kernel values at the validation
    rows.
    """
    centred, target = K - K.mean(axis=0), y - y.mean()
    values, vectors = np.linalg.eigh(K)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T

    def declare(weights: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        import cvxpy as cp

        alpha = cp.Variable(y.size)
        misfit = 0.5 * cp.sum_squares(target - centred @ alpha)
        cost = misfit + weights[0] * cp.norm1(alpha) + 0.5 * weights[1] * cp.sum_squares(root @ alpha)
        return cost, [cp.sum(alpha) == 0.0], (rows - K.mean(axis=0)) @ alpha

    return WeighedFold(declare, y_check - y.mean(), float(np.abs(centred.T @ target).max()))


def joint_choice(
    kernel: Kernel, names: Sequence[Any], folds: Sequence[WeighedFold], ends: Ends, gap: float, budget: int
) -> Choice:
    """Return the weights that validate best, with the bound; an infinite end is where what it weighs has vanished."""
    import cvxpy as cp

    from substrate import fuse

    largest = max(fold.largest for fold in folds)
    inner = {name: (low, largest if np.isinf(high) else high) for name, (low, high) in zip(names, ends, strict=True)}
    if largest == 0.0:
        return _nothing_to_fit(kernel, names, folds, ends)
    weights = [cp.Parameter(nonneg=True, name=str(name)) for name in names]
    costs, constraints, fitted = zip(*(fold.declare(weights) for fold in folds), strict=True)
    rows = sum(fold.targets.size for fold in folds)
    error = sum(cp.sum_squares(values - fold.targets) for values, fold in zip(fitted, folds, strict=True)) / rows
    problem = cp.Problem(cp.Minimize(sum(costs)), [rule for rules in constraints for rule in rules])
    box = dict(zip(weights, inner.values(), strict=True))
    best = fuse(problem, tuple(weights), error, box=box, gap=gap, budget=budget, progress=False)
    if best.stop.startswith("interrupted"):  # a search keeps the best so far; a fit is finished or it is not
        raise KeyboardInterrupt
    values = dict(zip(names, best.values.values(), strict=True))
    path = {
        "parameters": tuple(names),
        "values": best.path.values.reshape(len(best.path), -1),
        "criterion": best.path.validation_errors,
        "coverage": tuple(inner.values()),
        "stop": best.stop,
    }
    said = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in inner.items())
    search = f"{best.solves} solves, {len(best.path.simplices)} simplices; {best.stop}"
    facts = (("fused over", said), ("search", search))
    return Choice(
        kernel=kernel,
        value=values,
        error=best.validation_error,
        lower_bound=best.lower_bound,
        path=path,
        facts=facts,
        kept={"proved_on_": inner},
    )


def _nothing_to_fit(kernel: Kernel, names: Sequence[Any], folds: Sequence[WeighedFold], ends: Ends) -> Choice:
    """Return the choice where the machine is its bias whatever the weights, so its error is that of all."""
    squares = np.array([float(np.mean(np.concatenate([fold.targets for fold in folds]) ** 2))])
    corner, error = tuple(low for low, _ in ends), float(squares[0])
    stop = "there is nothing to fit, all weights give the bias"
    path = {"parameters": tuple(names), "values": np.array([corner]), "criterion": squares, "coverage": tuple(ends)}
    values, proved = (dict(zip(names, each, strict=True)) for each in (corner, ends))
    facts = (("fused over", "all weights"), ("search", stop))
    return Choice(
        kernel=kernel,
        value=values,
        error=error,
        lower_bound=error,
        path=path | {"stop": stop},
        facts=facts,
        kept={"proved_on_": proved},
    )
