"""Models, one a file, declared as convex problems; and their scikit-learn estimators.

``from problems import LSSVMRegressor`` is cheap: cvxpy is imported when a problem is declared, not before.
"""

from importlib import import_module
from typing import Any

import substrate

if getattr(substrate, "DISTRIBUTION", None) != "lssvm-substrate":
    raise ImportError(
        f"the module `substrate` at {getattr(substrate, '__file__', '?')} belongs to another project; "
        "`problems` needs the one that `pip install lssvm-substrate` brings: uninstall the other, or use a fresh "
        "virtual environment"
    )

#: Where each estimator lives; also what a model file may name.
ESTIMATORS = {
    "ComponentwiseLSSVMClassifier": "problems.estimators.componentwise",
    "ComponentwiseLSSVMRegressor": "problems.estimators.componentwise",
    "FusedLeastSquaresRegressor": "problems.estimators.substrates",
    "L1SubstrateClassifier": "problems.estimators.substrates",
    "L1SubstrateRegressor": "problems.estimators.substrates",
    "LSSVMClassifier": "problems.estimators.ls_svm",
    "LSSVMRegressor": "problems.estimators.ls_svm",
    "MaximalVariationClassifier": "problems.estimators.structure",
    "MaximalVariationRegressor": "problems.estimators.structure",
    "SubstrateRegressor": "problems.estimators.substrates",
}
_PROBLEMS = (
    "componentwise_ls_svm",
    "decoupled_maximal_variation",
    "fused_l1_substrate",
    "fused_least_squares",
    "fused_maximal_variation",
    "l1_substrate",
    "ls_svm_classification",
    "ls_svm_regression",
    "ls_svm_substrate",
    "maximal_variation",
    "maximal_variation_kkt",
    "penalized_fusion",
)

__all__ = [
    "ComponentwiseLSSVMClassifier",
    "ComponentwiseLSSVMRegressor",
    "FusedLeastSquaresRegressor",
    "L1SubstrateClassifier",
    "L1SubstrateRegressor",
    "LSSVMClassifier",
    "LSSVMRegressor",
    "MaximalVariationClassifier",
    "MaximalVariationRegressor",
    "SubstrateRegressor",
    "componentwise_ls_svm",
    "decoupled_maximal_variation",
    "fused_l1_substrate",
    "fused_least_squares",
    "fused_maximal_variation",
    "l1_substrate",
    "load",
    "ls_svm_classification",
    "ls_svm_regression",
    "ls_svm_substrate",
    "maximal_variation",
    "maximal_variation_kkt",
    "penalized_fusion",
]


def __getattr__(name: str) -> Any:
    if name in ESTIMATORS:
        return getattr(import_module(ESTIMATORS[name]), name)
    if name == "load":
        return import_module("problems.estimators.files").load
    if name in _PROBLEMS:
        return import_module(f"problems.{name}")
    raise AttributeError(f"module 'problems' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
