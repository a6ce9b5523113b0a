"""What a fitted kernel says of the inputs: their relevance by widths, and the shares of the terms of a sum."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.kernels.terms import relevance_of, term_names, term_shares
from substrate.namespaces import to_numpy

__all__ = ["Relevance"]


class Relevance:
    """Properties of every estimator, computed from its kernel and the rows that it keeps at each access."""

    kernel_: Any

    @property
    def relevance_(self) -> Array:
        """The relevance of every input, which sum to one: inverse widths in units of the inputs' spreads.

        The spread is the standard deviation over ``support_vectors_``. With one width for all inputs these are the
        spreads; terms of a sum count by ``term_weights_``, and a linear term by its weights. It says how fast the
        kernel lets the function vary along an input, not how much it does; ``left_out_importance`` measures that. An
        AttributeError says why there is none.
        """
        kernel, X = self._kernel_and_rows("relevance_")
        try:
            return relevance_of(kernel, X, self._slopes)
        except DeclarationError as error:
            raise AttributeError(
                f"relevance_ is made of widths, and {error}; use left_out_importance() where the estimator has it, "
                "scikit-learn's permutation_importance, or a kernel with one width per input, RBF(sigma='each')"
            ) from error

    @property
    def term_weights_(self) -> dict[str, float]:
        """The share of every term of a sum of kernels, by its name: its factor times the mean of its centred diagonal.

        The shares are those at ``support_vectors_`` and sum to one; a term that a search has set to zero has none. A
        kernel that is no sum raises an AttributeError.
        """
        kernel, X = self._kernel_and_rows("term_weights_")
        names = term_names(kernel, X.shape[1])
        if len(names) == 1:
            raise AttributeError(
                f"term_weights_ are those of a sum of kernels, and {kernel!r} is one kernel; add kernels, k1 + k2, or "
                "use Componentwise(kernel)"
            )
        return dict(zip(names, (float(share) for share in term_shares(kernel, X)), strict=True))

    def _kernel_and_rows(self, name: str) -> tuple[Any, Any]:
        check_is_fitted(self)
        if self.kernel_.pairwise:
            raise AttributeError(f"{name} needs inputs, and a precomputed kernel matrix has none; fit with X itself")
        return self.kernel_, to_numpy(self.support_vectors_)  # type: ignore[attr-defined]

    def _slopes(self, number: int) -> Array:
        """The weights of a linear term in its columns, zero elsewhere; of several outputs the root of their squares."""
        X = to_numpy(self.support_vectors_)  # type: ignore[attr-defined]
        terms = self.kernel_.terms(X.shape[1])
        factor, term = terms[number]
        columns = list(getattr(term, "columns", range(X.shape[1])))
        found = np.zeros(X.shape[1])
        primal = self._primal()  # type: ignore[attr-defined]
        if primal is not None:
            ranks = np.cumsum([0, *(int(term.rank(X.shape[1])) for _, term in terms)])
            own = np.sqrt(factor) * primal.weights[ranks[number] : ranks[number + 1]]
        else:
            own = factor * (X[:, columns].T @ self._own_coefficients())
        found[columns] = np.linalg.norm(np.reshape(own, (len(columns), -1)), axis=1)
        return found

    def _own_coefficients(self) -> Array:
        coefficients = to_numpy(self._coefficients())  # type: ignore[attr-defined]
        if coefficients.ndim > 1 + len(self._outputs()):  # type: ignore[attr-defined]
            raise DeclarationError("a linear component with an expansion of its own has no weights in common")
        return np.asarray(coefficients)
