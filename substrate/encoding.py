"""Values as JSON and arrays, and back: numbers, text, arrays, kernels, certificates, records and sequences.

Classes are looked up in the package's own lists of kernels and records, never by an import path from the file. Each
array belongs to one value: a file that refers to one twice is refused, as is one with an array without reference.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate import kernels
from substrate.arrays import is_sparse
from substrate.certificates import Accuracy, Certificate, Row
from substrate.certificates.rows import Distance
from substrate.errors import DataError
from substrate.kernels import Foreign, Kernel
from substrate.namespaces import to_numpy
from substrate.values import Record

__all__ = ["RECORDS", "Arrays", "bytes_needed", "check_kernels", "decode", "encode"]

#: The records that a file may name; packages above add theirs where they are defined.
RECORDS: dict[str, type[Record]] = {}

Arrays = dict[str, NDArray[Any]]

_SPARSE_PARTS = ("data", "indices", "indptr")
#: Kernels that create one object per column, and those that make sparse rows dense.
_BY_COLUMN, _DENSE = {"Componentwise"}, {"Laplacian", "Matern", "PowerExponential"}
#: Bytes of a number, including copies of it, and of a component's kernel.
_NUMBER, _COMPONENT = 32, 1024
#: Columns of a component up to which components are counted before a file is read.
_MOST_COLUMNS = 64
#: Evaluations of kernels without parts that one value of a kernel may take: so many, and more for every column, up to a
#: largest number.
_COST, _COST_BY_COLUMN, _LARGEST_COST = 1024, 64, 100_000


def encode(value: Any, name: str, arrays: Arrays) -> Any:
    """JSON for a value; arrays are put into ``arrays`` under a name that begins with ``name``."""
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    value = to_numpy(value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray):
        _keep(arrays, name, _text(value, name) if value.dtype.kind == "O" else value)
        return {"kind": "text" if value.dtype.kind == "O" else "array", "name": name}
    if is_sparse(value):
        matrix = value.tocsr()
        for field in _SPARSE_PARTS:
            _keep(arrays, f"{name}.{field}", getattr(matrix, field))
        return {"kind": "sparse", "name": name, "shape": list(matrix.shape)}
    if isinstance(value, Foreign):
        raise DataError(f"the kernel {value!r} is a function and cannot be saved; use kernels of this package")
    if isinstance(value, (Kernel, Record)):
        kind = "kernel" if isinstance(value, Kernel) else "record"
        inside = {f.name: encode(getattr(value, f.name), f"{name}.{f.name}", arrays) for f in fields(value)}  # type: ignore[arg-type]
        return {"kind": kind, "class": type(value).__name__, "fields": inside}
    if isinstance(value, Certificate):
        rows = [_written_row(row) for row in value.rows]
        return {"kind": "certificate", "title": value.title, "rows": rows, "record": [list(f) for f in value.record]}
    if isinstance(value, dict):
        pairs = [
            [encode(key, f"{name}.{k}.key", arrays), encode(item, f"{name}.{k}", arrays)]
            for k, (key, item) in enumerate(value.items())
        ]
        return {"kind": "mapping", "items": pairs}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"kind": kind, "items": [encode(item, f"{name}.{k}", arrays) for k, item in enumerate(value)]}
    raise DataError(f"{name} is a {type(value).__name__} ({value!r}) and cannot be saved; use plain values and kernels")


def _keep(arrays: Arrays, name: str, array: NDArray[Any]) -> None:
    if name in arrays:
        raise DataError(f"two arrays of this model would both be named {name!r}, and one would be lost")
    arrays[name] = array


def _text(values: NDArray[Any], name: str) -> NDArray[Any]:
    if not all(isinstance(value, str) for value in values.ravel()):
        raise DataError(f"{name} holds Python objects that are not text; convert the labels to text or numbers first")
    return values.astype(np.str_)


def bytes_needed(tree: Any, names: set[str], n_features: Any) -> int:
    """The memory of encoded values besides their arrays; refused unless each array belongs to one of them."""
    used: Counter[str] = Counter()
    classes: set[str] = set()
    order = 1
    shapes: list[tuple[int, int]] = []
    for node in _nodes(tree):
        kind = node.get("kind")
        if kind == "sparse":
            used.update(f"{node.get('name')}.{field}" for field in _SPARSE_PARTS)
            shapes.append(_shape(node))
        elif kind in ("array", "text"):
            used[str(node.get("name"))] += 1
        elif kind == "kernel":
            classes.add(str(node.get("class")))
            order = max(order, _order(node.get("fields")))
    if twice := [name for name, count in used.items() if count > 1]:
        raise DataError(f"the array {twice[0]!r} is used twice, and belongs to one value only")
    if names != set(used):
        raise DataError(f"the arrays {sorted(names ^ set(used))[:5]} are missing, or belong to nothing")
    dense = bool(classes & _DENSE)
    needed = sum(_NUMBER * columns * (rows if dense else 1) for rows, columns in shapes)
    width = n_features if isinstance(n_features, int) else 0
    if not classes & _BY_COLUMN:
        return needed + max(width, 0) * _NUMBER
    return needed + _COMPONENT * sum(comb(max(width, 0), size) for size in range(1, order + 1))


def check_kernels(values: Any, n_features: Any) -> None:
    """Refuse kernels whose values take longer than those of any sensible one, before the first is evaluated.

    Parts that are evaluated at mirrored points, one inside the other, double the time with every one of them.
    """
    width = n_features if isinstance(n_features, int) and n_features > 0 else 1
    most = min(_COST + _COST_BY_COLUMN * width, _LARGEST_COST)
    for kernel in _kernels_in(values):
        cost = kernel.cost(width)
        if cost > most:
            raise DataError(
                f"one value of the kernel {repr(kernel)[:200]} takes {cost:.3g} evaluations of its parts, and a model "
                f"file may hold kernels that take {most}; use fewer parts, and no mirrored kernel inside another"
            )


def _kernels_in(value: Any) -> Iterator[Kernel]:
    """Yield every kernel in nested values, but not the parts of one."""
    waiting = [value]
    while waiting:
        candidate = waiting.pop()
        if isinstance(candidate, Kernel):
            yield candidate
        elif isinstance(candidate, Record):
            waiting.extend(getattr(candidate, field.name) for field in fields(candidate))  # type: ignore[arg-type]
        elif isinstance(candidate, dict):
            waiting.extend(candidate.values())
        elif isinstance(candidate, (list, tuple)):
            waiting.extend(candidate)


def _order(fields_of_kernel: Any) -> int:
    """How many columns a component may have; far fewer than a number that would take long to count with."""
    order = fields_of_kernel.get("order", 1) if isinstance(fields_of_kernel, dict) else 1
    return min(order, _MOST_COLUMNS) if type(order) is int else 1


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in nested JSON."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, (list, tuple)):
            waiting.extend(node)


def _shape(node: dict[str, Any]) -> tuple[int, int]:
    shape = node.get("shape")
    if not isinstance(shape, list) or len(shape) != 2 or not all(type(n) is int and n >= 0 for n in shape):
        raise DataError(f"a sparse matrix announces the shape {shape!r}; two lengths are needed")
    return shape[0], shape[1]


def decode(value: Any, arrays: Arrays) -> Any:
    """The value that JSON and arrays encode."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if not isinstance(value, dict):
        raise DataError(f"a value is a {type(value).__name__} without its kind")
    decoder = _DECODERS.get(value["kind"]) if isinstance(value["kind"], str) else None
    if decoder is None:
        raise DataError(f"there is no kind of value named {value['kind']!r}")
    return decoder(value, arrays)


def _sparse(value: Any, arrays: Arrays) -> Any:
    from scipy.sparse import csr_matrix

    arrays_of_matrix = tuple(arrays[f"{value['name']}.{array}"] for array in _SPARSE_PARTS)
    if any(array.dtype.kind not in "iu" or array.ndim != 1 for array in arrays_of_matrix[1:]):
        raise DataError(f"the indices of the sparse matrix {value['name']!r} are not integers")
    matrix = csr_matrix(arrays_of_matrix, shape=_shape(value))
    matrix.check_format(full_check=True)
    return matrix


def _kernel(value: Any, arrays: Arrays) -> Kernel:
    classes = {name: getattr(kernels, name) for name in kernels.__all__}
    kernel = classes.get(value["class"])
    if not (isinstance(kernel, type) and issubclass(kernel, Kernel)) or kernel in (Kernel, Foreign):
        raise DataError(f"there is no kernel named {value['class']!r}")
    kernel_decoded: Kernel = kernel(**{key: decode(inner, arrays) for key, inner in value["fields"].items()})
    return kernel_decoded


def _record(value: Any, arrays: Arrays) -> Record:
    record_class = RECORDS.get(value["class"])
    if record_class is None:
        raise DataError(f"there is no record named {value['class']!r}")
    return record_class(**{key: decode(inner, arrays) for key, inner in value["fields"].items()})


def _written_row(row: Row) -> list[Any]:
    """The fields of a row; the outputs of an answer only where there are several."""
    values = [getattr(row, f.name) for f in fields(row)]
    if not isinstance(row, Accuracy):
        return values
    return [*values[:-1], *([[_written_row(output) for output in row.outputs]] if row.outputs else [])]


def _row(name: str, number: Any, scale: Any, tolerance: Any, formula: str, *accuracy: Any) -> Row:
    numbers = (float(number), float(scale), float(tolerance))
    if not accuracy:
        return Row(name, *numbers, formula)
    spread, *about = accuracy  # a row in units of y has one more field, that of the answer two or three
    if not about:
        return Distance(name, *numbers, formula, float(spread))
    outputs = tuple(_row(*output) for group in about[1:] for output in group)
    if not all(isinstance(output, Accuracy) for output in outputs):
        raise DataError(f"the outputs of the row {name!r} are not bounds of an answer")
    return Accuracy(name, *numbers, formula, float(spread), about[0], outputs)  # type: ignore[arg-type]


def _certificate(value: Any, arrays: Arrays) -> Certificate:
    rows = tuple(_row(*row) for row in value["rows"])
    return Certificate(value["title"], rows, tuple((name, fact) for name, fact in value["record"]))


def _items(value: Any, arrays: Arrays) -> list[Any]:
    return [decode(item, arrays) for item in value["items"]]


_DECODERS: dict[str, Callable[[Any, Arrays], Any]] = {
    "array": lambda value, arrays: arrays[value["name"]],
    "text": lambda value, arrays: arrays[value["name"]].astype(object),
    "sparse": _sparse,
    "kernel": _kernel,
    "record": _record,
    "certificate": _certificate,
    "list": _items,
    "tuple": lambda value, arrays: tuple(_items(value, arrays)),
    "mapping": lambda value, arrays: {decode(k, arrays): decode(v, arrays) for k, v in value["items"]},
}
