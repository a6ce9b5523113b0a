"""Saving and loading every estimator: parameters, fitted attributes and certificate, without pickle or eval.

A file holds the values that :mod:`problems.estimators.shared.saved` lists, each of its kind, and nothing else: no
address, no path, no connection. The estimator is looked up in the package's own list, never by an import path from the
file. A saved model is read back, with all checks, before the file gets its name.

A model file of release 0.1, whose format version is 1, is translated first. The contents of such a file are listed here
as they were: names that have changed since are replaced, and parameters that are new have their defaults.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from problems.estimators.shared.encoding import Arrays, bytes_needed, decode, encode
from problems.estimators.shared.saved import OUTSIDE, attributes_of, parameters_of
from substrate.archive import Archive, read_archive, write_archive
from substrate.certificates import Certificate, Row
from substrate.errors import DataError, ModelFileWarning, SubstrateError
from substrate.reduced import Basis
from substrate.whole_file import writable_file

__all__ = ["Check", "content_today", "parameters_of_release_0_1", "read_model", "save"]


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
#: Estimators that have been replaced by another one.
_NAMES = {"FusedLSSVMClassifier": "LSSVMClassifierCV", "FusedLSSVMRegressor": "LSSVMRegressorCV"}
#: The parameter that a fused estimator chose, by the two letters after ``Fused``.
_CHOSEN = {"L1": "zeta_", "LS": "gamma_", "Ma": "rho_"}


def parameters_of_release_0_1(estimator: str) -> set[str]:
    """The parameters of an estimator in a file of release 0.1."""
    return set(_PARAMETERS[estimator].split())


def content_today(content: Mapping[str, Any]) -> dict[str, Any]:
    """The encoded content of a file of release 0.1 under the present names."""
    name, parameters, fitted = (content.get(key) for key in ("estimator", "parameters", "fitted"))
    if not isinstance(name, str) or not isinstance(parameters, dict) or not isinstance(fitted, dict):
        return dict(content)  # which is refused later like any other that is no model
    if name not in _PARAMETERS:
        raise DataError(f"the file holds a {name!r}, which release 0.1 did not know")
    if set(parameters) != (known := parameters_of_release_0_1(name)):
        raise DataError(
            f"the file has parameters {sorted(parameters)} where a {name} of release 0.1 has {sorted(known)}"
        )
    made = {"parameters": _parameters(name, parameters), "fitted": _fitted(name, fitted)}
    return {**content, "estimator": _NAMES.get(name, name), **made}


def _parameters(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"tol": _CALLED_TOL.get(name, "tol"), "tolerance": _tolerance(name)}
    judged = {key: parameters[key] for key in ("criterion", "cv", "index", "folds") if key in parameters}
    others = {renamed.get(key, key): value for key, value in parameters.items() if key not in judged}
    if "n_basis" in others:
        basis = {name: others.pop(key) for name, key in _OF_BASIS.items() if key in others}
        others["basis"] = {"kind": "record", "class": "Basis", "fields": basis}
    return others | _judged(judged)


def _judged(given: Mapping[str, Any]) -> dict[str, Any]:
    """``cv`` and ``loss`` from the former ``criterion`` and ``cv``, or ``index`` and ``folds``."""
    if "index" in given:
        known = {"leave_one_out": "loo", "cross_validation": given["folds"], "validation": None}
        return {"cv": known.get(given["index"], given["index"]) if isinstance(given["index"], str) else given["index"]}
    if "criterion" not in given:
        return dict(given)
    criterion = given["criterion"]
    if criterion in ("loo", "gcv"):
        return {"cv": criterion}
    if criterion == "folds":
        return {"cv": 5 if given["cv"] is None else given["cv"]}
    return {"cv": "loo", "loss": criterion}


def _tolerance(name: str) -> str:
    """The present name of ``tolerance``."""
    if "Componentwise" in name or "MaximalVariation" in name:
        return "relevance"
    return {"LS2SVMClassifier": "threshold"}.get(name, "growth" if "Pruned" in name else "reconstruction_tolerance")


def _fitted(name: str, fitted: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"best_parameter_": _CHOSEN.get(name.removeprefix("Fused")[:2], "best_parameter_")}
    renamed |= {"validation_error_": "criterion_", "lower_bound_": "criterion_lower_bound_"}
    if name == "SparseL1SubstrateRegressor":
        renamed |= {"path_": "support_values_path_", "path_bias_": "bias_path_"}
    made = {renamed.get(key, key): value for key, value in fitted.items()}
    path = made.get("path_")
    if isinstance(path, dict) and isinstance(path.get("items"), list):
        made["path_"] = {**path, "items": [_entry(entry) for entry in path["items"]]}
    return made


def _entry(entry: Any) -> Any:
    """An entry of the path of a fused estimator."""
    return ["criterion", entry[1]] if isinstance(entry, list) and entry[:1] == ["validation_errors"] else entry


#: From the name of an estimator to its class; None for a name that the package does not know.
Classes = Callable[[str], Any]
#: A check of the model and the notes as they are read back; raises to refuse them.
Check = Callable[[Any, dict[str, Any] | None], object]


def save(
    model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None, check: Check | None = None
) -> None:
    """Write a fitted or unfitted estimator of this package to a file (usually named ``*.npz``).

    ``notes`` are plain JSON values that are stored with the model; :func:`problems.load` ignores them. The file is read
    back before it appears, and given to ``check``: what cannot be loaded is not saved.
    """
    name = type(model).__name__
    if not type(model).__module__.startswith("problems.estimators."):
        raise DataError(f"{name} is not an estimator of this package; save it by its own means")
    writable_file(path)
    arrays: Arrays = {}
    given = {key: value for key, value in model.get_params(deep=False).items() if key not in OUTSIDE}
    _refuse_others(type(model), given, _fitted_of(model))
    parameters = {key: encode(value, key, arrays) for key, value in given.items()}
    fitted = {key: encode(value, key, arrays) for key, value in _fitted_of(model).items()}
    content = {"estimator": name, "parameters": parameters, "fitted": fitted}

    def readable(found: Archive) -> None:
        try:
            made, stored = _rebuilt(found, {name: type(model)}.get, path)
            if check is not None:
                check(made, stored)
        except SubstrateError as error:
            raise DataError(
                f"this {name} is not saved, because {path} could not be loaded again: {error}; correct it and refit"
            ) from error

    write_archive(path, content if notes is None else {**content, "notes": dict(notes)}, arrays, readable)


def read_model(
    path: str | os.PathLike[str], classes: Classes, max_bytes: float | None = None
) -> tuple[Any, dict[str, Any] | None]:
    """The estimator of a file, one of ``classes``, and its notes, if any, which are not checked."""

    def planned(version: int, content: dict[str, Any], names: set[str]) -> int:
        """The bytes of a model besides its arrays, before any of it is read."""
        _, _, parameters, fitted = _parts(version, content, classes, path)
        try:
            return bytes_needed((parameters, fitted), names, fitted.get("n_features_in_"))
        except DataError as error:
            raise DataError(f"{path} is refused: {error}") from error

    found = read_archive(path, max_bytes, planned)
    model, notes = _rebuilt(found, classes, path)
    if found.as_written is None:
        warnings.warn(
            f"{path} was written by release 0.1, which put no digest into its files: whether it was changed since "
            "cannot be determined; save it again once you have certified it",
            ModelFileWarning,
            stacklevel=3,
        )
    elif not found.as_written:
        _disown(model)
        warnings.warn(
            f"{path} was changed after it was written (its digest does not fit), so its certificate is not its own and "
            "does not hold; certify the model on its training data, or save it again from its source",
            ModelFileWarning,
            stacklevel=3,
        )
    return model, notes


def _rebuilt(found: Archive, classes: Classes, path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any] | None]:
    content, arrays = found.content, found.arrays
    notes = content.get("notes")
    if notes is not None and not isinstance(notes, dict):
        raise DataError(f"{path} has notes that are a {type(notes).__name__}, not a mapping")
    estimator, name, parameters, fitted = _parts(found.version, content, classes, path)
    try:
        given = _own_parameters(name, parameters, set(estimator().get_params(deep=False)), found, path)
        values = {key: decode(value, arrays) for key, value in given.items()}
        attributes = {key: decode(value, arrays) for key, value in fitted.items()}
        _refuse_kinds(values, parameters_of(estimator), f"{path}: the parameter")
        _refuse_kinds(attributes, attributes_of(estimator), f"{path}: the attribute")
        model = estimator(**values)
        for key, value in attributes.items():
            setattr(model, key, value)
        model._check_loaded()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        if isinstance(error, SubstrateError):
            raise
        raise DataError(f"{path} does not describe a {name}: {error!r}") from error
    return model, notes


def _parts(
    version: int, content: Mapping[str, Any], classes: Classes, path: str | os.PathLike[str]
) -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
    """Class, name, parameters and fitted attributes, not yet decoded, under the names of this release."""
    if version == 1:
        try:
            content = content_today(content)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
    name = content.get("estimator")
    estimator = classes(name) if isinstance(name, str) else None
    if estimator is None or not isinstance(name, str):
        raise DataError(f"{path} holds a {name!r}, which this package does not know")
    parameters, fitted = content.get("parameters"), content.get("fitted")
    if not isinstance(parameters, dict) or not isinstance(fitted, dict):
        raise DataError(f"{path} lacks the parameters or the fitted attributes of a {name}")
    known = attributes_of(estimator)
    if refused := [key for key in fitted if key not in known]:
        raise DataError(f"{path} sets attributes {refused}, which no fit sets")
    return estimator, name, parameters, fitted


def _own_parameters(
    name: str, parameters: dict[str, Any], known: set[str], found: Archive, path: str | os.PathLike[str]
) -> dict[str, Any]:
    """The parameters of the model itself; those that act outside it occur in files of version 1, with defaults only."""
    expected = known - set(OUTSIDE)
    if found.version > 1 and set(parameters) != expected:
        raise DataError(f"{path} has parameters {sorted(parameters)} where a {name} has {sorted(expected)}")
    outside = {key: decode(parameters[key], found.arrays) for key in parameters if key in OUTSIDE}
    for key, value in outside.items():
        if not OUTSIDE[key].allows(value):
            raise DataError(
                f"{path} sets {key}={value!r}, which acts outside the model, and a file must not; if the file is your "
                f"own, load it with the release that wrote it, set {key} back to its default, and save it again"
            )
    return {key: value for key, value in parameters.items() if key not in OUTSIDE}


def _fitted_of(model: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}


def _refuse_others(estimator: type, parameters: Mapping[str, Any], fitted: Mapping[str, Any]) -> None:
    """Refuse what has no kind: a new parameter or attribute is not saved before its class states one."""
    if others := [*(set(parameters) - set(parameters_of(estimator))), *(set(fitted) - set(attributes_of(estimator)))]:
        raise DataError(
            f"a model file may not hold {', '.join(sorted(others))}; annotate it with a plain type in its class, or "
            "list it in problems/estimators/shared/saved.py"
        )


def _refuse_kinds(values: Mapping[str, Any], kinds: Mapping[str, Any], what: str) -> None:
    for key, value in values.items():
        if not kinds[key].allows(value):
            received = repr(value)
            raise DataError(f"{what} {key} must be {kinds[key].title}, received {received[:200]}")


def _disown(model: Any) -> None:
    """Make the certificate of a changed file fail, and state that it is not about this model."""
    if isinstance(getattr(model, "certificate_", None), Certificate):
        model.certificate_ = model.certificate_.extended(
            Row("file as written", float("inf"), 1.0, 0.0, "digest of the contents = digest in the file"),
            record=(("file", "changed after it was written; this certificate is not its own"),),
        )
