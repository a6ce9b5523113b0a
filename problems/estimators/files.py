"""Saving and loading every estimator: parameters, fitted attributes and certificate, without pickle or eval.

Values are written by kind (number, text, array, sparse matrix, kernel, certificate, record, sequence); classes are
looked up in the package's own lists of estimators, kernels and records, never by an import path from the file. A kernel
that is somebody's function cannot be written down and is refused by name.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

import problems
from problems.estimators.records import RECORDS, Record
from substrate import kernels
from substrate.archive import read_archive, write_archive
from substrate.arrays import is_sparse
from substrate.certificates import Certificate, Row
from substrate.errors import DataError, SubstrateError
from substrate.kernels import Foreign, Kernel
from substrate.namespaces import to_numpy

__all__ = ["load", "load_with_notes", "save"]

_Arrays = dict[str, NDArray[Any]]


def save(model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted or unfitted estimator of this package to a file (by habit named ``*.npz``).

    ``notes`` are plain JSON values that travel beside the model; :func:`load` does not look at them.
    """
    name = type(model).__name__
    if problems.ESTIMATORS.get(name) != type(model).__module__:
        raise DataError(f"{name} is not an estimator of this package; save it by the means of its own")
    arrays: _Arrays = {}
    parameters = {key: _encode(value, key, arrays) for key, value in model._saved_parameters().items()}
    fitted = {key: _encode(value, key, arrays) for key, value in vars(model).items() if _is_fitted_name(key)}
    content = {"estimator": name, "parameters": parameters, "fitted": fitted}
    write_archive(path, content if notes is None else {**content, "notes": dict(notes)}, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator back; a damaged, foreign or hostile file is refused and nothing of it is executed."""
    return load_with_notes(path)[0]


def load_with_notes(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any] | None]:
    """The estimator of a file, and the notes beside it, if there are any; what the notes say is not checked here."""
    content, arrays = read_archive(path)
    notes = content.get("notes")
    if notes is not None and not isinstance(notes, dict):
        raise DataError(f"{path} has notes that are a {type(notes).__name__}, not a mapping")
    name = content.get("estimator")
    if not isinstance(name, str) or name not in problems.ESTIMATORS:
        raise DataError(f"{path} holds a {name!r}, which this package does not know")
    parameters, fitted = content.get("parameters"), content.get("fitted")
    estimator = getattr(import_module(problems.ESTIMATORS[name]), name)
    if not isinstance(parameters, dict) or not isinstance(fitted, dict):
        raise DataError(f"{path} lacks the parameters or the fitted attributes of a {name}")
    known = set(estimator().get_params(deep=False))
    if set(parameters) != known:
        raise DataError(f"{path} has parameters {sorted(parameters)} where a {name} has {sorted(known)}")
    refused = [key for key in fitted if not _is_fitted_name(key) or hasattr(estimator, key)]
    if refused:
        raise DataError(f"{path} sets attributes {refused}, which no fit sets")
    try:
        model = estimator(**{key: _decode(value, arrays) for key, value in parameters.items()})
        for key, value in fitted.items():
            setattr(model, key, _decode(value, arrays))
        model._check_loaded()
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, SubstrateError):
            raise
        raise DataError(f"{path} does not describe a {name}: {error!r}") from error
    return model, notes


def _is_fitted_name(key: str) -> bool:
    return key.isidentifier() and key.endswith("_") and not key.startswith("_")


def _encode(value: Any, name: str, arrays: _Arrays) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    value = to_numpy(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray):
        arrays[name] = _text(value, name) if value.dtype.kind == "O" else value
        return {"kind": "text" if value.dtype.kind == "O" else "array", "name": name}
    if is_sparse(value):
        matrix = value.tocsr()
        for part in ("data", "indices", "indptr"):
            arrays[f"{name}.{part}"] = getattr(matrix, part)
        return {"kind": "sparse", "name": name, "shape": list(matrix.shape)}
    if isinstance(value, Foreign):
        raise DataError(f"the kernel {value!r} is somebody's function and cannot be saved; use kernels of this package")
    if isinstance(value, Kernel):
        inside = {field.name: _encode(getattr(value, field.name), field.name, arrays) for field in fields(value)}
        return {"kind": "kernel", "class": type(value).__name__, "fields": inside}
    if isinstance(value, Record):
        inside = {f.name: _encode(getattr(value, f.name), f"{name}.{f.name}", arrays) for f in fields(value)}  # type: ignore[arg-type]
        return {"kind": "record", "class": type(value).__name__, "fields": inside}
    if isinstance(value, Certificate):
        rows = [[row.name, row.value, row.scale, row.tolerance, row.formula] for row in value.rows]
        return {"kind": "certificate", "title": value.title, "rows": rows, "record": [list(f) for f in value.record]}
    if isinstance(value, dict):
        pairs = [
            [_encode(key, f"{name}.{k}.key", arrays), _encode(item, f"{name}.{k}", arrays)]
            for k, (key, item) in enumerate(value.items())
        ]
        return {"kind": "mapping", "items": pairs}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"kind": kind, "items": [_encode(item, f"{name}.{k}", arrays) for k, item in enumerate(value)]}
    raise DataError(f"{name} is a {type(value).__name__} ({value!r}) and cannot be saved; use plain values and kernels")


def _text(values: NDArray[Any], name: str) -> NDArray[Any]:
    if not all(isinstance(value, str) for value in values.ravel()):
        raise DataError(f"{name} holds Python objects that are not text; convert the labels to text or numbers first")
    return values.astype(np.str_)


def _decode(value: Any, arrays: _Arrays) -> Any:
    if not isinstance(value, dict):
        return value
    return _DECODERS[value["kind"]](value, arrays)


def _sparse(value: Any, arrays: _Arrays) -> Any:
    from scipy.sparse import csr_matrix

    parts = tuple(arrays[f"{value['name']}.{part}"] for part in ("data", "indices", "indptr"))
    if any(part.dtype.kind not in "iu" for part in parts[1:]):
        raise DataError(f"the indices of the sparse matrix {value['name']!r} are not integers")
    matrix = csr_matrix(parts, shape=tuple(value["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _kernel(value: Any, arrays: _Arrays) -> Kernel:
    known = {name: getattr(kernels, name) for name in kernels.__all__}
    kernel = known.get(value["class"])
    if not (isinstance(kernel, type) and issubclass(kernel, Kernel)) or kernel in (Kernel, Foreign):
        raise DataError(f"there is no kernel named {value['class']!r}")
    made: Kernel = kernel(**{key: _decode(inner, arrays) for key, inner in value["fields"].items()})
    return made


def _record(value: Any, arrays: _Arrays) -> Record:
    known = RECORDS.get(value["class"])
    if known is None:
        raise DataError(f"there is no record named {value['class']!r}")
    return known(**{key: _decode(inner, arrays) for key, inner in value["fields"].items()})


def _certificate(value: Any, arrays: _Arrays) -> Certificate:
    rows = tuple(
        Row(str(name), float(number), float(scale), float(tolerance), str(formula))
        for name, number, scale, tolerance, formula in value["rows"]
    )
    return Certificate(str(value["title"]), rows, tuple((str(name), str(fact)) for name, fact in value["record"]))


def _items(value: Any, arrays: _Arrays) -> list[Any]:
    return [_decode(item, arrays) for item in value["items"]]


_DECODERS: dict[str, Callable[[Any, _Arrays], Any]] = {
    "array": lambda value, arrays: arrays[value["name"]],
    "text": lambda value, arrays: arrays[value["name"]].astype(object),
    "sparse": _sparse,
    "kernel": _kernel,
    "record": _record,
    "certificate": _certificate,
    "list": _items,
    "tuple": lambda value, arrays: tuple(_items(value, arrays)),
    "mapping": lambda value, arrays: {_decode(k, arrays): _decode(v, arrays) for k, v in value["items"]},
}
