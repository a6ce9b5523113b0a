r"""Criteria of model selection at one kernel and one gamma, with their slopes, from a Cholesky factor.

A search that moves a kernel and its gamma together needs no criterion at any other gamma, and so no spectrum: with P
the projection off 1,

.. math:: A = P K P + \mu\, \tfrac1N 1 1^T + \lambda I, \qquad
          B = (P K P + \lambda P)^+ = A^{-1} - \tfrac{1}{N (\mu + \lambda)} 1 1^T, \qquad \alpha = B y,

is :math:`N^3` operations where a decomposition takes about ten times as many. :math:`\mu`, the mean eigenvalue of
:math:`P K P`, keeps the constant direction among the others, so that it costs no digits. All values and slopes follow:

- leave-one-out :math:`\frac1N \sum_i (\alpha_i / B_{ii})^2`, or with blocks of rows in the place of single ones;
- generalised cross-validation :math:`N \|\alpha\|^2 / (\operatorname{tr} V B)^2`;
- the evidence :math:`\frac{y^T \alpha}{N - 1} \big( \det A / (\mu + \lambda) \big)^{1/(N-1)}`;
- validation rows :math:`\frac1n \|y^v - \bar y - C \alpha\|^2`, C their centred kernel rows.

With weights of the rows it is :math:`V^{1/2} K V^{1/2}`, and :math:`V^{1/2} 1` in place of 1, as in
:mod:`~substrate.least_squares.spectrum`. Nothing here is bounded: these values guide a search, and what it ends with is
judged by a spectrum (:mod:`~substrate.search.gamma_search`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.gram import mirror_lower
from substrate.least_squares.kernel_slope import (
    Response,
    Slope,
    block_response,
    evidence_response,
    gcv_response,
    left_out_response,
    mean_one,
    validation_slope,
)
from substrate.least_squares.left_out_blocks import LeftOutBlocks
from substrate.least_squares.saddle_system import target_unit

__all__ = ["FactoredPart"]


@dataclass(frozen=True, slots=True)
class FactoredPart:
    """Rows that train, as numbers, with their targets; and rows that validate, if any, with theirs; a share of a mean.

    ``kind`` is "loo", "blocks", "gcv", "evidence" or "validation", and ``blocks`` are those of "blocks". ``Y``, one
    column per output, is centred, in the unit of all targets and multiplied by ``root``, the roots of the weights of
    its rows; ``offsets`` are the targets of the validation rows less the mean of the others, ``check_root`` the roots
    of their weights. None: equal weights.
    """

    kind: str
    train: Any
    Y: Array
    share: float
    root: Array | None = None
    check: Any = None
    offsets: Array | None = None
    check_root: Array | None = None
    blocks: LeftOutBlocks | None = None

    @classmethod
    def of(
        cls,
        kind: str,
        train: Any,
        Y: Array,
        share: float = 1.0,
        weights: Array | None = None,
        check: Any = None,
        Y_check: Array | None = None,
        check_weights: Array | None = None,
        unit: float | None = None,
        blocks: LeftOutBlocks | None = None,
    ) -> "FactoredPart":
        """Build the part from targets, one column per output, in the ``unit`` of all of them."""
        unit = target_unit(Y) if unit is None else unit
        scaled = (Y / unit).reshape(Y.shape[0], -1)
        shares = np.full(Y.shape[0], 1.0 / Y.shape[0]) if weights is None else weights / weights.sum()
        mean = np.clip(shares @ scaled, scaled.min(axis=0), scaled.max(axis=0))  # exact where y is constant
        variance = shares @ (scaled - mean)
        centred, root = (scaled - mean) - variance, None if weights is None else np.sqrt(weights)
        centred = centred if root is None else root[:, None] * centred
        if Y_check is None:
            return cls(kind=kind, train=train, Y=centred, share=share, root=root, blocks=blocks)
        roots = None if check_weights is None else np.sqrt(check_weights / check_weights.mean())
        offsets = ((Y_check / unit).reshape(Y_check.shape[0], -1) - mean) - variance
        offsets = offsets if roots is None else roots[:, None] * offsets
        return cls(
            kind=kind, train=train, Y=centred, share=share, root=root, check=check, offsets=offsets, check_root=roots
        )

    def value_and_slope(
        self, K: Array, below: Array | None, lam: float, slope: bool = True
    ) -> tuple[float, Slope | None] | None:
        """Return the criterion of a kernel matrix of the training rows, overwritten, at one lambda, and its slope in
        it.

        ``below`` has the kernel rows of the validation rows. None where the matrix is not positive definite.
        """
        n, mean_row = K.shape[0], np.zeros(0)
        if self.kind == "validation":
            mean_row = K.mean(axis=0) if self.root is None else (self.root**2 / float(self.root @ self.root)) @ K
        factored = _Factored.of(K, lam, self.root)
        if factored is None:
            return None
        B = factored.inverse()
        if B is None:
            return None
        alpha = B @ self.Y
        found_slope: Slope | None = None
        if self.kind == "validation":
            if below is None or self.offsets is None:
                raise TypeError("internal error: validation rows need their kernel rows and targets")
            root = np.ones(n) if self.root is None else self.root
            C = (below - mean_row) * root
            C = C if self.check_root is None else self.check_root[:, None] * C
            errors = self.offsets - C @ alpha
            value = float(np.square(errors).mean())
            if slope:
                pulled, shares = B @ (C.T @ errors), root / float(root @ root)
                found_slope = validation_slope(alpha, errors, pulled, shares, self.check_root)
        else:
            response = self._response(B, alpha, factored)
            value, found_slope = response.value, response.slope(B, alpha) if slope else None
        if found_slope is not None:
            found_slope = found_slope.with_weights(self.root).scale(self.share)
        return self.share * value, found_slope

    def _response(self, B: Array, alpha: Array, factored: "_Factored") -> Response:
        """Return the criterion and its derivatives in alpha, in the diagonal of B and in its determinant."""
        n, diagonal = self.Y.shape[0], B.diagonal()
        if self.blocks is not None:
            return block_response(B, alpha, self.blocks)
        if self.kind == "evidence":
            return evidence_response(self.Y, float(np.vdot(self.Y, alpha)), float(np.exp(factored.mean_log)), n - 1)
        if self.kind == "loo":
            return left_out_response(diagonal, alpha, n)
        v = mean_one(self.root)
        return gcv_response(alpha, float(np.square(alpha).sum()), float((v * diagonal).sum()), n, v)


@dataclass(frozen=True, slots=True)
class _Factored:
    """U, the upper triangle of A = U'U, stored by columns, with what is needed of B.

    ``constant`` is mu + lambda, the eigenvalue of A in the direction 1, ``unit`` the direction V^(1/2) 1 that is in
    its place with weights, of length one; ``mean_log`` is the mean logarithm of the eigenvalues of PKP + lambda.
    """

    factor: Array
    constant: float
    unit: Array | None
    mean_log: float

    @classmethod
    def of(cls, K: Array, lam: float, root: Array | None) -> "_Factored | None":
        """Factor A; K is overwritten. None where it is not positive definite."""
        from scipy.linalg.lapack import dpotrf

        n = K.shape[0]
        if root is None:
            means = K.mean(axis=0)
            K -= means
            K -= means[:, None] - means.mean()
            unit: Array | None = None
        else:
            K *= root
            K *= root[:, None]
            unit = root / np.linalg.norm(root)
            means = K @ unit
            K -= np.outer(unit, means)
            K -= np.outer(means - float(unit @ means) * unit, unit)
        # in the constant direction an eigenvalue like the others
        mu = max(float(K.trace()), 0.0) / (n - 1)
        if unit is None:
            K += mu / n
        else:
            K += np.outer(mu * unit, unit)
        K.flat[:: n + 1] += lam
        factor, info = dpotrf(K.T, lower=0, clean=0, overwrite_a=1)
        if info != 0:
            return None
        logs = 2.0 * float(np.log(factor.diagonal()).sum()) - np.log(mu + lam)
        return cls(np.asarray(factor), mu + lam, unit, float(logs) / (n - 1))

    def inverse(self) -> Array | None:
        """Return B, in the memory of the factor."""
        from scipy.linalg.lapack import dpotri

        inverse, info = dpotri(self.factor, lower=0, overwrite_c=1)
        if info != 0:
            return None
        B = np.asarray(inverse.T)  # the lower triangle in numpy's order
        mirror_lower(B)
        if self.unit is None:
            B -= 1.0 / (B.shape[0] * self.constant)
        else:
            B -= np.outer(self.unit / self.constant, self.unit)
        return B
