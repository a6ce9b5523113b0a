r"""Stability selection: how often subsamples of the rows select a component, for every rho at once.

On each of B subsamples of half the rows the exact path of maximal variation has finitely many selected sets
(:mod:`substrate.penalized.homotopy.selected_sets`); their cells of rho, merged, give the selection frequency of every
component as a step function, and with :math:`\Lambda` the rho from some smallest one on

.. math:: \hat\pi_l = \max_{\rho \in \Lambda} \frac1B \sum_{b=1}^B 1[l \in S_b(\rho)], \qquad
          \hat S = \{ l : \hat\pi_l \ge \pi \} .

If q components are selected somewhere in :math:`\Lambda` on the average, and if the irrelevant ones are selected
exchangeably and no more often than relevant ones, the expected number of irrelevant ones in :math:`\hat S` is

.. math:: E[V] \le \frac{1}{2 \pi - 1} \frac{q^2}{d}

([Meinshausen2010]_ theorem 1), which is how :math:`\Lambda` is chosen: as far down as q allows. Rho weighs a sum over
rows, so that of a subsample of m among n rows is :math:`\rho m / n`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from problems.estimators.chosen.fused import FusionRound
from substrate.arrays import Array, non_negative, positive, whole_number
from substrate.errors import DataError, DeclarationError
from substrate.penalized.homotopy.selected_sets import SelectedSets, merge_sets, select_along_path
from substrate.penalized.homotopy.tracks import VariationFold
from substrate.values import Record

__all__ = ["StabilitySelection", "stability_selection"]


@dataclass(frozen=True, slots=True, eq=False)
class StabilitySelection(Record):
    """The answer of ``stability_selection``.

    Attributes
    ----------
    support : array of shape (n_components,)
        A mask of the components that are stable.
    probabilities : array of shape (n_components,)
        The largest selection frequency of every component over the rho that count.
    rho_min : float
        The smallest rho that counts, in units of a fit to all rows.
    expected_false : float
        The bound on the expected number of irrelevant components among the stable ones.
    rho : array of shape (n_cells,)
        Where the cells of rho begin, in the same units, ascending; the frequencies are constant on each.
    frequencies : array of shape (n_cells, n_components)
        Share of the subsamples that select a component on a cell.
    """

    support: NDArray[np.bool_]
    probabilities: Array
    rho_min: float
    expected_false: float
    rho: Array
    frequencies: Array


def stability_selection(
    self: Any,
    X: Any,
    y: Any,
    *,
    n_subsamples: int = 50,
    threshold: float = 0.9,
    false_inputs: float = 1.0,
    random_state: Any = None,
) -> StabilitySelection:
    """Find the components that most subsamples of half the rows select; the model itself is left as it is.

    Parameters
    ----------
    X, y
        As for :meth:`fit`.
    n_subsamples : int, default=50
        Number of subsamples.
    threshold : float, default=0.9
        Selection frequency from which on a component is stable, above one half and at most one.
    false_inputs : float, default=1.0
        Largest expected number of irrelevant components among the stable ones, by which the smallest rho is chosen.
    random_state : int, RandomState or None, default=None
        Seed of the subsamples.

    Returns
    -------
    StabilitySelection
        The stable components, selection frequencies for every rho, and the bound on false ones.

    Examples
    --------
    >>> from problems import FusedMaximalVariationRegressor
    >>> from substrate.datasets import additive_function
    >>> from substrate.kernels import RBF
    >>> X, y = additive_function(100, 6, random_state=0)
    >>> model = FusedMaximalVariationRegressor(RBF(1.0), expansion="decoupled", ridge=0.1)
    >>> model.stability_selection(X, y, n_subsamples=6, false_inputs=4.0, random_state=0).support.astype(int)
    array([1, 1, 1, 1, 0, 0])
    """
    count = whole_number(n_subsamples, "n_subsamples", 2)
    wanted = positive(false_inputs, "false_inputs")
    if not 0.5 < positive(threshold, "threshold") <= 1.0:
        raise DeclarationError(f"threshold must be above 0.5 and at most 1, received {threshold!r}")
    model = clone(self)
    relevance = non_negative(model.relevance, "relevance", "as a share of the largest maximal variation")
    search = model._selector
    search.check_rules()
    model._check_coding()
    X, y, _ = model._check_data(X, y, None, numeric=not model._labels)
    n = int(X.shape[0])
    if n < 4:
        raise DataError(f"halves of the rows need at least four of them, received {n}")
    Y, kernel, generator = model._encode(y).codes(y), model._resolved_kernel(X), check_random_state(random_state)
    rounds, size = list[SelectedSets](), n // 2
    for _ in range(count):
        rows = np.sort(generator.choice(n, size, replace=False))
        half = FusionRound(X[rows], Y[rows], X[:0], Y[:0])
        folds = [VariationFold.of(*machine) for machine in search.machines(kernel, half, unjudged=True)]
        rounds.append(select_along_path(folds, relevance))
    merged = merge_sets(rounds)
    rho, frequencies = merged.edges[:-1] * (n / size), merged.certain.mean(axis=1)
    d = frequencies.shape[1]
    # selected on a cell or on one further up; what rounding decides counts as not selected
    ever = np.logical_or.accumulate(merged.certain[::-1], axis=0)[::-1].sum(axis=2).mean(axis=1)
    allowed = ever <= np.sqrt((2.0 * float(threshold) - 1.0) * d * wanted)
    first = int(allowed.argmax()) if allowed.any() else len(rho) - 1
    probabilities = frequencies[first:].max(axis=0)
    return StabilitySelection(
        support=probabilities >= float(threshold),
        probabilities=probabilities,
        rho_min=float(rho[first]),
        expected_false=float(ever[first]) ** 2 / ((2.0 * float(threshold) - 1.0) * d),
        rho=rho,
        frequencies=frequencies,
    )
