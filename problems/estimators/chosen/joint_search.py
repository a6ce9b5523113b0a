r"""Several weights of one machine, chosen together: the quadratic programs of the folds, and the search.

Structure detection in its orthonormal coordinates u, with the components l in groups g,

.. math:: \min_{u, t} \; \tfrac12 \|u - \tilde y\|^2 + \sum_g \rho_g \sum_{l \in g} t_l \quad \text{s.t.} \quad
          -t_l 1 \le B^l u \le t_l 1,

and the L1 substrate with a ridge, P the projection off 1,

.. math:: \min_{\alpha, t} \; \tfrac12 \|P (y - K \alpha)\|^2 + \tfrac{\tau}{2} \alpha^T K \alpha + \zeta 1^T t
          \quad \text{s.t.} \quad -t \le \alpha \le t, \quad 1^T \alpha = 0,

are affine in their weights, which :mod:`substrate.fusion` covers by simplices with a bound each. The bias is
eliminated: it is the mean of y less that of the fitted values. [Pelckmans2005]_ eq. (28) with several weights.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from problems.estimators.chosen.fused import Choice
from substrate.arrays import Array, non_negative
from substrate.certificates.rows import power_of_two
from substrate.errors import DeclarationError
from substrate.fits.coordinates import ComponentCoordinates
from substrate.fits.variation import divide_from_right
from substrate.kernels import Kernel

__all__ = ["Ends", "checked_range", "joint_choice", "sparse_fold", "variation_fold"]

#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-10
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


def variation_fold(
    coordinates: ComponentCoordinates, y: Array, rows: Array, y_check: Array, members: Sequence[int], ends: Ends
) -> Any:
    """Return the fold of structure detection; ``rows`` take v to values at the validation rows, ``members`` are
    groups.
    """
    R, target = coordinates.metric, coordinates.targets(y)
    # a component of its own coordinates vanishes exactly in v; otherwise u is better conditioned
    components = coordinates.parts if coordinates.is_decoupled else divide_from_right(coordinates.parts, R)
    d, n, r = components.shape
    flat, bounds_of_components = (
        sp.csr_array(components.reshape(d * n, r)),
        sp.csr_array(np.kron(np.eye(d), np.ones((n, 1)))),
    )
    G = sp.vstack([sp.hstack([flat, -bounds_of_components]), sp.hstack([-flat, -bounds_of_components])])
    q = np.zeros((len(ends), r + d))
    q[np.array(members), r + np.arange(d)] = 1.0
    H, goal = (R.T @ R, R.T @ target) if coordinates.is_decoupled else (np.eye(r), target)
    P = sp.csr_array(sp.block_diag([H, sp.csr_array((d, d))]))
    M = rows - coordinates.parts.sum(axis=0).mean(axis=0)
    M = M if coordinates.is_decoupled else solve_triangular(R, M.T, trans="T").T
    M = np.hstack([M, np.zeros((y_check.size, d))])
    numbers = (sp.csr_array(P.shape), np.append(-goal, np.zeros(d)), q, sp.csr_array(G), np.zeros(2 * d * n))
    return _fold((P, *numbers, {0: 0, 1: r}, 0, -1), M, y, y_check, ends)


def sparse_fold(K: Array, y: Array, rows: Array, y_check: Array, ends: Ends) -> Any:
    """Return the fold of the L1 substrate, over zeta and the ridge; ``rows`` are kernel values at the validation
    rows.
    """
    n = y.size
    centred, zeros, identity = K - K.mean(axis=0), sp.csr_array((n, n)), sp.eye_array(n)
    P0, P1 = (sp.csr_array(sp.block_diag([block, zeros])) for block in (centred.T @ centred, K))
    q = np.vstack([np.append(np.zeros(n), np.ones(n)), np.zeros(2 * n)])
    sums = sp.csr_array(np.append(np.ones(n), np.zeros(n))[None])
    A = sp.vstack([sums, sp.hstack([identity, -identity]), sp.hstack([-identity, -identity])])
    M = np.hstack([rows - K.mean(axis=0), np.zeros((y_check.size, n))])
    q0 = np.append(-(centred.T @ (y - y.mean())), np.zeros(n))
    return _fold((P0, P1, q0, q, sp.csr_array(A), np.zeros(1 + 2 * n), {0: 0, 1: n}, 1, 1), M, y, y_check, ends)


def _fold(terms: tuple[Any, ...], M: Array, y: Array, y_check: Array, ends: Ends) -> Any:
    from substrate.fusion.affine_program import AffineProgram  # brings cvxpy, which paths do without
    from substrate.fusion.affine_terms import AffineTerms
    from substrate.fusion.determined_errors import DeterminedErrors
    from substrate.fusion.knot_store import ProgramFold

    terms_made = AffineTerms(*terms)
    low = ends[terms_made.ridge][0] if terms_made.ridge >= 0 else 0.0
    size = float(np.linalg.norm(y - y.mean())) or 1.0
    program = AffineProgram(terms_made, power_of_two(size), low)
    return ProgramFold(program=program, M=M, targets=y_check - y.mean(), reach=DeterminedErrors(program, M), size=size)


def joint_choice(kernel: Kernel, names: Sequence[Any], folds: list[Any], ends: Ends, gap: float, budget: int) -> Choice:
    """Return the weights that validate best, with the bound; an infinite end is where what it weighs has vanished."""
    from substrate.fusion.box import levels
    from substrate.fusion.knot_store import KnotStore
    from substrate.fusion.simplex_search import cell_simplices, search_simplices
    from substrate.fusion.unproved_search import searched_without_bounds
    from substrate.fusion.upper_ends import choose_upper_ends

    if not any(fold.program.q0.any() for fold in folds):
        return _nothing_to_fit(kernel, names, folds, ends)
    store, lower = KnotStore(folds), -np.inf
    inner = choose_upper_ends(store, ends)
    first = store.add(tuple(high for _, high in inner))
    if all(fold.reach.is_determined(knots[first].x) for fold, knots in zip(store.folds, store.knots, strict=True)):
        outcome = search_simplices(
            store, cell_simplices([levels(range_, len(inner)) for range_ in inner]), gap, budget, _silent
        )
        lower = outcome.lower_bound
    else:  # the squares do not determine the predictions
        outcome = searched_without_bounds(store, inner, budget, _silent)
    if outcome.stop.startswith("interrupted"):  # a search keeps the best so far; a fit is finished or it is not
        raise KeyboardInterrupt
    rows, best = sum(fold.targets.size for fold in folds), store.best
    error, values = float(store.squares[best]) / rows, dict(zip(names, store.corners[best], strict=True))
    proved = dict(zip(names, inner, strict=True))
    path = {
        "parameters": tuple(names),
        "values": np.array(store.corners),
        "criterion": store.squares / rows,
        "coverage": tuple(proved.values()),
        "stop": outcome.stop,
    }
    said = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in proved.items())
    search = f"{store.solves} solves, {len(outcome.simplices)} simplices; {outcome.stop}"
    bound = _BELOW * min(lower, float(store.squares[best])) / rows
    facts = (("fused over", said), ("search", search))
    return Choice(
        kernel=kernel, value=values, error=error, lower_bound=bound, path=path, facts=facts, kept={"proved_on_": proved}
    )


def _nothing_to_fit(kernel: Kernel, names: Sequence[Any], folds: list[Any], ends: Ends) -> Choice:
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


def _silent(solves: int, best: float, lower: float) -> None:
    """Show nothing."""
