"""Saving and loading every estimator: parameters, fitted attributes and certificate, without pickle or eval.

A file holds the values that :mod:`problems.estimators.shared.saved` lists, each of its kind, and nothing else: no
address, no path, no connection. The estimator is looked up in the package's own list, never by an import path from the
file. A saved model is read back, with all checks, before the file gets its name.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from problems.estimators.shared.encoding import Arrays, bytes_needed, check_kernels, decode, encode
from problems.estimators.shared.saved import OUTSIDE, attributes_of, parameters_of
from substrate.archive import Archive, read_archive, write_archive
from substrate.certificates import Certificate, Row
from substrate.errors import DataError, ModelFileWarning, SubstrateError
from substrate.whole_file import writable_file

__all__ = ["Check", "read_model", "save"]

#: Letters of a message that a file can choose.
_LONGEST = 2000
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
    parameters_given = {key: value for key, value in model.get_params(deep=False).items() if key not in OUTSIDE}
    _refuse_others(type(model), parameters_given, _fitted_of(model))
    parameters = {key: encode(value, key, arrays) for key, value in parameters_given.items()}
    fitted = {key: encode(value, key, arrays) for key, value in _fitted_of(model).items()}
    content = {"estimator": name, "parameters": parameters, "fitted": fitted}

    def readable(archive: Archive) -> None:
        try:
            estimator, stored = _rebuild(archive, {name: type(model)}.get, path)
            if check is not None:
                check(estimator, stored)
        except SubstrateError as error:
            raise DataError(
                f"this {name} is not saved, because {path} could not be loaded again: {error}; correct it and refit"
            ) from error

    write_archive(path, content if notes is None else {**content, "notes": dict(notes)}, arrays, readable)


def read_model(
    path: str | os.PathLike[str], classes: Classes, max_bytes: float | None = None
) -> tuple[Any, dict[str, Any] | None]:
    """Return the estimator of a file, one of ``classes``, and its notes, if any, which are not checked."""

    def count_bytes(content: dict[str, Any], names: set[str]) -> int:
        """Return the bytes of a model besides its arrays, before any of it is read."""
        encoded = _parts(content, classes, path)
        try:
            return bytes_needed((encoded.parameters, encoded.fitted), names, encoded.fitted.get("n_features_in_"))
        except DataError as error:
            raise DataError(f"{path} is refused: {error}") from error

    archive = read_archive(path, max_bytes, count_bytes)
    model, notes = _rebuild(archive, classes, path)
    if not archive.as_written:
        _disown(model)
        warnings.warn(
            f"{path} was changed after it was written (its digest does not match), so its certificate does not "
            "hold; certify the model on its training data, or save it again from its source",
            ModelFileWarning,
            stacklevel=3,
        )
    return model, notes


def _rebuild(archive: Archive, classes: Classes, path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any] | None]:
    content, arrays = archive.content, archive.arrays
    notes = content.get("notes")
    if notes is not None and not isinstance(notes, dict):
        raise DataError(f"{path} has notes that are a {type(notes).__name__}, not a mapping")
    estimator, name, parameters, fitted = _parts(content, classes, path)
    try:
        expected = set(estimator().get_params(deep=False)) - OUTSIDE
        if set(parameters) != expected:
            raise DataError(f"{path} has parameters {_short(sorted(parameters))} where a {name} has {sorted(expected)}")
        values = {key: decode(value, arrays) for key, value in parameters.items()}
        attributes = {key: decode(value, arrays) for key, value in fitted.items()}
        _refuse_kinds(values, parameters_of(estimator), f"{path}: the parameter")
        _refuse_kinds(attributes, attributes_of(estimator), f"{path}: the attribute")
        check_kernels((values, attributes), attributes.get("n_features_in_"))
        model = estimator(**values)
        for key, value in attributes.items():
            setattr(model, key, value)
        model._check_loaded()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        if isinstance(error, SubstrateError):
            if len(str(error)) > _LONGEST:  # it repeats what the file holds
                raise DataError(f"{path} is refused: {str(error)[:_LONGEST]}...") from error
            raise
        raise DataError(f"{path} does not describe a {name}: {_short(error)}") from error
    return model, notes


class _EncodedModel(NamedTuple):
    """Class, name, parameters and fitted attributes, not yet decoded."""

    estimator: Any
    name: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]


def _parts(content: Mapping[str, Any], classes: Classes, path: str | os.PathLike[str]) -> _EncodedModel:
    """Return what a file holds of a model, refused where it names what no fit sets."""
    name = content.get("estimator")
    estimator = classes(name) if isinstance(name, str) else None
    if estimator is None or not isinstance(name, str):
        raise DataError(f"{path} holds a {_short(name)}, which this package does not know")
    parameters, fitted = content.get("parameters"), content.get("fitted")
    if not isinstance(parameters, dict) or not isinstance(fitted, dict):
        raise DataError(f"{path} lacks the parameters or the fitted attributes of a {name}")
    attributes = attributes_of(estimator)
    if refused := [key for key in fitted if key not in attributes]:
        raise DataError(f"{path} sets attributes {_short(refused)}, which no fit sets")
    return _EncodedModel(estimator=estimator, name=name, parameters=parameters, fitted=fitted)


def _fitted_of(model: Any) -> dict[str, Any]:
    fitted = {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}
    also: dict[str, Any] = model._further_attributes()
    return fitted | also


def _refuse_others(estimator: type, parameters: Mapping[str, Any], fitted: Mapping[str, Any]) -> None:
    """Refuse what has no kind: a new parameter or attribute is not saved before its class states one."""
    if unexpected := [
        *(set(parameters) - set(parameters_of(estimator))),
        *(set(fitted) - set(attributes_of(estimator))),
    ]:
        raise DataError(
            f"a model file may not hold {', '.join(sorted(unexpected))}; annotate it with a plain type in its class, "
            "or "
            "list it in problems/estimators/shared/saved.py"
        )


def _refuse_kinds(values: Mapping[str, Any], kinds: Mapping[str, Any], what: str) -> None:
    for key, value in values.items():
        if not kinds[key].allows(value):
            raise DataError(f"{what} {key} must be {kinds[key].title}, received {_short(value, 200)}")


def _short(value: Any, most: int = _LONGEST) -> str:
    """Return what a message can hold of a value that comes from a file."""
    return repr(value)[:most]


def _disown(model: Any) -> None:
    """Make the certificate of a changed file fail, and state that it is not about this model."""
    if isinstance(getattr(model, "certificate_", None), Certificate):
        model.certificate_ = model.certificate_.extended(
            Row(
                name="file as written",
                value=float("inf"),
                scale=1.0,
                tolerance=0.0,
                formula="digest of the contents = digest in the file",
            ),
            record=(("file", "changed after it was written; its certificate does not hold"),),
        )
