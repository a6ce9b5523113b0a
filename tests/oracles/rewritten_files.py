"""Model files written again by somebody else: what is in them is changed, and every sum and size is right."""

import io
import json
import zipfile
from dataclasses import fields

import numpy as np

import problems
from problems.estimators.shared.saved import OUTSIDE
from substrate import archive
from substrate.reduced import Basis
from substrate.streaming import BUDGET


def rewrite(path, change, digest=True):
    """Let ``change(header, arrays)`` edit what a file says, and write it again with every sum and size right.

    ``digest=False`` keeps that of the old contents, as who edits by hand does.
    """
    with zipfile.ZipFile(path) as stored:
        header = json.loads(stored.read("header.json"))
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "header.json"}
    change(header, arrays)
    header["arrays"] = {n: {"dtype": a.dtype.str, "shape": list(a.shape)} for n, a in arrays.items()}
    members = {name: npy_bytes(array) for name, array in arrays.items()}
    if digest and "digest" in header:
        sums = {name: archive._sum(data) for name, data in members.items()}
        header["digest"] = archive._digest(header["version"], header["arrays"], header["content"], sums)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as stored:
        stored.writestr("header.json", json.dumps(header))
        for name, data in members.items():
            stored.writestr(f"{name}.npy", data)


def npy_bytes(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


#: Parameters that release 0.1 knew by another name, and those that it did not know.
CALLED_TOL = ("cg_tol", "weights_tol", "adaline_tol")
UNKNOWN_THEN = (
    "tol",
    "zeta_min",
    "loss",
    "groups",
    "rho_range",
    "ridge_range",
    "bounds",
    "calibration",
    "convex",
    "monotone",
    "standardize",
    "missing",
    "reach",
    "widths",
)
#: Those that machines on a basis, and those that choose, did not have then.
OF_OTHERS = {
    "FusedL1SubstrateClassifier": ("refit", "standard_errors"),
    "FusedL1SubstrateRegressor": ("refit", "standard_errors"),
    "FusedMaximalVariationClassifier": ("refit", "standard_errors"),
    "FusedMaximalVariationRegressor": ("refit", "standard_errors"),
    "LSSVMRegressorCV": ("noise",),
    "LSSVMClassifierCV": ("class_weight",),
    "SparseLSSVMClassifier": ("class_weight",),
    "SparseLSSVMClassifierCV": ("class_weight", "search", "max_evaluations"),
    "SparseLSSVMRegressorCV": ("search", "max_evaluations"),
}
#: What was called tolerance then.
TOLERANCES = ("relevance", "growth", "threshold", "reconstruction_tolerance")


#: Attributes by their names of today and of then.
CHOSEN_THEN = {"criterion_": "validation_error_", "criterion_lower_bound_": "lower_bound_"}


def judged_then(estimator, parameters, loss):
    """What said by what to judge: criterion and cv of a search, index and folds of pruning."""
    if "Pruned" in estimator:
        cv = parameters.pop("cv")
        index = {"loo": "leave_one_out", "training": "training", None: "validation"}
        return parameters | {
            "index": "cross_validation" if isinstance(cv, int) else index[cv],
            "folds": cv if isinstance(cv, int) else 10,
        }
    if estimator.endswith("CV"):
        cv, named = parameters.pop("cv"), ("loo", "gcv")
        parameters = {key: value for key, value in parameters.items() if key not in ("validation_fraction",)}
        if estimator.startswith("LSSVM"):
            parameters.pop("random_state")
        if loss != "squared":
            return parameters | {"criterion": loss, "cv": None}
        return parameters | ({"criterion": cv, "cv": None} if cv in named else {"criterion": "folds", "cv": cv})
    return parameters


def fitted_then(estimator, fitted):
    """Return the attributes of an estimator as release 0.1 named them."""
    if estimator.startswith("Fused"):
        renamed = CHOSEN_THEN | dict.fromkeys(("gamma_", "zeta_", "rho_"), "best_parameter_")
        fitted = {renamed.get(key, key): value for key, value in fitted.items()}
        for entry in fitted.get("path_", {"items": []})["items"]:
            entry[0] = entry[0].replace("criterion", "validation_errors")
    elif estimator == "SparseL1SubstrateRegressor":
        renamed = {"support_values_path_": "path_", "bias_path_": "path_bias_"}
        fitted = {renamed.get(key, key): value for key, value in fitted.items()}
    return fitted


def flat_then(estimator, parameters):
    """Return the parameters of a basis and of passes, each by itself, with every default and the rule by its name."""
    basis = parameters.pop("basis")
    fields_of_basis = basis["fields"] if isinstance(basis, dict) else {}
    names = {"n": "n_basis", "rule": "basis"}
    flat = {
        names.get(field.name, field.name): fields_of_basis.get(field.name, field.default) for field in fields(Basis)
    }
    flat["basis"] = flat["basis"] or getattr(problems, estimator)._model_type.rule
    return parameters | flat | {"executor": None, "memory_budget": BUDGET, "checkpoint": None, "verbose": False}


def as_of_release_0_1(path, **further):
    """Turn a file into what release 0.1 wrote: version 1, no digest, and every parameter that the estimator had."""

    def turn_back(header, arrays):
        header["version"] = 1
        header.pop("digest", None)
        content = header["content"]
        defaults = getattr(problems, content["estimator"])().get_params(deep=False)
        unknown = (*UNKNOWN_THEN, *OF_OTHERS.get(content["estimator"], ()))
        parameters = {key: value for key, value in content["parameters"].items() if key not in unknown}
        if "basis" in parameters:
            parameters = flat_then(content["estimator"], parameters)
        if content["estimator"] in ("SparseComponentwiseLSSVMRegressor", "SparseMaximalVariationRegressor"):
            parameters.pop("reconstruction_tolerance")
        if content["estimator"].startswith("Fused"):
            parameters.pop("max_evaluations", None)
        if content["estimator"] in ("L1SubstrateClassifier", "L1SubstrateRegressor"):
            parameters.pop("ridge")
        if content["estimator"] != "ALSSVMClassifier":
            parameters = {"tolerance" if key in TOLERANCES else key: value for key, value in parameters.items()}
        parameters = judged_then(content["estimator"], parameters, content["parameters"].get("loss", "squared"))
        parameters = {"tol" if key in CALLED_TOL else key: value for key, value in parameters.items()}
        if content["estimator"].endswith("CV") and content["fitted"].pop("path_", None):  # a search kept none
            for name in [name for name in arrays if name.startswith("path_")]:
                arrays.pop(name)
        content["fitted"] = fitted_then(content["estimator"], content["fitted"])
        content["parameters"] = parameters | {
            key: defaults[key] for key in OUTSIDE if key in defaults and key != "passes"
        }
        content["parameters"] |= further

    rewrite(path, turn_back)
