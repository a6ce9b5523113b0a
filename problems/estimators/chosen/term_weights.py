r"""Weights of the terms of a sum of kernels: a factor for each of them to be searched, and terms that are not needed.

.. math:: k = \sum_t f_t k_t, \qquad f_t \ge 0

A search by slopes moves the factors :math:`f_t` beside the widths, from the factors that are given or from those that
give all terms the same share (:mod:`substrate.kernels.terms`), whichever has the smaller criterion: multiple kernel
learning by the criterion itself. A factor that is moved by its logarithm becomes small and never zero, so that terms
are set to zero afterwards, interactions before main effects and those of the smallest shares first: as many of them at
once as possible, then one at a time.
Widths and other factors stay as they are, and gamma is searched anew. A term has to be worth its parameters: it is
dropped where the criterion F without it is not larger than

.. math:: F \Big( 1 + \frac{\log N}{N} \Big)^p

with p the number of its own scales, its factor among them: the price by Schwarz's criterion, half the logarithm of N
for each in the logarithm of the likelihood ([Schwarz1978]_), more than a term without effect gains by chance. The
machine of smallest F after these prices is chosen, and the bound that the certificate compares it with is that of all
kernels after them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel
from problems.estimators.chosen.kernel_search import JudgedBy, best_of, descend
from problems.estimators.chosen.tasks import Task
from substrate.kernels import Componentwise, Kernel, Sum
from substrate.kernels.nested import Restricted, Scaled
from substrate.kernels.terms import term_shares
from substrate.progress import Progress

__all__ = ["weighed_descent", "weighed_starts", "winner", "with_factors", "without_terms"]


def with_factors(kernel: Kernel, factors: Sequence[float], n_features: int) -> Kernel:
    """Return the same sum with these factors of its terms, each of them written out."""
    pairs = [(factor, term) for factor, (_, term) in zip(factors, kernel.terms(n_features), strict=True)]
    if not isinstance(kernel, Componentwise):
        terms: list[Kernel] = [Scaled(factor, term) for factor, term in pairs]
        return reduce(Sum, terms)
    plain = replace(kernel, factors=None)
    inside = plain.terms(n_features)
    if len(plain.components(n_features)) == len(inside) and all(factor == 1.0 for factor, _ in inside):
        return replace(kernel, factors=tuple(factors))  # inputs keep one width in all their components
    return Componentwise([Restricted(Scaled(factor, term.kernel), term.columns) for factor, term in pairs])


def weighed_starts(kernel: Kernel, X: Any) -> list[Kernel]:
    """Return a sum with its factors written out, and with those that give all terms the same share; nothing for one
    term.
    """
    if kernel.pairwise or len(terms := kernel.terms(d := int(X.shape[1]))) < 2:
        return []
    own_factors = np.array([factor for factor, _ in terms])
    shares = term_shares(kernel, X)
    equal_shares = np.where(
        shares > 0.0, own_factors * float(shares.max()) / np.where(shares > 0.0, shares, 1.0), own_factors
    )
    if not np.isfinite(equal_shares).all():
        equal_shares = own_factors
    return list(dict.fromkeys(with_factors(kernel, factors.tolist(), d) for factors in (own_factors, equal_shares)))


def weighed_descent(
    first: EvaluatedKernel, task: Task | JudgedBy, X: Any, n: int, most: int, n_jobs: Any, progress: Progress
) -> list[EvaluatedKernel]:
    """Return kernels along slopes; of a sum with a factor for every term, and without the terms that are not needed.

    ``X`` are points at which shares are measured, n the number of rows.
    """
    starts = weighed_starts(first.kernel, X)
    judged = best_of(starts, task, n_jobs, progress, True) if starts else []
    judged += descend(min(judged or [first], key=lambda evaluated: evaluated.score), task, most, n_jobs, progress)
    return judged + (without_terms(judged, task, X, n, most, progress) if starts else [])


def without_terms(
    judged: Sequence[EvaluatedKernel], task: Task | JudgedBy, X: Any, n: int, most: int, progress: Progress
) -> list[EvaluatedKernel]:
    """Judge the best kernel without some of its terms, ``most`` kernels in all; see above for which."""
    d, evaluated, best = int(X.shape[1]), list[EvaluatedKernel](), winner(judged)
    terms = () if best.kernel.pairwise else best.kernel.terms(d)
    factors = [factor for factor, _ in terms]
    if len(factors) < 2:
        return []
    # of a componentwise kernel with factors the widths belong to inputs, not to terms
    shared = isinstance(best.kernel, Componentwise) and best.kernel.factors is not None
    prices = [1 if shared else 1 + len(term.scales()) for _, term in terms]
    sizes = [len(getattr(term, "columns", ())) for _, term in terms]
    by_share = np.lexsort((term_shares(best.kernel, X), -np.array(sizes)))  # interactions before main effects
    order = [int(number) for number in by_share if factors[number] > 0.0]

    def can_drop(terms: set[int]) -> bool:
        """Return whether the criterion allows it."""
        kept = [0.0 if number in terms else factor for number, factor in enumerate(factors)]
        kernel = with_factors(best.kernel, kept, d)
        (candidate,) = best_of([kernel], task, None, progress)
        spared = sum(prices[number] for number in terms)
        evaluated.append(replace(candidate, price=(1.0 + np.log(n) / n) ** spared))
        return evaluated[-1].price_of_kernel <= min(candidate.price_of_kernel for candidate in (best, *evaluated))

    low, high = 0, len(order) - 1  # the number of terms that may be dropped together
    while low < high and len(evaluated) < most:
        middle = -(-(low + high) // 2)
        low, high = (middle, high) if can_drop(set(order[:middle])) else (low, middle - 1)
    zero = set(order[:low])
    for term in order[low + 1 :]:
        if len(evaluated) >= most or len(zero) + 1 >= len(order):
            break
        if can_drop({*zero, term}):
            zero.add(term)
    return evaluated


def winner(judged: Sequence[EvaluatedKernel]) -> EvaluatedKernel:
    """Return the smallest criterion after prices; of equal ones the first."""
    return min(judged, key=lambda evaluated: evaluated.price_of_kernel)
