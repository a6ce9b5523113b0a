"""The vectors of a reduced basis from its parameters: a rule, rows by number, or points."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import is_device_array, is_sparse, refuse_disguised, take_rows, to_numpy, where_it_lives
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.reduced import Basis
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.rules import (
    Candidates,
    Chosen,
    select_by_entropy,
    select_by_pruning,
    select_feature_vectors,
    select_spread,
)
from substrate.streaming.rows import Source, draw_rows

__all__ = ["LIGHT_FACTOR", "MOST", "ChosenBasis", "chosen_basis"]

#: Rules that need a column of kernel values and no matrix: they choose from so many times ``n_candidates`` rows.
_LIGHT = ("kmeans++", "renyi")
LIGHT_FACTOR = 10
#: Maximum number of vectors by default.
MOST = 100


@dataclass(frozen=True, slots=True)
class ChosenBasis:
    """Numbers of rows (None: points from elsewhere), the points (None: a kernel matrix), and how they were chosen.

    ``sample`` are the scoring rows themselves.
    """

    rows: Any
    points: Any
    scoring: Any
    sample: Any
    description: str

    @property
    def size(self) -> int:
        """The number of vectors."""
        return int(len(self.rows) if self.points is None else self.points.shape[0])

    def keep(self, kept: Any) -> "ChosenBasis":
        """Return the vectors that double precision can tell from combinations of the others, by their numbers.

        Of a basis that a rule chose, the others are left out.
        """
        if kept.size in (0, self.size):
            return self
        points = None if self.points is None else take_rows(self.points, kept)
        text = f"{self.description}; {self.size - kept.size} of them, in the span of the others to rounding, left out"
        return replace(self, rows=None if self.rows is None else self.rows[kept], points=points, description=text)


def _read_rows(source: Source, kernel: Kernel, *numbers: Any) -> tuple[Any, Any]:
    """Return rows with their numbers in ascending order, on the host, read at once; of a kernel matrix all of it."""
    if kernel.pairwise:
        return np.arange(source.n_rows), source.whole("a kernel matrix must be in memory").X
    wanted = np.unique(np.concatenate(numbers))
    return wanted, to_numpy(source.take_rows(wanted))


def chosen_basis(choice: Basis, kernel: Kernel, source: Source, lam: float) -> ChosenBasis:
    """Return the basis for the rows of a source (the matrix itself, where the kernel is a precomputed one) and their
    targets.

    What is drawn are numbers of rows, by :func:`~substrate.streaming.rows.draw_rows`: a seed means the same rows
    wherever they are kept.
    """
    generator, n, rule = choice.generator(), source.n_rows, choice.rule
    scoring = draw_rows(n, choice.n_scoring, generator)
    if not isinstance(rule, str):
        return _check_given_basis(rule, kernel, source, scoring)
    count = min(n, MOST) if choice.n is None else choice.n
    if count > n:
        raise DeclarationError(f"basis.n={count} exceeds the {n} rows; use at most {n}")
    if rule == "random":
        rows = np.sort(generator.choice(n, size=count, replace=False))
    else:
        rows = draw_rows(n, _count_offered(choice), generator)
    if rows.size < count:
        if choice.n is not None:
            raise DeclarationError(
                f"basis.n={count} exceeds the {rows.size} candidates of basis.n_candidates={choice.n_candidates}; "
                "raise basis.n_candidates"
            )
        count = rows.size
    numbers, X = _read_rows(source, kernel, rows, scoring)
    places, scored = (np.searchsorted(numbers, each) for each in (rows, scoring))
    candidates = Candidates(Gram(X) if kernel.pairwise else KernelTiles(kernel, X), places, scored)

    def every() -> KernelRows:
        points = rows if kernel.pairwise else source.beside(X[places])
        return KernelRows(KernelValues(kernel, points), source)

    picked = _pick(choice, candidates, count, every, lam, generator)
    if picked.rows.size == 0:  # a kernel that is zero everywhere spans nothing; one vector keeps shapes alive
        picked = Chosen(places[:1], "a kernel without a vector that is not zero")
    description = f"{picked.rows.size} of {n} rows by {rule}, ended by {picked.ended}"
    if rule != "random" and (rows.size < n or rule not in _LIGHT):
        description += f"; {rows.size} candidates"
    if rule == "feature_vectors":
        description += f", {scoring.size} scoring rows"
    points = None if kernel.pairwise else source.beside(X[picked.rows])
    return ChosenBasis(
        rows=numbers[picked.rows], points=points, scoring=scoring, sample=X[scored], description=description
    )


def _count_offered(choice: Basis) -> int | None:
    """Return how many rows a rule chooses from, at most; None: all of them."""
    if choice.n_candidates is None:
        return None
    return int(choice.n_candidates) * (LIGHT_FACTOR if choice.rule in _LIGHT else 1)


def _pick(
    choice: Basis, candidates: Candidates, count: int, every: Callable[[], KernelRows], lam: float, generator: Any
) -> Chosen:
    ways: dict[str, Callable[[], Chosen]] = {
        "feature_vectors": lambda: select_feature_vectors(candidates, count, choice.reconstruction_tolerance),
        "pruned": lambda: select_by_pruning(candidates, every(), count, lam),
        "renyi": lambda: select_by_entropy(candidates, count, generator),
        "kmeans++": lambda: select_spread(candidates, count, generator),
        "random": lambda: Chosen(candidates.rows, f"{count} vectors"),
    }
    return ways[choice.rule]()


def _check_given_basis(vectors: Any, kernel: Kernel, source: Source, scoring: Any) -> ChosenBasis:
    n = source.n_rows
    if is_device_array(vectors):
        if vectors.ndim == 2 and where_it_lives(vectors) != source.home:
            raise DataError(f"basis is {where_it_lives(vectors)}, the rows are {source.home}; move one of them")
        vectors = to_numpy(vectors)
    refuse_disguised(vectors, "basis")
    values = vectors if is_sparse(vectors) else np.asarray(vectors)
    if not is_sparse(values) and values.ndim == 1 and values.dtype.kind in "iu" and values.size:
        if values.min() < 0 or values.max() >= n:
            raise DataError(f"basis names row {values.max()} of {n}; rows run from 0 to {n - 1}")
        _, first = np.unique(values, return_index=True)
        rows = values[np.sort(first)].astype(np.intp)
        description = f"{rows.size} given rows of {n}"
        if rows.size < values.size:
            description += f", {values.size - rows.size} named twice and kept once"
        places, X = _read_rows(source, kernel, rows, scoring)
        return ChosenBasis(
            rows=rows,
            points=None if kernel.pairwise else source.beside(X[np.searchsorted(places, rows)]),
            scoring=scoring,
            sample=X[np.searchsorted(places, scoring)],
            description=description,
        )
    if kernel.pairwise:
        raise DataError("with a precomputed kernel the basis must be a rule or row numbers; points have no values")
    from sklearn.utils.validation import check_array

    points = check_array(values, accept_sparse="csr", dtype=np.float64, order="C", input_name="basis")
    if points.shape[1] != source.n_features:
        raise DataError(f"basis has {points.shape[1]} features, X has {source.n_features}")
    _, X = _read_rows(source, kernel, scoring)
    if is_sparse(X) and not is_sparse(points):
        from scipy.sparse import csr_matrix

        points = csr_matrix(points)
    elif is_sparse(points) and not is_sparse(X):
        points = points.toarray()
    return ChosenBasis(
        rows=None,
        points=source.beside(points.copy()),
        scoring=scoring,
        sample=X,
        description=f"{points.shape[0]} given points",
    )
