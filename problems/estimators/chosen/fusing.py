"""``fuse`` on an estimator: its fused counterpart is fitted and presented as a :class:`~substrate.Fusion`."""

from typing import Any

import numpy as np

import problems
from substrate.errors import DeclarationError
from substrate.fusion import FusedPath, Fusion

__all__ = ["fuse_estimator"]

#: The hyper-parameter and the fused counterpart of each estimator.
_TWINS = {
    "LSSVMRegressor": ("gamma", "LSSVMRegressorCV"),
    "LSSVMClassifier": ("gamma", "LSSVMClassifierCV"),
    "L1SubstrateRegressor": ("zeta", "FusedL1SubstrateRegressor"),
    "L1SubstrateClassifier": ("zeta", "FusedL1SubstrateClassifier"),
    "MaximalVariationRegressor": ("rho", "FusedMaximalVariationRegressor"),
    "MaximalVariationClassifier": ("rho", "FusedMaximalVariationClassifier"),
}


def fuse_estimator(
    estimator: Any, over: Any, *, validation: Any = None, cv: Any = None, gap: float = 1e-3, data: Any = None
) -> Fusion:
    """Fit the fused counterpart of an estimator to ``data``, validated on rows, folds or, for gamma, left-out rows."""
    name = over.name() if hasattr(over, "name") else over
    known, twin = _TWINS.get(type(estimator).__name__, (None, None))
    if twin is None or name != known:
        offered = ", ".join(f"{parameter} of {one}" for one, (parameter, _) in _TWINS.items())
        raise DeclarationError(f"{name!r} of {type(estimator).__name__} cannot be fused; there is {offered}")
    if data is None:
        raise DeclarationError("an estimator is fused on data=(X, y)")
    if (validation is None) == (cv is None):
        raise DeclarationError("an estimator is fused with validation=(X, y) or with cv, one of them")
    fused = getattr(problems, twin)(gap=gap, cv=cv)
    own = fused.get_params(deep=False)
    given = estimator.get_params(deep=False)
    fused.set_params(**{key: value for key, value in given.items() if key in own and key not in ("gap", "cv")})
    model = fused.fit(*data, *(validation or ()))
    path = model.path_
    record = FusedPath(
        str(known),
        np.asarray(path["values"]),
        np.asarray(path["criterion"]),
        (path,),
        tuple(path["coverage"]),
        tuple(path.get("holes", ())),
        str(path.get("stop", "the range of gamma was searched")),
        path.get("maximal_variation"),
    )
    return Fusion(
        str(known),
        getattr(model, f"{known}_"),
        model.criterion_,
        model.criterion_lower_bound_,
        model,
        record,
        model.certificate_,
    )
