"""``fuse`` on an estimator: the class that chooses its parameter is fitted and presented as a Fusion."""

from typing import Any

import numpy as np

from problems.estimators.chosen.fused_machines import (
    FusedL1SubstrateClassifier,
    FusedL1SubstrateRegressor,
    FusedMaximalVariationClassifier,
    FusedMaximalVariationRegressor,
)
from problems.estimators.chosen.selection import LSSVMClassifierCV, LSSVMRegressorCV
from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor
from problems.estimators.full.structure import MaximalVariationClassifier, MaximalVariationRegressor
from problems.estimators.full.substrates import L1SubstrateClassifier, L1SubstrateRegressor
from problems.estimators.shared.base import KernelEstimator
from substrate.errors import DeclarationError
from substrate.fusion import FusedPath, Fusion

__all__ = ["fuse_estimator"]

#: The class that chooses a parameter of each estimator.
_TWINS: dict[type, type[KernelEstimator]] = {
    LSSVMRegressor: LSSVMRegressorCV,
    LSSVMClassifier: LSSVMClassifierCV,
    L1SubstrateRegressor: FusedL1SubstrateRegressor,
    L1SubstrateClassifier: FusedL1SubstrateClassifier,
    MaximalVariationRegressor: FusedMaximalVariationRegressor,
    MaximalVariationClassifier: FusedMaximalVariationClassifier,
}


def fuse_estimator(
    estimator: Any, over: Any, *, validation: Any = None, cv: Any = None, gap: float = 1e-3, data: Any = None
) -> Fusion:
    """Fit the class that chooses ``over`` for an estimator to ``data``, validated on rows, folds or rows left out."""
    name = over.name() if hasattr(over, "name") else over
    twin = _TWINS.get(type(estimator))
    if twin is None or name != twin._chooses:
        offered = ", ".join(f"{other._chooses} of {one.__name__}" for one, other in _TWINS.items())
        raise DeclarationError(f"{name!r} of {type(estimator).__name__} cannot be fused; there is {offered}")
    if data is None:
        raise DeclarationError("an estimator is fused on data=(X, y)")
    if (validation is None) == (cv is None):
        raise DeclarationError("an estimator is fused with validation=(X, y) or with cv, one of them")
    fused: Any = twin(gap=gap, cv=cv)
    own = fused.get_params(deep=False)
    given = estimator.get_params(deep=False)
    fused.set_params(**{key: value for key, value in given.items() if key in own and key not in ("gap", "cv")})
    model = fused.fit(*data, *(validation or ()))
    path = model.path_
    record = FusedPath(
        name,
        np.asarray(path["values"]),
        np.asarray(path["criterion"]),
        (path,),
        tuple(path["coverage"]),
        tuple(path.get("holes", ())),
        str(path.get("stop", "the range of gamma was searched")),
        path.get("maximal_variation"),
    )
    return Fusion(
        name,
        getattr(model, f"{name}_"),
        model.criterion_,
        model.criterion_lower_bound_,
        model,
        record,
        model.certificate_,
    )
