"""Machines on a reduced basis: a few points span the model, all rows train it, block by block.

How the basis is chosen is one value, :class:`Basis`: by a rule, which needs kernel values only, as rows, or as points.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np

from substrate.arrays import non_negative
from substrate.errors import DeclarationError
from substrate.values import Record, Value

__all__ = ["RULES", "Basis"]

#: The rules of selection.
RULES = ("feature_vectors", "pruned", "renyi", "kmeans++", "random")
_WORDS = f"one of {', '.join(RULES)}, row numbers, or points"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Basis(Value, Record):
    """Which vectors the expansion of a machine on a reduced basis has; the parameter ``basis`` of its estimators.

    Estimators also take the short forms: a number of vectors (``basis=100``), the name of a rule (``basis="renyi"``),
    row numbers, points, and None for all defaults. A basis is a frozen value, as kernels are:
    ``estimator.set_params(basis__n=50)`` replaces it, and ``GridSearchCV`` searches over ``basis__n``.

    Parameters
    ----------
    n : int, default=None
        Maximum number of vectors; None is 100, or all rows where there are fewer. A least-squares machine leaves out
        chosen vectors that are in the span of the others up to rounding.
    rule : str, array of int, or array of points, default=None
        A rule by which rows become the basis: ``"feature_vectors"`` (greedy, the smallest mean reconstruction error),
        ``"pruned"`` (backward, by the size of beta, see
        [Cawley2002]_), ``"renyi"`` (entropy, as in fixed-size LS-SVMs), ``"kmeans++"`` (spread in feature space),
        ``"random"``. Or the numbers of the rows; or the
        points themselves, which need not be rows. None is ``"kmeans++"`` for the L1 substrate, whose 1-norm chooses
        among the vectors by their size too, so that spread ones are offered, and ``"feature_vectors"`` otherwise.
    n_candidates : int, default=2000
        How many rows ``"feature_vectors"`` and ``"pruned"`` choose from; ten
        times as many for ``"renyi"`` and ``"kmeans++"``. Drawn at random where there are more; None is all rows.
    n_scoring : int, default=1000
        How many rows, drawn at random, reconstruction errors are averaged over; None is all of them. With None for both
        the greedy rule is the published one, and needs a matrix of all pairs.
    reconstruction_tolerance : float, default=0.0
        Mean reconstruction error at which ``"feature_vectors"`` stops.
    random_state : int, RandomState, Generator or None, default=0
        Seed of everything drawn at random; nothing is where all rows are candidates and scoring rows of a greedy rule.
        What is drawn are numbers of rows: the same seed means the same rows of an array, a file or a cluster. None:
        other rows in every fit.

    Examples
    --------
    >>> from substrate.basis import Basis
    >>> Basis(n=50, rule="renyi").with_params(random_state=1)
    Basis(n=50, rule='renyi', random_state=1)
    """

    n: Any = None
    rule: Any = None
    n_candidates: Any = 2000
    n_scoring: Any = 1000
    reconstruction_tolerance: float = 0.0
    random_state: Any = 0

    def __post_init__(self) -> None:
        for name in ("n", "n_candidates", "n_scoring"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise DeclarationError(f"basis.{name} must be an integer >= 1 or None, received {value!r}")
            object.__setattr__(self, name, int(value))
        stop = non_negative(
            self.reconstruction_tolerance, "basis.reconstruction_tolerance", "as a mean reconstruction error"
        )
        object.__setattr__(self, "reconstruction_tolerance", stop)
        state = self.random_state
        is_generator = state is np.random or isinstance(state, (np.random.Generator, np.random.RandomState))
        is_seed = isinstance(state, Integral) and not isinstance(state, bool) and 0 <= int(state) < 2**32
        if not (state is None or is_generator or is_seed):
            raise DeclarationError(
                "basis.random_state must be an integer from 0 to 2**32 - 1, a RandomState, a Generator or None, "
                f"received {state!r}"
            )
        rule = self.rule
        if isinstance(rule, str):
            if rule not in RULES:
                raise DeclarationError(f"basis.rule must be {_WORDS}; received {rule!r}")
            if stop > 0.0 and rule != "feature_vectors":
                raise DeclarationError(
                    f"basis.reconstruction_tolerance={stop!r} stops feature_vectors; rule={rule!r} ends at basis.n"
                )
        elif isinstance(rule, (bool, int, float)):
            raise DeclarationError(f"basis.rule must be {_WORDS}; received {rule!r}")
        elif rule is not None and self.n is not None:
            raise DeclarationError(f"basis.n={self.n!r} goes with a rule; a given basis has its own size")

    @classmethod
    def of(cls, value: Any) -> "Basis":
        """Return the value for all that ``basis`` may be: one already, a number of vectors, a rule, rows, points, or
        None.
        """
        if isinstance(value, Basis):
            return value
        if value is None:
            return cls()
        if isinstance(value, Integral) and not isinstance(value, bool):
            return cls(n=value)
        if isinstance(value, (bool, np.bool_, float)) or (isinstance(value, str) and value not in RULES):
            raise DeclarationError(f"basis must be a Basis, a number of vectors, {_WORDS}; received {value!r}")
        return cls(rule=value)

    def generator(self) -> np.random.Generator:
        """Return numpy's generator for whatever scikit-learn takes as a random state, and for numpy's generators."""
        state = self.random_state
        if isinstance(state, np.random.Generator):
            return state
        if state is None or isinstance(state, Integral):
            return np.random.default_rng(None if state is None else int(state))
        return np.random.default_rng(state.randint(2**31 - 1))

    def __sklearn_clone__(self) -> Self:
        if self.random_state is None or self.random_state is np.random or isinstance(self.random_state, Integral):
            return self
        return replace(self, random_state=deepcopy(self.random_state))  # a clone draws what this one would
