"""Models, one a file, declared as convex problems; and their scikit-learn estimators.

``from problems import LSSVMRegressor`` is cheap: cvxpy is imported when a problem is declared, not before.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import substrate

if getattr(substrate, "DISTRIBUTION", None) != "lssvm-substrate":
    raise ImportError(
        f"the module `substrate` at {getattr(substrate, '__file__', '?')} belongs to another project; "
        "`problems` needs the one that `pip install lssvm-substrate` brings: uninstall the other, or use a fresh "
        "virtual environment"
    )

#: The estimators, each with the file it lives in: one line registers one; also what a model file may name.
ESTIMATORS = {
    "ALSSVMClassifier": "problems.estimators.pruned.column_reduced",
    "AdaPinvClassifier": "problems.estimators.pruned.column_reduced",
    "ComponentwiseLSSVMClassifier": "problems.estimators.full.componentwise",
    "ComponentwiseLSSVMRegressor": "problems.estimators.full.componentwise",
    "FusedL1SubstrateClassifier": "problems.estimators.chosen.fused_machines",
    "FusedL1SubstrateRegressor": "problems.estimators.chosen.fused_machines",
    "FusedLeastSquaresRegressor": "problems.estimators.chosen.fused_least_squares",
    "FusedMaximalVariationClassifier": "problems.estimators.chosen.fused_machines",
    "FusedMaximalVariationRegressor": "problems.estimators.chosen.fused_machines",
    "HuberLSSVMRegressor": "problems.estimators.full.huber",
    "IPLSSVMClassifier": "problems.estimators.pruned.column_reduced",
    "L1SubstrateClassifier": "problems.estimators.full.substrates",
    "L1SubstrateRegressor": "problems.estimators.full.substrates",
    "LS2SVMClassifier": "problems.estimators.pruned.column_reduced",
    "LSSVMClassifier": "problems.estimators.full.ls_svm",
    "LSSVMClassifierCV": "problems.estimators.chosen.selection",
    "LSSVMRegressor": "problems.estimators.full.ls_svm",
    "LSSVMRegressorCV": "problems.estimators.chosen.selection",
    "MaximalVariationClassifier": "problems.estimators.full.structure",
    "MaximalVariationRegressor": "problems.estimators.full.structure",
    "PrunedLSSVMClassifier": "problems.estimators.pruned.ls_svm",
    "PrunedLSSVMRegressor": "problems.estimators.pruned.ls_svm",
    "RobustLSSVMRegressor": "problems.estimators.full.robust",
    "RobustSparseLSSVMRegressor": "problems.estimators.reduced.robust",
    "SparseComponentwiseLSSVMRegressor": "problems.estimators.reduced.additive",
    "SparseL1SubstrateClassifier": "problems.estimators.reduced.l1",
    "SparseL1SubstrateRegressor": "problems.estimators.reduced.l1",
    "SparseLSSVMClassifier": "problems.estimators.reduced.ls_svm",
    "SparseLSSVMClassifierCV": "problems.estimators.chosen.basis_selection",
    "SparseLSSVMRegressor": "problems.estimators.reduced.ls_svm",
    "SparseLSSVMRegressorCV": "problems.estimators.chosen.basis_selection",
    "SparseMaximalVariationRegressor": "problems.estimators.reduced.additive",
    "SubstrateRegressor": "problems.estimators.full.substrates",
    "SymmetricLSSVMRegressor": "problems.estimators.full.symmetric",
}
#: The pages: the files of this folder, but for what they say of themselves.
PAGES = tuple(file.name for file in iter_modules(__path__) if not file.ispkg and file.name != "demonstration")

__all__ = sorted([*ESTIMATORS, *PAGES, "load"])


def __getattr__(name: str) -> Any:
    if name in ESTIMATORS:
        return getattr(import_module(ESTIMATORS[name]), name)
    if name == "load":
        return import_module("problems.estimators.shared.files").load
    if name in PAGES:
        return import_module(f"problems.{name}")
    raise AttributeError(f"module 'problems' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
