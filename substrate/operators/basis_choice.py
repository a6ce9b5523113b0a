r"""The vectors of a reduced basis from its parameters: a rule, rows by number, or points.

The rules choose among candidate rows. *Feature vectors*, the greedy basis of Baudat and Anouar:

.. math:: J(S) = \frac1m \sum_{i=1}^m \frac{k_{Si}^T K_{SS}^{-1} k_{Si}}{k_{ii}}

is maximised one vector at a time ([Baudat2001]_, [Cawley2004]_ eq. (4)-(5)). With :math:`R` the remainder of the kernel
between candidates and scoring rows after projection on the chosen vectors, candidate c adds
:math:`\frac1m \sum_i R_{ci}^2 / (R_{cc} k_{ii})`. R changes by one rank-one term per step, so a step costs one product
with the kernel block instead of a new inverse. It ends at the given number, at a mean reconstruction error
:math:`1 - J`, or where no candidate is left outside the span of the chosen ones.

*Backward elimination* is the improved pruning of Cawley and Talbot ([Cawley2002]_ section 2): fit on S with the errors
of all rows, drop the smallest :math:`|\beta_j|`, fit again. The sums over all rows are computed once, for all
candidates, in one pass; a smaller basis needs only a part of them.

*k-means++ seeding* in feature space: points are drawn in proportion to their squared distance from the chosen ones,

.. math:: \|\varphi(x) - \varphi(z)\|^2 = k(x, x) - 2 k(x, z) + k(z, z)

([Arthur2007]_.) A step needs one column of kernel values over all candidates, and memory for two numbers per candidate.

*Quadratic Renyi entropy*, as in fixed-size LS-SVMs:

.. math:: H(S) = -\log \frac{1}{n^2} \sum_{i, j \in S} k(x_i, x_j)

A first set is drawn at random; then one of its vectors and one candidate are exchanged whenever that raises H
([Suykens2002b]_ chapter 6, [DeBrabanter2010]_). One trial costs two columns of n kernel values.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import (
    Array,
    blas_threads,
    check_memory,
    is_device_array,
    is_sparse,
    refuse_disguised,
    take_rows,
    target_unit,
    to_numpy,
    where_it_lives,
)
from substrate.basis import Basis
from substrate.errors import DataError, DeclarationError
from substrate.kernels.kernel import Kernel
from substrate.numbers import relative_rounding
from substrate.operators.features import basis_features, origin_of, sum_moments
from substrate.operators.gram import Gram, KernelOperator
from substrate.operators.kernel_rows import KernelRows, KernelValues
from substrate.operators.kernel_tiles import KernelTiles
from substrate.operators.sources import Source, draw_rows

__all__ = [
    "LIGHT_FACTOR",
    "MOST",
    "ChosenBasis",
    "chosen_basis",
    "select_by_entropy",
    "select_by_pruning",
    "select_feature_vectors",
    "select_spread",
]

#: Gains this close, relatively, are equal: the earlier candidate then goes first.
_TIE = 1e-9


#: Remaining share of a gain below which its digits are not reliable.
_CANCELLED = 1e-8


Rows = NDArray[np.intp]
#: Rows in the order of choice, and the reason why the choice ended.
Chosen = tuple[Rows, str]


def _block(matrix: KernelOperator, left: Any, right: Any) -> Array:
    """Return the kernel values between two sets of rows, refused before allocation when they cannot fit."""
    check_memory(
        8.0 * len(left) * len(right),
        f"a {len(left)} x {len(right)} block of kernel values",
        "take a more reduced set of candidates and scoring rows, by n_candidates and n_scoring.",
    )
    return matrix.block(left, right)


def select_spread(matrix: KernelOperator, rows: Rows, count: int, generator: Any) -> Chosen:
    """Choose up to ``count``; fewer where all others coincide with chosen ones."""
    diagonal = matrix.diagonal[rows]
    chosen = [int(generator.choice(rows.size))]
    distances = np.full(rows.size, np.inf)
    while len(chosen) < count:
        last = chosen[-1]
        column = matrix.block(rows, rows[[last]])[:, 0]
        np.minimum(distances, np.maximum(diagonal - 2.0 * column + diagonal[last], 0.0), out=distances)
        distances[last] = 0.0
        distances[distances <= relative_rounding(16.0) * diagonal[last]] = 0.0  # a chosen point, up to rounding
        sums = np.cumsum(distances)
        if not sums[-1] > 0.0:
            return rows[chosen], "every candidate on a chosen point"
        chosen.append(int(np.searchsorted(sums, generator.random() * sums[-1], side="right")))
    return rows[chosen], f"{count} vectors"


#: Trials per vector of the basis; the entropy changes little after that.
TRIALS = 10


#: Number of trials whose kernel values are computed together.
_AT_ONCE = 64


def select_by_entropy(matrix: KernelOperator, rows: Rows, count: int, generator: Any) -> Chosen:
    """Choose ``count`` of the candidates."""
    order = generator.permutation(rows.size)
    inside, outside = rows[order[:count]].copy(), rows[order[count:]].copy()
    if outside.size == 0:
        return inside, "all candidates"
    K = _block(matrix, inside, inside)
    sums = K.sum(axis=1)
    swaps, trials = 0, TRIALS * count
    for start in range(0, trials, _AT_ONCE):
        places = generator.choice(outside.size, size=min(_AT_ONCE, outside.size, trials - start), replace=False)
        columns = _block(matrix, outside[places], inside)
        diagonal = matrix.diagonal[outside[places]]
        for place, column, k in zip(places, columns, diagonal, strict=True):
            out = int(generator.choice(count))
            # the change of the sum of all entries when row and column ``out`` are replaced by the candidate's
            change = 2.0 * (column.sum() - column[out]) + k - (2.0 * (sums[out] - K[out, out]) + K[out, out])
            if change >= 0.0:
                continue
            fresh = column.copy()
            fresh[out] = k
            sums += fresh - K[out]
            K[out], K[:, out] = fresh, fresh
            sums[out] = fresh.sum()
            inside[out], outside[place] = outside[place], inside[out]
            # later columns of this draw include the new vector
            columns[:, out] = _block(matrix, outside[places], inside[[out]])[:, 0]
            swaps += 1
    return inside, f"{swaps} swaps in {trials} trials"


def select_feature_vectors(
    matrix: KernelOperator, rows: Rows, scoring: Rows, count: int, tolerance: float = 0.0
) -> Chosen:
    """Choose up to ``count`` of the candidates; stop where the mean reconstruction error is at ``tolerance``.

    :equation [Cawley2004]_ (5): greedy selection by the mean reconstruction
    """
    whole, diagonal = matrix.diagonal[scoring], matrix.diagonal[rows]
    K = _block(matrix, scoring, rows)  # over the root of k_ii; a zero feature vector gives zeros
    K = K / np.sqrt(np.where(whole > 0.0, whole, np.inf))[:, None]
    # R is the kernel less rank-one terms; a gain that has lost its digits to them is computed again
    columns, lines = np.zeros((count, rows.size)), np.zeros((count, scoring.size))
    gains = np.square(K).sum(axis=0)
    sizes = gains.copy()
    # below this share of its size a candidate is the rounding of the terms subtracted from it
    floor = relative_rounding(rows.size) * float(diagonal.max(initial=0.0))
    outside = diagonal > floor
    chosen: list[int] = []
    error = float((whole > 0.0).mean())
    while (k := len(chosen)) < count:
        if error <= tolerance and tolerance > 0.0:  # at zero only a complete basis ends it
            return rows[chosen], f"a mean reconstruction error of {max(error, 0.0):.2e}"
        if not outside.any():
            return rows[chosen], "a complete basis"
        worth = np.where(outside, gains / np.where(outside, diagonal, 1.0), -1.0)
        best, root = int(np.argmax(worth >= worth.max() * (1.0 - _TIE))), 0.0
        root = float(np.sqrt(diagonal[best]))
        columns[k] = (matrix.block(rows, rows[[best]])[:, 0] - columns[:k, best] @ columns[:k]) / root
        lines[k] = (K[:, best] - lines[:k].T @ columns[:k, best]) / root
        product = lines[k] @ K - (lines[:k] @ lines[k]) @ columns[:k]
        gains += columns[k] * (columns[k] * float(lines[k] @ lines[k]) - 2.0 * product)
        diagonal = diagonal - columns[k] ** 2
        outside &= diagonal > floor
        outside[best] = False
        error -= float(worth[best]) / scoring.size
        chosen.append(best)
        (poor,) = np.nonzero(outside & (gains < _CANCELLED * sizes))
        if poor.size:
            remainder = K[:, poor] - lines[: k + 1].T @ columns[: k + 1, poor]
            gains[poor] = sizes[poor] = np.square(remainder).sum(axis=0)
    return rows[chosen], f"{count} vectors"


#: Share of the vectors dropped at a time, at least one.
_STEP = 0.05


def select_by_pruning(matrix: KernelOperator, rows: Rows, every: KernelRows, count: int, lam: float) -> Chosen:
    """Drop candidates until ``count`` are left; ``every`` has all rows and their targets, with all candidates as basis.

    :place [Cawley2002]_ section 2, backward elimination: the basis by the size of beta
    """
    n = rows.size
    check_memory(56.0 * n * n, f"the sums over {n} candidates", "take fewer candidates, by n_candidates.")
    K = _block(matrix, rows, rows)
    K = (K + K.T) / 2.0
    summary = every.target_summary()
    origin = origin_of(every.source.beside(K), summary, target_unit(summary.extremes))
    total, _ = every.sums(sum_moments, origin, None, None).moments()
    centred = total.shift_to(total.first / total.mass, total.targets / total.mass)
    second, cross = to_numpy(centred.second), to_numpy(centred.cross)
    kept, steps = np.arange(n), 0
    with blas_threads(n):
        while kept.size > count:
            block = np.ix_(kept, kept)
            T = basis_features(K[block]).transform
            inner = T.T @ second[block] @ T
            inner[np.diag_indices(inner.shape[0])] += lam
            beta = T @ np.linalg.solve(inner, T.T @ cross[kept])
            leaving = min(max(1, int(_STEP * kept.size)), kept.size - count)
            sizes = np.linalg.norm(beta, axis=1)
            kept = np.delete(kept, np.argsort(sizes, kind="stable")[:leaving])
            steps += 1
    return rows[kept], f"{n} candidates down to {count} in {steps} steps"


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

    What is drawn are numbers of rows, by :func:`~substrate.operators.sources.draw_rows`: a seed means the same rows
    wherever they are kept.
    """
    generator, n, rule = choice.generator(), source.n_rows, choice.rule
    scoring = draw_rows(n, choice.n_scoring, generator)
    if not isinstance(rule, str):
        return _check_given_basis(rule, kernel, source, scoring)
    count = min(n, MOST) if choice.n is None else choice.n
    if count > n:
        raise DeclarationError(f"basis.n={count} exceeds the {n} rows; use at most {n}")
    offered = None
    if choice.n_candidates is not None:  # all rows otherwise
        offered = choice.n_candidates * (LIGHT_FACTOR if rule in _LIGHT else 1)
    if rule == "random":
        rows = np.sort(generator.choice(n, size=count, replace=False))
    else:
        rows = draw_rows(n, offered, generator)
    if rows.size < count:
        if choice.n is not None:
            raise DeclarationError(
                f"basis.n={count} exceeds the {rows.size} candidates of basis.n_candidates={choice.n_candidates}; "
                "raise basis.n_candidates"
            )
        count = rows.size
    numbers, X = _read_rows(source, kernel, rows, scoring)
    places, scored = (np.searchsorted(numbers, each) for each in (rows, scoring))
    matrix = Gram(X) if kernel.pairwise else KernelTiles(kernel, X)

    def every() -> KernelRows:
        points = rows if kernel.pairwise else source.beside(X[places])
        return KernelRows(KernelValues(kernel, points), source)

    stop = choice.reconstruction_tolerance
    ways: dict[str, Callable[[], Chosen]] = {
        "feature_vectors": lambda: select_feature_vectors(matrix, places, scored, count, stop),
        "pruned": lambda: select_by_pruning(matrix, places, every(), count, lam),
        "renyi": lambda: select_by_entropy(matrix, places, count, generator),
        "kmeans++": lambda: select_spread(matrix, places, count, generator),
        "random": lambda: (places, f"{count} vectors"),
    }
    picked, ended = ways[rule]()
    if picked.size == 0:  # a kernel that is zero everywhere spans nothing; one vector keeps shapes alive
        picked, ended = places[:1], "a kernel without a vector that is not zero"
    description = f"{picked.size} of {n} rows by {rule}, ended by {ended}"
    if rule != "random" and (rows.size < n or rule not in _LIGHT):
        description += f"; {rows.size} candidates"
    if rule == "feature_vectors":
        description += f", {scoring.size} scoring rows"
    points = None if kernel.pairwise else source.beside(X[picked])
    return ChosenBasis(rows=numbers[picked], points=points, scoring=scoring, sample=X[scored], description=description)


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
