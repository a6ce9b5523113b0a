"""The answers of the L1 substrate on a reduced basis, from what ``predict`` uses: a new certificate, and a proof."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced.machine import ReducedMachine, basis_rows
from substrate.arrays import Array, is_sparse, positive
from substrate.certificates import Certificate
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.closed_form.saddle_system import target_unit
from substrate.gram import Gram
from substrate.kernels.base import symmetric_matrix
from substrate.proof import Proof
from substrate.proof.reduced import prove_reduced_l1
from substrate.reduced.l1 import L1Check, l1_sums
from substrate.reduced.moments import origin_of
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.streaming.array_source import ArraySource

__all__ = ["L1Answers"]


@dataclass(eq=False, repr=False)
class L1Answers(ReducedMachine):
    """The common part of fitted regression and classification."""

    _page, _rule = "reduced_l1_substrate", "kmeans++"
    zeta: float = 1.0

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present state of this model on the training rows, wherever they are.

        Everything is recomputed from the rows, from what :meth:`predict` uses, and from the basis vectors that are not
        in use. ``y`` may be omitted where the rows have their own targets. A fit takes no ``sample_weight``, so only
        None is accepted.
        """
        self._refuse_weights(sample_weight)
        check_is_fitted(self)
        with self._reading_again(X, y) as data:
            self._training_rows(data)  # refuses rows that are not those of the fit
            basis, beta = self._whole_basis()
            source = data.source
            if self.kernel_.pairwise:
                held = source.whole("a precomputed kernel matrix must be in memory")
                matrix = Gram.of(self.kernel_, held.X).matrix
                K, source = matrix[np.ix_(basis, basis)], ArraySource(matrix, held.Y)
                rows = KernelRows(KernelValues(None, basis), source, data.passes)
            else:
                K = symmetric_matrix(self.kernel_, basis)
                rows = KernelRows(KernelValues(self.kernel_, basis), source, data.passes)
            known = rows.target_summary()
            sums = l1_sums(rows, origin_of(K, known, target_unit(known.extremes)))
            sizes = np.sqrt(np.maximum(K.diagonal(), 0.0))
            zeta = positive(self.zeta, "zeta") / sums.unit
            check = L1Check(rows, sums, zeta, sizes, known, self._tolerance())
            beta, bias = beta / sums.unit, self._columns()[1] / sums.unit
            _, checks = check(beta, bias, False)
            if not all(output[0].passes for output in checks):
                _, checks = check(beta, bias, True)
        title = f"{self._title}, checked again"
        return Certificate(
            title, worst_rows(list(checks)), (("kernel", repr(self.kernel_)), ("zeta", f"{self.zeta:g}"))
        )

    def prove(self, X: Any, y: Any, sample_weight: Any = None) -> Proof:
        """Prove in ball arithmetic a bound on the distance of the fitted values from those of the exact optimum.

        ``X`` and ``y`` are those of the fit, in memory. Needs python-flint, ``pip install "lssvm-substrate[proof]"``.
        """
        self._refuse_weights(sample_weight)
        points, Y, fitted = self._in_memory(X, y)
        basis, beta = self._whole_basis()
        pairwise = self.kernel_.pairwise
        rows = basis_rows(self.kernel_, points, None if pairwise else basis, basis if pairwise else None)
        zeta, tolerance = positive(self.zeta, "zeta"), self._tolerance()
        found = [
            prove_reduced_l1(rows, Y[:, k], zeta, beta[:, k], fitted[:, k], tolerance=tolerance)
            for k in range(Y.shape[1])
        ]
        return min(found, key=lambda one: one.digits)

    def _whole_basis(self) -> tuple[Any, Array]:
        """The vectors in use, in the order of predict, then the others (by number in a matrix); all coefficients."""
        beta, _ = self._columns()
        if self.basis_indices_ is None:
            others = np.setdiff1d(np.arange(self.candidates_.shape[0]), self.support_)
        else:
            others = np.flatnonzero(~np.isin(self.basis_indices_, self.support_))
        zeros = np.zeros((others.size, beta.shape[1]))
        whole = np.concatenate([beta, zeros])
        if self.kernel_.pairwise:
            return np.concatenate([self.support_, self.basis_indices_[others]]), whole
        if is_sparse(self.candidates_):
            from scipy.sparse import vstack

            return vstack([self.support_vectors_, self.candidates_[others]]).tocsr(), whole
        return np.concatenate([self.support_vectors_, self.candidates_[others]]), whole
