"""The relevance of the inputs by the widths of a fitted kernel."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.kernels.terms import has_shared_width, relevance_of
from substrate.namespaces import to_numpy

__all__ = ["input_relevance"]


def input_relevance(model: Any, alone: bool = True) -> Array:
    """Return the relevance of every input of a fitted model by its widths, as its ``relevance_`` describes it.

    One width for all inputs tells none of them from another, and is refused where the model stands ``alone``; in a sum
    of machines what remains is the spreads of the inputs.
    """
    check_is_fitted(model)
    kernel = model.kernel_
    if kernel.pairwise:
        raise AttributeError("relevance_ needs inputs, and a precomputed kernel matrix has none; fit with X itself")
    X = to_numpy(model.support_vectors_)
    try:
        if alone and has_shared_width(kernel, int(X.shape[1])):
            raise DeclarationError(f"{kernel!r} has one width for all inputs, which says nothing of any of them")
        return relevance_of(kernel, X, lambda number: _slopes(model, number))
    except DeclarationError as error:
        raise AttributeError(
            f"relevance_ is made of widths, and {error}; use left_out_importance() where the estimator has it, "
            "scikit-learn's permutation_importance, or a kernel with one width per input, RBF(sigma='each')"
        ) from error


def _slopes(model: Any, number: int) -> Array:
    """Return the weights of a linear term, zero outside its columns; of several outputs the root of their squares."""
    X = to_numpy(model.support_vectors_)
    terms = model.kernel_.terms(X.shape[1])
    factor, term = terms[number]
    columns = list(getattr(term, "columns", range(X.shape[1])))
    slopes = np.zeros(X.shape[1])
    weights = factor * (X[:, columns].T @ _coefficients_in_common(model))
    slopes[columns] = np.linalg.norm(np.reshape(weights, (len(columns), -1)), axis=1)
    return slopes


def _coefficients_in_common(model: Any) -> Array:
    coefficients = to_numpy(model._coefficients())
    if coefficients.ndim > 1 + len(model._outputs()):
        raise DeclarationError("a linear component with an expansion of its own has no weights in common")
    return np.asarray(coefficients)
