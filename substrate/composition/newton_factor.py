r"""The Newton matrix of a structured program, factored.

With weights :math:`w` of the rows (p for squares), a QR decomposition of each block
:math:`W^{1/2} [C, T] = Q \begin{pmatrix} R_v & R_{vg} \\ & R_g \end{pmatrix}` eliminates v without a subtraction: the
Newton matrix in u is

.. math:: M = P + \sum (R_g F)^T (R_g F) = P + F^T \Omega F ,

one symmetric rank-k update and one Cholesky factor.

Most of M says little. With a diagonal P, a column j of F with :math:`(F^T \Omega F)_{jj} \ll P_{jj}` (a direction of a
small eigenvalue) is determined by P, and a row with :math:`\omega_i F_i P^{-1} F_i^T \ll 1` (an error far from its
kink) does not matter. Let S be the columns whose shares :math:`(F^T \Omega F)_{jj} / P_{jj}` sum up to :math:`\tau`.
As :math:`F_S^T \Omega F_S \preceq \tau P_S`, the block-diagonal matrix without their couplings differs from M by at
most :math:`\sqrt\tau + \tau` of itself: solutions with it, refined with M, gain a factor of about
:math:`\sqrt\tau` with each refinement.
"""

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from substrate.arrays import Array
from substrate.composition.cone_program import IntegerArray
from substrate.composition.structure import Blocks, Structure

__all__ = ["NewtonFactor", "factor_newton_matrix"]

#: How often the diagonal of a singular Newton matrix is raised.
_SHIFTS = 12
_TINY = float(np.finfo(np.float64).tiny)


def factor_newton_matrix(structure: Structure, weights: Array, share: float = 0.0) -> "NewtonFactor":
    """Return the Newton matrix at weights of the inequalities, with a small multiple of the identity where singular.

    ``share`` is the sum of the shares of columns, and of rows, that may be left out.
    """
    shift = 0.0
    for _ in range(_SHIFTS):
        factor = NewtonFactor(structure, np.append(weights, structure.squares), shift, share)
        if factor.regular:
            return factor
        shift = max(100.0 * shift, 1e-12 * factor.largest)
    raise np.linalg.LinAlgError("the Newton matrix is not positive definite")


class NewtonFactor:
    """The Newton matrix at weights of the rows, factored without the columns and rows of a small share."""

    def __init__(self, structure: Structure, weights: Array, shift: float = 0.0, share: float = 0.0) -> None:
        self._structure = structure
        root = np.sqrt(np.append(weights, 0.0))  # the last one is the row -1
        sizes = np.zeros(structure.F.shape[0])
        mixed: list[tuple[IntegerArray, Array]] = []
        self._solved: list[tuple[Blocks, Array, Array]] = []
        for blocks in structure.blocks:
            k = blocks.sparse_columns.shape[1]
            rows = root[blocks.rows][:, :, None] * blocks.coefficients
            if k == 0 and blocks.dense.shape[1] == 1:
                sizes[blocks.dense[:, 0]] = np.linalg.norm(rows[:, :, 0], axis=1)
                continue
            # rows in order of their size: small weights are not drowned by large ones
            order = np.argsort(-np.abs(rows).max(axis=2), axis=1, kind="stable")
            triangle: Array = np.asarray(np.linalg.qr(np.take_along_axis(rows, order[:, :, None], axis=1), mode="r"))
            if k:
                inverse = _inverses(triangle[:, :k, :k])
                self._solved.append((blocks, inverse, triangle[:, :k, k:]))
            if blocks.dense.shape[1] == 1:
                sizes[blocks.dense[:, 0]] = np.abs(triangle[:, k, k])
            elif blocks.dense.shape[1]:
                mixed.append((blocks.dense, triangle[:, k:, k:]))
        self._kept = structure.F.shape[1]
        plain = not mixed and not shift and structure.significance is not None
        chosen = self._significant(sizes * sizes, share) if share and plain else None
        if chosen is None:
            scaled = sizes[:, None] * structure.F
            for rows_of, factors in mixed:
                scaled[rows_of] = factors @ structure.F[rows_of]
        else:
            few = 4 * chosen.size <= 3 * sizes.size
            F = structure.F[:, : self._kept]
            scaled = sizes[chosen, None] * F[chosen] if few else sizes[:, None] * F
        self._factor_of(scaled, shift)

    def _significant(self, weights: Array, share: float) -> IntegerArray | None:
        """Return the rows that matter; ``_kept`` becomes the number of leading columns that do."""
        P, significance = self._structure.P, self._structure.significance
        if significance is None:
            return None
        columns = significance.squares.T @ weights
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(P > 0.0, columns / P, np.inf)
        # one column and one row stay, also where the weights are tiny beside P and none matters
        small = min(int(np.searchsorted(np.cumsum(shares[::-1]), share, side="right")), P.size - 1)
        self._kept, self._rest = P.size - small, P[P.size - small :] + columns[P.size - small :]
        # of a column without P, the row's part
        free = np.flatnonzero(P == 0.0)
        rows = weights * (significance.rows + significance.squares[:, free] @ (1.0 / np.maximum(columns[free], _TINY)))
        order = np.argsort(rows)
        few = min(int(np.searchsorted(np.cumsum(rows[order]), np.sqrt(share), side="right")), rows.size - 1)
        return np.sort(order[few:])

    def _factor_of(self, scaled: Array, shift: float) -> None:
        structure, k = self._structure, self._kept
        M = np.zeros((k, k), order="F")
        if structure.P.ndim == 1:
            np.einsum("ii->i", M)[...] = structure.P[:k]
        else:
            M[...] = structure.P[:k, :k]
        if shift:
            M[np.diag_indices_from(M)] += shift
        for rows_of, columns in structure.dense_blocks:
            if len(structure.dense_blocks) == 1 and columns.size == structure.F.shape[1]:
                M = dsyrk(1.0, scaled.T, beta=1.0, c=M, lower=1, overwrite_c=1)
            else:
                M[np.ix_(columns, columns)] += dsyrk(1.0, scaled[np.ix_(rows_of, columns)].T, lower=1)
        self.largest = float(np.abs(M.diagonal()).max(initial=0.0)) or 1.0
        self.regular = True
        if not M.size:
            return
        self._factor, info = dpotrf(M, lower=1, clean=0, overwrite_a=1)
        self.regular = info == 0

    def solve(self, right: Array, pulls: Array | None = None) -> tuple[Array, Array]:
        """Return the solution u of the Newton system and its rows, without constants.

        The right-hand side is ``right``, plus the transposed rows times ``pulls``: both products with F are taken once.
        """
        s, k = self._structure, self._structure.sparse_columns.size
        own_solution, g, first = np.zeros(k), np.zeros(s.F.shape[0]), right[:k]
        if pulls is not None:
            C, T = s.transposes
            first, g = first + C @ pulls, T @ pulls
        for blocks, inverse, beside in self._solved:
            halves = np.einsum("bij,bi->bj", inverse, first[blocks.sparse_columns])  # R_v^{-T} r
            own_solution[blocks.sparse_columns] = np.einsum("bij,bj->bi", inverse, halves)
            if blocks.dense.shape[1]:
                np.subtract.at(g, blocks.dense, np.einsum("bij,bi->bj", beside, halves))
        dense = right[k:] + s.F.T @ g
        if not dense.size:
            return own_solution, np.asarray(s.C @ own_solution)
        dense = self._solved_dense(dense)
        dense_change = s.F @ dense
        for blocks, inverse, beside in self._solved:
            if blocks.dense.shape[1]:
                change = np.einsum("bij,bj->bi", beside, dense_change[blocks.dense])
                own_solution[blocks.sparse_columns] -= np.einsum("bij,bj->bi", inverse, change)
        return np.concatenate([own_solution, dense]), np.asarray(s.C @ own_solution + s.T @ dense_change)

    def _solved_dense(self, right: Array) -> Array:
        k = self._kept
        first = np.asarray(dpotrs(self._factor, right[:k], lower=1)[0])
        return first if k == right.size else np.append(first, right[k:] / self._rest)


def _inverses(triangles: Array) -> Array:
    """Return the inverses of upper triangles; a diagonal entry that vanishes is that of an undetermined variable."""
    k = triangles.shape[1]
    diagonal = np.einsum("bii->bi", triangles)
    tiny = np.abs(diagonal) <= 1e-150
    if tiny.any():
        triangles = triangles.copy()
        np.einsum("bii->bi", triangles)[...] = np.where(tiny, 1.0, diagonal)
    return np.asarray(np.linalg.inv(triangles) if k > 1 else 1.0 / triangles)
