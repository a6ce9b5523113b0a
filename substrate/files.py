"""Files of fitted machines: plain arrays and a JSON header in one zip, readable as npz, without pickle.

A file holds one ``.npy`` member per array and ``header.json``. What a file may hold are numbers, text, arrays, sparse
matrices, sequences, mappings, kernels, estimators and the frozen dataclasses that are declared by :func:`stored`, whose
fields are checked by their annotations. Classes are looked up by name in these lists, never by an import path from the
file, and functions are refused.

Reading trusts nothing. Members are stored and not compressed, so that what they take is bounded by the size of the
file; the list of members is counted by its size, and the header by its bytes, brackets, commas and colons, before
either is parsed; sparse matrices and the number of features are counted by their announced sizes. Arrays of objects
cannot occur, and every array belongs to one value. JSON is read strictly: no key occurs twice, and integers have at
most 64 bits.

Writing goes to a temporary name and is renamed at the end, after the file has been read back: a file is whole or
absent, and what cannot be loaded is not saved. The same contents give the same bytes. A digest shows whether a file was
changed after it was written, and such a file is refused. It protects against accidents, not against adversaries, who
can write a new digest too.
"""

import hashlib
import io
import json
import math
import os
import re
import stat
import types
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from inspect import isabstract
from pathlib import Path
from typing import IO, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from substrate.arrays import is_sparse, to_numpy
from substrate.certificate import Accuracy, Certificate, Row
from substrate.errors import DataError, DeclarationError, SubstrateError
from substrate.kernels import Foreign
from substrate.values import Named, Value
from substrate.whole_file import writable_file, written_whole

__all__ = ["FORMAT", "OUTSIDE", "VERSION", "load", "matches", "save", "store_as", "stored"]

FORMAT = "lssvm-substrate model"
#: The version that is written, and the only one that is read.
VERSION = 3
#: Parameters of estimators that act outside the model, or are functions, and are in no file.
OUTSIDE = frozenset(("n_jobs", "verbose", "build"))

#: Default limit of the bytes that a file may take in memory, or four times its own size if that is more.
_LEAST_LIMIT = 2**30
_HEADER = "header.json"
#: Bytes in memory per byte of JSON, and what each mark of it adds at most; per byte of the list of members, whose
#: shortest entry has 46 bytes and makes an object of 400; of a feature, with copies of it.
_JSON_GROWS, _MEMBERS_GROW, _FEATURE = 8, 16, 32
_JSON_MARKS = {b"{": 160, b"[": 112, b",": 56, b":": 160, b'"': 24}
#: Kinds of dtype that a file may hold: floats, integers, booleans, text.
_KINDS = "fiubU"
_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_NAME = re.compile(r"\w[\w-]*(\.[\w-]+)*", re.ASCII)
#: Letters of a message that a file can choose.
_LONGEST = 500
_SPARSE_PARTS = ("data", "indices", "indptr")
#: Kernels that make sparse rows dense.
_DENSE = {"Laplacian", "Matern", "PowerExponential"}


Arrays = dict[str, NDArray[Any]]
#: From the name of an estimator to its class; None for a name that is unknown.
Estimators = Callable[[str], Any]
_Class = TypeVar("_Class", bound=type)

#: The frozen dataclasses that a file may name, besides kernels, losses and other values that are parameters.
_STORED: dict[str, type] = {kind.__name__: kind for kind in (Accuracy, Certificate, Row)}
#: Classes that are written as another one, which has the methods ``of`` and ``restore``.
_WRITTEN_AS: dict[type, Any] = {}


def stored(kind: _Class) -> _Class:
    """Let files hold a frozen dataclass, whose annotations say what its fields may be."""
    _STORED[kind.__name__] = kind
    return kind


def store_as(kind: type, record: Any) -> None:
    """Let files hold a class as a ``record`` of it, made by ``record.of(value)`` and read by ``record.restore()``."""
    _WRITTEN_AS[kind] = stored(record)


def _find(name: Any) -> Any:
    """Return the class of a frozen value by its name, None for an unknown one."""
    return (_STORED.get(name) or Named.kinds.get(name)) if isinstance(name, str) else None


# ---- values as JSON and arrays -----------------------------------------------------------------------------------


class _Writer:
    """Makes JSON of a value; its arrays, and the classes of its estimators, by name."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self.classes: dict[str, type] = {}

    def encode(self, value: Any, name: str) -> Any:
        """Return JSON for a value; its arrays are kept under a name that begins with ``name``."""
        if value is None or isinstance(value, (bool, str)):
            return str(value) if isinstance(value, str) else value
        value = to_numpy(value)
        if isinstance(value, (bool, int, float, np.generic)) and np.asarray(value).dtype.kind in "biuf":
            return value.item() if isinstance(value, np.generic) else value
        value = _WRITTEN_AS[type(value)].of(value) if type(value) in _WRITTEN_AS else value
        if isinstance(value, np.ndarray):
            return {"kind": "text" if value.dtype.kind == "O" else "array", "name": self._keep(name, value)}
        if is_sparse(value):
            matrix = value.tocsr()
            for part in _SPARSE_PARTS:
                self._keep(f"{name}.{part}", getattr(matrix, part))
            return {"kind": "sparse", "name": name, "shape": list(matrix.shape)}
        if isinstance(value, Mapping):
            items = [
                [self.encode(key, f"{name}.{k}.key"), self.encode(item, f"{name}.{k}")]
                for k, (key, item) in enumerate(value.items())
            ]
            return {"kind": "mapping", "items": items}
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {"kind": kind, "items": [self.encode(item, f"{name}.{k}") for k, item in enumerate(value)]}
        if isinstance(value, (Foreign, types.FunctionType)):
            raise DataError(
                f"{name} {value!r} is a function and cannot be saved; use kernels and values of this package"
            )
        if _find(type(value).__name__) is type(value):
            inside = {f.name: self.encode(getattr(value, f.name), f"{name}.{f.name}") for f in fields(value)}
            return {"kind": "value", "class": type(value).__name__, "fields": inside}
        if type(value).__module__.startswith("problems.") and hasattr(value, "get_params"):
            prefix = f"{name}." if name else ""
            self.classes[type(value).__name__] = type(value)
            parts: dict[str, Any] = {"kind": "estimator", "class": type(value).__name__}
            for part, values in (("parameters", _parameters(value)), ("fitted", _fitted(value))):
                parts[part] = {key: self.encode(inner, f"{prefix}{key}") for key, inner in values.items()}
            return parts
        raise DataError(
            f"{name or 'this'} is a {type(value).__name__} ({value!r}) and cannot be saved; use plain values, kernels "
            "and estimators of this package"
        )

    def _keep(self, name: str, array: NDArray[Any]) -> str:
        """Put an array among the others and return its name."""
        if array.dtype.kind == "O" and all(isinstance(text, str) for text in array.ravel()):
            array = array.astype(np.str_)
        if array.dtype.kind == "O":
            raise DataError(
                f"{name} holds Python objects that are not text; convert the labels to text or numbers first"
            )
        if array.dtype.kind not in _KINDS:
            raise DataError(f"an array of dtype {array.dtype} ({name}) cannot be saved without pickle")
        if name in self.arrays:
            raise DataError(f"two arrays of this model would both be named {name!r}, and one would be lost")
        self.arrays[name] = array
        return name


def _parameters(estimator: Any) -> dict[str, Any]:
    return {key: value for key, value in estimator.get_params(deep=False).items() if key not in OUTSIDE}


def _fitted(estimator: Any) -> dict[str, Any]:
    """Return the attributes that a fit has set: names with an underscore at the end, and further ones of the
    estimator.
    """
    attributes = {key: value for key, value in vars(estimator).items() if _is_fitted_name(key)}
    further: dict[str, Any] = getattr(estimator, "_further_attributes", dict)()
    return attributes | further


def _is_fitted_name(name: str) -> bool:
    return name.isidentifier() and name.endswith("_") and not name.startswith("_")


class _Reader:
    """Makes values of JSON and the arrays of a file; no array is used twice."""

    def __init__(self, arrays: Arrays, estimators: Estimators) -> None:
        self.arrays = arrays
        self.estimators = estimators

    def decode(self, value: Any) -> Any:
        """Return the value that JSON encodes."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if not isinstance(value, dict):
            raise DataError(f"a value is a {type(value).__name__} without its kind")
        kind = value["kind"]
        if kind in ("list", "tuple"):
            items = [self.decode(item) for item in value["items"]]
            return items if kind == "list" else tuple(items)
        if kind == "mapping":
            return {self.decode(key): self.decode(item) for key, item in value["items"]}
        if kind == "estimator":
            return self._estimator(value)
        if kind == "value":
            return self._value(value)
        if kind == "sparse":
            return self._sparse(value)
        if kind not in ("array", "text"):
            raise DataError(f"there is no kind of value named {kind!r}")
        array = self._take(value["name"])
        return array.astype(object) if kind == "text" else array

    def _take(self, name: Any) -> NDArray[Any]:
        if name not in self.arrays:
            raise DataError(f"the array {name!r} is missing, or belongs to two values")
        return self.arrays.pop(name)

    def _sparse(self, value: dict[str, Any]) -> Any:
        from scipy.sparse import csr_matrix

        parts = tuple(self._take(f"{value['name']}.{part}") for part in _SPARSE_PARTS)
        if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in parts[1:]):
            raise DataError(f"the indices of the sparse matrix {value['name']!r} are not integers")
        matrix = csr_matrix(parts, shape=_shape(value))
        matrix.check_format(full_check=True)
        return matrix

    def _value(self, value: dict[str, Any]) -> Any:
        """Return a frozen value; kernels and other parameters check their fields themselves."""
        kind = _find(value["class"])
        if kind is None or kind is Foreign or isabstract(kind):
            raise DataError(f"there is no kernel or record named {value['class']!r}")
        inside = {key: self.decode(inner) for key, inner in value["fields"].items()}
        if not issubclass(kind, Value):
            for key, annotation in _annotations(kind).items():
                if key in inside and not matches(inside[key], annotation):
                    raise DataError(f"{key} of a {kind.__name__} cannot be {_short(repr(inside[key]))}")
        record = kind(**inside)
        if isinstance(record, Certificate):
            texts = [record.title, *(text for fact in record.record for text in fact)]
            texts += [text for row in record.rows for text in (row.name, row.formula)]
            if not all(text.isprintable() for text in texts):
                raise DataError("a certificate must be made of printable words, which no terminal would act on")
        return record.restore() if hasattr(record, "restore") else record

    def _estimator(self, value: dict[str, Any]) -> Any:
        name, parameters, fitted = value["class"], value["parameters"], value["fitted"]
        estimator = self.estimators(name) if isinstance(name, str) else None
        if estimator is None:
            raise DataError(f"it holds a {_short(repr(name))}, which this package does not know")
        if not isinstance(parameters, dict) or not isinstance(fitted, dict):
            raise DataError(f"it lacks the parameters or the fitted attributes of a {name}")
        expected = set(estimator().get_params(deep=False)) - OUTSIDE
        if set(parameters) != expected:
            raise DataError(
                f"it has parameters {_short(repr(sorted(parameters)))} where a {name} has {sorted(expected)}"
            )
        if refused := [key for key in fitted if not _is_fitted_name(key)]:
            raise DataError(f"it sets attributes {_short(repr(refused))}, which no fit sets")
        annotations = _annotations(estimator)
        model = estimator(**{key: self.decode(inner) for key, inner in parameters.items()})
        for key in fitted:
            setattr(model, key, self.decode(fitted[key]))
        for key in (*parameters, *fitted):
            if key in annotations and not matches(getattr(model, key), annotations[key]):
                raise DataError(f"{key} of a {name} cannot be {_short(repr(getattr(model, key)))}")
        if hasattr(model, "_check_loaded"):
            model._check_loaded()
        return model


@cache
def _annotations(kind: type) -> dict[str, Any]:
    """Return the types that a class states for its fields."""
    return get_type_hints(kind)


def matches(value: Any, annotation: Any) -> bool:
    """Return whether a value is of an annotated type; numbers are finite or not, and whole ones are numbers too."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any or (origin is None and not isinstance(annotation, type)):
        return True
    if origin in (Union, types.UnionType):
        return any(matches(value, argument) for argument in arguments)
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in arguments)
    if origin is tuple:
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) and isinstance(value, tuple) else arguments
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(matches, value, kinds))
    if annotation in (int, float) and isinstance(value, bool):
        return False
    if annotation is float:
        return isinstance(value, (int, float))
    if hasattr(origin, "__value__"):  # an alias of a type, as numpy's NDArray is from its release 2.5 on
        return matches(value, origin.__value__)
    return isinstance(value, origin or annotation)


# ---- files -------------------------------------------------------------------------------------------------------


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write a value to a file (usually named ``*.npz``); an existing one is replaced only by a complete one.

    The file is read back before it appears: what cannot be loaded is not saved.
    """
    name, writer = type(value).__name__, _Writer()
    writable_file(path)
    content = writer.encode(value, "" if hasattr(value, "get_params") else "value")
    with written_whole(path) as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            sums = {}
            for member, array in writer.arrays.items():
                buffer = io.BytesIO()
                npy.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
                sums[member] = _sum(buffer.getbuffer())
                archive.writestr(_member(f"{member}.npy"), buffer.getbuffer())
            header = {"format": FORMAT, "version": VERSION, "content": content, "digest": _digest(content, sums)}
            archive.writestr(_member(_HEADER), json.dumps(header, allow_nan=True))
        stream.flush()
        try:
            _read(stream, math.inf, writer.classes.get)
        except Exception as error:
            raise DataError(
                f"this {name} is not saved, because {path} could not be loaded again: {error}; correct it and refit"
            ) from error


def load(path: str | os.PathLike[str], estimators: Estimators | None = None, max_bytes: float | None = None) -> Any:
    """Return the value of a file, or an error that states what is wrong with it.

    ``estimators`` finds the classes of estimators by name. ``max_bytes`` limits what the file may take in memory; None
    is 1 GiB, or four times the size of the file if that is more.
    """
    limit = _limit(Path(path), max_bytes)
    try:
        with Path(path).open("rb") as stream:
            return _read(stream, limit, estimators or dict[str, Any]().get)
    except SubstrateError as error:
        raise DataError(f"{path} is refused: {_short(str(error))}") from error
    except Exception as error:  # all that the standard readers raise on a file that is not what it claims to be
        raise DataError(f"{path} is not a model file, or is damaged: {_short(repr(error))}") from error


def _limit(source: Path, max_bytes: float | None) -> float:
    try:
        status = source.stat()
    except FileNotFoundError as error:
        raise DataError(f"there is no file {source}; substrate fit --out, or save() in Python, writes one") from error
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{source} is a folder; name the model file in it")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{source} is no regular file, and reading it might never end; copy the model into a file")
    if max_bytes is None:
        return max(_LEAST_LIMIT, 4 * status.st_size)
    if isinstance(max_bytes, (bool, str)) or not max_bytes > 0:
        raise DeclarationError(f"max_bytes must be a positive number of bytes, or None; received {max_bytes!r}")
    return max_bytes


def _read(stream: IO[bytes], limit: float, estimators: Estimators) -> Any:
    """Return the value of a file whose digest matches."""
    size, reader = stream.seek(0, os.SEEK_END), cast(Any, zipfile)
    record = reader._EndRecData(stream)  # by which zipfile itself reads the list; it refuses a file without one
    needed = _refuse_beyond(limit, _MEMBERS_GROW * record[reader._ECD_SIZE] if record else 0)
    with zipfile.ZipFile(stream) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise DataError("a member occurs twice")
        for info in members.values():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise DataError(f"member {info.filename[:100]!r} is compressed")
        if sum(info.file_size for info in members.values()) > size:
            raise DataError(f"its members are larger together than its {size} bytes")
        if _HEADER not in members:
            raise DataError(f"it has no {_HEADER}, so this package did not write it")
        needed = _refuse_beyond(limit, needed + _JSON_GROWS * members[_HEADER].file_size)
        data = archive.read(_HEADER)
        needed += sum(grows * data.count(mark) for mark, grows in _JSON_MARKS.items())
        _refuse_beyond(limit, needed)
        header = _read_header(data)
        content = header["content"]
        announced = _bytes_announced(content)
        _refuse_beyond(limit, 2 * needed + announced + size)
        arrays, sums = {}, {}
        for member in members:
            if member != _HEADER:
                name = member.removesuffix(".npy")
                if not (member.endswith(".npy") and _NAME.fullmatch(name)):
                    raise DataError(f"a member is named {member[:100]!r}, which is no plain name of an array")
                stored_array = archive.read(member)
                sums[name], arrays[name] = _sum(stored_array), _read_array(stored_array, name)
    if header["digest"] != _digest(content, sums):
        raise DataError("it was changed after it was written, so its digest does not match; save the model again")
    value = _Reader(arrays, estimators).decode(content)
    if arrays:
        raise DataError(f"the arrays {sorted(arrays)[:5]} belong to nothing")
    return value


def _refuse_beyond(limit: float, needed: float) -> float:
    """Return the memory that a file needs, or refuse a file that needs more than allowed."""
    if needed > limit:
        raise DataError(
            f"it would take {needed:.0f} bytes of memory, and {limit:.0f} are allowed; give a larger max_bytes if you "
            "trust it"
        )
    return needed


def _read_header(data: bytes) -> dict[str, Any]:
    """Return the header, parsed strictly."""
    header = json.loads(data.decode("utf-8"), parse_int=_integer, object_pairs_hook=_mapping)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"its header does not name {FORMAT!r}")
    version = header.get("version")
    if type(version) is not int or version != VERSION:
        raise DataError(
            f"it has format version {_short(repr(version))} and this package reads version {VERSION}; load it with the "
            "release that wrote it, or fit and save again"
        )
    if not isinstance(header.get("content"), dict) or not isinstance(header.get("digest"), str):
        raise DataError("its header lacks the content or the digest")
    return header


def _integer(digits: str) -> int:
    # by the length first: Python is slow on long numbers, and raises a different error
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise DataError(f"an integer of {len(digits.lstrip('-'))} digits does not fit into 64 bits")
    return int(digits)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise DataError(f"a key occurs twice among {_short(repr(sorted(mapping)))}")
    return mapping


def _bytes_announced(tree: Any) -> int:
    """Return the memory that sparse matrices and numbers of features will take, before they are read."""
    shapes, widths, dense, waiting = [], [0], False, [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            dense = dense or str(node.get("class")) in _DENSE
            if node.get("kind") == "sparse":
                shapes.append(_shape(node))
            fitted = node.get("fitted")
            features = fitted.get("n_features_in_") if isinstance(fitted, dict) else None
            widths.append(features if type(features) is int else 0)
        waiting.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
    width = max([*widths, *(columns for _, columns in shapes)])
    return _FEATURE * (width + sum(columns * (rows if dense else 1) for rows, columns in shapes))


def _shape(node: dict[str, Any]) -> tuple[int, int]:
    shape = node.get("shape")
    if not isinstance(shape, list) or len(shape) != 2 or not all(type(n) is int and n >= 0 for n in shape):
        raise DataError(f"a sparse matrix announces the shape {_short(repr(shape))}; two lengths are needed")
    return shape[0], shape[1]


def _read_array(data: bytes, name: str) -> NDArray[Any]:
    """Return an array from the bytes of its member, all of which it takes."""
    stream = io.BytesIO(data)
    try:
        shape, is_by_columns, dtype = _HEADER_READERS[npy.read_magic(stream)](stream)
        if dtype.kind not in _KINDS or dtype.hasobject or not dtype.itemsize:
            raise ValueError(f"its dtype is {dtype}")
        values = np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if is_by_columns else "C")
    except Exception as error:
        raise DataError(f"the array {name!r} is not what it announces: {_short(repr(error))}") from error
    return values.copy()


def _short(text: str) -> str:
    """Return as much of a text from a file as a message can hold."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _member(name: str) -> zipfile.ZipInfo:
    """Return an entry without a date: the same model gives the same bytes, and a file does not say when it was made."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o600 << 16
    return entry


def _sum(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _digest(content: Any, sums: Mapping[str, str]) -> str:
    described = json.dumps([VERSION, content, sums], sort_keys=True, allow_nan=True)
    return _sum(described.encode("utf-8"))
