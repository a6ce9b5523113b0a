"""Models declared as convex problems, one per file, and their scikit-learn estimators.

``from problems import LSSVMRegressor`` is cheap: cvxpy is imported when a problem is declared, not before.
"""

import os
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import substrate

if getattr(substrate, "DISTRIBUTION", None) != "lssvm-substrate":
    raise ImportError(
        f"the module `substrate` at {getattr(substrate, '__file__', '?')} belongs to another project; "
        "`problems` needs the one that `pip install lssvm-substrate` installs: uninstall the other, or use a fresh "
        "virtual environment"
    )

#: The estimators, each with its module: one line registers one; a model file may name no others.
ESTIMATORS = {
    "ALSSVMClassifier": "problems.estimators.column_reduced",
    "AdaPinvClassifier": "problems.estimators.column_reduced",
    "FusedL1SubstrateClassifier": "problems.estimators.chosen.fused_l1",
    "FusedL1SubstrateRegressor": "problems.estimators.chosen.fused_l1",
    "FusedMaximalVariationClassifier": "problems.estimators.chosen.fused_variation",
    "FusedMaximalVariationRegressor": "problems.estimators.chosen.fused_variation",
    "IPLSSVMClassifier": "problems.estimators.column_reduced",
    "KernelClassifier": "problems.estimators.kernel_machine",
    "KernelRegressor": "problems.estimators.kernel_machine",
    "L1SubstrateClassifier": "problems.estimators.penalised.l1",
    "L1SubstrateRegressor": "problems.estimators.penalised.l1",
    "LS2SVMClassifier": "problems.estimators.column_reduced",
    "LSSVMClassifier": "problems.estimators.full.ls_svm",
    "LSSVMClassifierCV": "problems.estimators.chosen.selection",
    "LSSVMRegressor": "problems.estimators.full.ls_svm",
    "LSSVMRegressorCV": "problems.estimators.chosen.selection",
    "MaximalVariationClassifier": "problems.estimators.penalised.structure",
    "MaximalVariationRegressor": "problems.estimators.penalised.structure",
    "PrunedLSSVMClassifier": "problems.estimators.pruned",
    "PrunedLSSVMRegressor": "problems.estimators.pruned",
    "StackedLSSVMClassifier": "problems.estimators.chosen.stacked",
    "StackedLSSVMRegressor": "problems.estimators.chosen.stacked",
}
#: Estimators around something else, each with its module: a function of the user's own, which no file of a model names,
#: since functions are not saved, a regressor on windows of a series, or machines of tables as they come; and how
#: windows and robust weights are made. None of them has a parameter ``kernel``.
COMPOSED = {
    "MachineClassifier": "problems.estimators.machine",
    "MachineRegressor": "problems.estimators.machine",
    "NARXRegressor": "problems.estimators.narx",
    "Robust": "problems.estimators.full.robust",
    "TabularClassifier": "problems.tables.estimators",
    "TabularRegressor": "problems.tables.estimators",
    "windowize": "substrate.windows",
}
#: Estimators without targets, each with its module: components and clusters, whose problems are eigenproblems.
SPECTRAL = {
    "KernelCCA": "problems.estimators.two_views",
    "KernelFisherDiscriminant": "problems.estimators.two_views",
    "KernelSpectralClustering": "problems.estimators.components",
    "LSSVMKernelPCA": "problems.estimators.components",
}
#: The pages: the problem files of this folder.
PAGES = tuple(
    file.name for file in iter_modules([os.path.dirname(__file__)]) if not file.ispkg and file.name != "demonstration"
)

__all__ = sorted([*ESTIMATORS, *SPECTRAL, *COMPOSED, *PAGES, "load"])


def load(path: str | os.PathLike[str], max_bytes: float | None = None) -> Any:
    """Read an estimator back; a damaged, foreign or hostile file is refused and nothing of it is executed.

    The page "Model files" of the documentation describes what a file can and cannot do. A certificate from an
    untrusted source proves nothing: ``certify`` the model on your own data.

    Parameters
    ----------
    path
        A file written by ``save`` or by ``substrate fit --out``. A file that was changed since then is refused.
    max_bytes
        The memory that the model may use, added up before anything is allocated; a file that needs more is refused.
        None is 1 GiB, or four times the size of the file if that is more, so that every saved model can be loaded.
    """
    from substrate.files import load as load_value  # with all kernels, which not every import needs

    return load_value(path, _estimator, max_bytes)


def _estimator(name: str) -> Any:
    """Return a registered estimator or a class that belongs to one; None for any other name."""
    home = {**ESTIMATORS, **SPECTRAL, **COMPOSED}.get(name)
    return None if home is None else getattr(import_module(home), name)


def __getattr__(name: str) -> Any:
    if name in ESTIMATORS or name in SPECTRAL or name in COMPOSED:
        return _estimator(name)
    if name in PAGES:
        return import_module(f"problems.{name}")
    raise AttributeError(f"module 'problems' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
