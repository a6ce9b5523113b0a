"""Whether the fitted attributes of an estimator belong together, asked of models read from files."""

from typing import Any

import numpy as np

from substrate.arrays import is_sparse
from substrate.errors import DataError
from substrate.kernels import Kernel

__all__ = ["check_state"]


def check_state(model: Any) -> None:
    """Refuse attributes that are inconsistent in shape or kind, or whose trial prediction is not finite."""
    if isinstance(model.n_features_in_, bool) or not isinstance(model.n_features_in_, int):
        raise DataError(f"n_features_in_ must be an integer, received {model.n_features_in_!r}")
    pairwise = model.__sklearn_tags__().input_tags.pairwise
    if not isinstance(model.kernel_, Kernel) or model.kernel_.pairwise != pairwise:
        raise DataError(f"the fitted kernel {model.kernel_!r} does not belong to the kernel {model.kernel!r}")
    numbers = {"support_values_": model.support_values_, "the expansion": model._coefficients(), "bias_": model.bias_}
    if not pairwise:
        vectors = model.support_vectors_
        numbers["support_vectors_"] = vectors.data if is_sparse(vectors) else vectors
    for name, values in numbers.items():
        array = np.asarray(values)
        if array.dtype.kind != "f":
            raise DataError(f"{name} must hold floating point numbers, received dtype {array.dtype}")
        if not np.isfinite(array).all():
            raise DataError(f"{name} contains NaN or infinity")
    alpha, support = model._coefficients(), model.support_
    n = alpha.shape[0]
    if support.dtype.kind not in "iu" or support.shape != (n,) or len(model._outputs()) > 1:
        raise DataError("the support indices and the support values do not belong together")
    if n and (support.min() < 0 or (pairwise and support.max() >= model.n_features_in_)):
        raise DataError("a support index is out of range")
    if not pairwise and model.support_vectors_.shape != (n, model.n_features_in_):
        raise DataError(
            f"{n} support values over {model.n_features_in_} features do not belong to support vectors of shape "
            f"{model.support_vectors_.shape}"
        )
    if np.shape(model.bias_) != model._outputs():
        raise DataError(f"a bias of shape {np.shape(model.bias_)} does not belong to {model._outputs()} outputs")
    if (primal := model._primal()) is not None:
        rank, outputs = model.kernel_.rank(model.n_features_in_), model._outputs() or (1,)
        found = (primal.weights.shape, primal.center.shape, primal.bias.shape)
        if found != ((rank, *outputs), (rank,), outputs):
            raise DataError(f"primal weights of shape {primal.weights.shape} do not belong to {model.kernel_!r}")
    trial = np.zeros((1, model.n_features_in_)) if pairwise or n == 0 else model.support_vectors_[:1]
    with np.errstate(all="ignore"):
        values = model._evaluated(trial)
    if not np.isfinite(values).all():
        raise DataError("a trial prediction is not finite")
