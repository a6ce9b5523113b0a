"""The relevance of the inputs by the widths of a fitted kernel."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from substrate.arrays import Array
from substrate.kernels import Categorical, Scaled
from substrate.kernels.widths import spreads_of
from substrate.namespaces import to_numpy

__all__ = ["input_relevance"]


def input_relevance(model: Any) -> Array:
    """Return the relevance of every input of a fitted model by its widths, as its ``relevance_`` describes it."""
    check_is_fitted(model)
    kernel = getattr(model, "kernel_", None)
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    widths = getattr(kernel, "sigma", None)
    if widths is None or (np.ndim(widths) == 0 and model.n_features_in_ > 1):
        raise AttributeError(
            f"relevance_ needs one width per input, which kernel {kernel!r} does not have; use left_out_importance() "
            "where the estimator has it, scikit-learn's permutation_importance, or RBF(sigma='each')"
        )
    spreads = spreads_of(to_numpy(model.support_vectors_))
    units = np.where(spreads > 0.0, 1.0, 0.0) if isinstance(kernel, Categorical) else spreads  # a code has no unit
    with np.errstate(over="ignore"):
        ratios = np.minimum(units / np.asarray(widths), np.finfo(np.float64).max)
    shares = ratios / (float(ratios.max()) or 1.0)  # whose sum is finite
    return np.asarray(shares / (float(shares.sum()) or 1.0))
