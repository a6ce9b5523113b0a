"""A model file of release 0.1, whose format version is 1, under the names of this release.

The parameters of that release are listed here; renamed ones are translated before anything else reads them, and
parameters that it did not have take their defaults.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from substrate.errors import DataError
from substrate.reduced import Basis

__all__ = ["content_today", "parameters_of_release_0_1"]

_CODED = "kernel coding gamma"
_SEARCH = "kernel kernels criterion cv gamma_range gap"
_FUSED = "kernel kernels cv validation_fraction gap random_state"
_PRUNED = "kernel gamma step n_support index folds tolerance retune"
_BASIS = "kernel n_basis basis n_candidates n_scoring tolerance random_state executor memory_budget checkpoint verbose"
_VARIATION = "kernel rho expansion ridge cutoff tolerance refit gamma solver"

#: The parameters that every estimator had.
_PARAMETERS: Mapping[str, str] = {
    "ALSSVMClassifier": f"{_CODED} threshold max_epochs n_support random_state",
    "AdaPinvClassifier": f"{_CODED} n_support accelerated tol max_epochs",
    "ComponentwiseLSSVMClassifier": f"{_CODED} class_weight solver tol max_iter tolerance",
    "ComponentwiseLSSVMRegressor": "kernel gamma solver tol max_iter tolerance",
    "FusedL1SubstrateClassifier": f"{_FUSED} coding",
    "FusedL1SubstrateRegressor": _FUSED,
    "FusedLSSVMClassifier": f"{_FUSED} gamma_range coding",
    "FusedLSSVMRegressor": f"{_FUSED} gamma_range",
    "FusedLeastSquaresRegressor": "kernel cutoff validation_fraction random_state",
    "FusedMaximalVariationClassifier": f"{_FUSED} coding expansion ridge cutoff tolerance",
    "FusedMaximalVariationRegressor": f"{_FUSED} expansion ridge cutoff tolerance",
    "HuberLSSVMRegressor": "kernel gamma delta",
    "IPLSSVMClassifier": f"{_CODED} n_support",
    "L1SubstrateClassifier": "kernel coding zeta solver",
    "L1SubstrateRegressor": "kernel zeta solver",
    "LS2SVMClassifier": f"{_CODED} tolerance",
    "LSSVMClassifier": f"{_CODED} class_weight solver tol max_iter",
    "LSSVMClassifierCV": f"{_SEARCH} search max_evaluations coding n_jobs verbose",
    "LSSVMRegressor": "kernel gamma solver tol max_iter",
    "LSSVMRegressorCV": f"{_SEARCH} search max_evaluations n_jobs verbose",
    "MaximalVariationClassifier": f"{_VARIATION} coding",
    "MaximalVariationRegressor": _VARIATION,
    "PrunedLSSVMClassifier": f"{_PRUNED} coding",
    "PrunedLSSVMRegressor": f"{_PRUNED} weighting scale reweight",
    "RobustLSSVMRegressor": "kernel gamma weighting scale max_reweightings tol",
    "RobustSparseLSSVMRegressor": f"{_BASIS} gamma weighting scale max_reweightings tol",
    "SparseComponentwiseLSSVMRegressor": f"{_BASIS} gamma",
    "SparseL1SubstrateClassifier": f"{_BASIS} coding zeta",
    "SparseL1SubstrateRegressor": f"{_BASIS} zeta",
    "SparseLSSVMClassifier": f"{_BASIS} gamma coding solver",
    "SparseLSSVMClassifierCV": f"{_BASIS} {_SEARCH} coding",
    "SparseLSSVMRegressor": f"{_BASIS} gamma solver",
    "SparseLSSVMRegressorCV": f"{_BASIS} {_SEARCH}",
    "SparseMaximalVariationRegressor": f"{_BASIS} rho ridge cutoff",
    "SubstrateRegressor": "kernel c",
}


#: Estimators that have been replaced by another one.
_NAMES = {"FusedLSSVMClassifier": "LSSVMClassifierCV", "FusedLSSVMRegressor": "LSSVMRegressorCV"}

#: The parameter that a fused estimator chose, by the two letters after ``Fused``.
_CHOSEN = {"L1": "zeta_", "LS": "gamma_", "Ma": "rho_"}
#: Present names of ``tol`` where it was not the tolerance of the certificate.
_CALLED_TOL = {
    "AdaPinvClassifier": "adaline_tol",
    "ComponentwiseLSSVMClassifier": "cg_tol",
    "ComponentwiseLSSVMRegressor": "cg_tol",
    "LSSVMClassifier": "cg_tol",
    "LSSVMRegressor": "cg_tol",
    "RobustLSSVMRegressor": "weights_tol",
    "RobustSparseLSSVMRegressor": "weights_tol",
}
#: What a :class:`~substrate.reduced.Basis` calls its parameters, and their names as parameters of an estimator.
_OF_BASIS = {field.name: {"n": "n_basis", "rule": "basis"}.get(field.name, field.name) for field in fields(Basis)}


def parameters_of_release_0_1(estimator: str) -> set[str]:
    """Return the parameters of an estimator in a file of release 0.1."""
    return set(_PARAMETERS[estimator].split())


def content_today(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the encoded content of a file of release 0.1 under the present names."""
    name, parameters, fitted = (content.get(key) for key in ("estimator", "parameters", "fitted"))
    if not isinstance(name, str) or not isinstance(parameters, dict) or not isinstance(fitted, dict):
        return dict(content)  # which is refused later like any other that is no model
    if name not in _PARAMETERS:
        raise DataError(f"the file holds a {name[:200]!r}, which release 0.1 did not know")
    if set(parameters) != (parameters_known := parameters_of_release_0_1(name)):
        raise DataError(
            f"the file has parameters {sorted(parameters)} where a {name} of release 0.1 has {sorted(parameters_known)}"
        )
    translated = {"parameters": _parameters(name, parameters), "fitted": _translate_attributes(name, fitted)}
    return {**content, "estimator": _NAMES.get(name, name), **translated}


def _parameters(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"tol": _CALLED_TOL.get(name, "tol"), "tolerance": _tolerance(name)}
    judged = {key: parameters[key] for key in ("criterion", "cv", "index", "folds") if key in parameters}
    translated = {renamed.get(key, key): value for key, value in parameters.items() if key not in judged}
    if "n_basis" in translated:
        basis = {name: translated.pop(key) for name, key in _OF_BASIS.items() if key in translated}
        translated["basis"] = {"kind": "record", "class": "Basis", "fields": basis}
    return translated | _translate_criterion(judged)


def _translate_criterion(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``cv`` and ``loss`` from the former ``criterion`` and ``cv``, or ``index`` and ``folds``."""
    if "index" in parameters:
        translations = {"leave_one_out": "loo", "cross_validation": parameters["folds"], "validation": None}
        return {
            "cv": translations.get(parameters["index"], parameters["index"])
            if isinstance(parameters["index"], str)
            else parameters["index"]
        }
    if "criterion" not in parameters:
        return dict(parameters)
    criterion = parameters["criterion"]
    if criterion in ("loo", "gcv"):
        return {"cv": criterion}
    if criterion == "folds":
        return {"cv": 5 if parameters["cv"] is None else parameters["cv"]}
    return {"cv": "loo", "loss": criterion}


def _tolerance(name: str) -> str:
    """Return the present name of ``tolerance``."""
    if "Componentwise" in name or "MaximalVariation" in name:
        return "relevance"
    return {"LS2SVMClassifier": "threshold"}.get(name, "growth" if "Pruned" in name else "reconstruction_tolerance")


def _translate_attributes(name: str, fitted: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"best_parameter_": _CHOSEN.get(name.removeprefix("Fused")[:2], "best_parameter_")}
    renamed |= {"validation_error_": "criterion_", "lower_bound_": "criterion_lower_bound_"}
    if name == "SparseL1SubstrateRegressor":
        renamed |= {"path_": "support_values_path_", "path_bias_": "bias_path_"}
    translated = {renamed.get(key, key): value for key, value in fitted.items()}
    path = translated.get("path_")
    if isinstance(path, dict) and isinstance(path.get("items"), list):
        translated["path_"] = {**path, "items": [_entry(entry) for entry in path["items"]]}
    return translated


def _entry(entry: Any) -> Any:
    """Return an entry of the path of a fused estimator."""
    return ["criterion", entry[1]] if isinstance(entry, list) and entry[:1] == ["validation_errors"] else entry
