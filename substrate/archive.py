"""Model files: plain arrays and a JSON header in one zip, readable as npz, written and read without pickle.

A file holds ``header.json`` and one ``.npy`` member an array. Reading trusts nothing: the header's format and version,
and every member's name, size, dtype and shape are checked before an array is read; compressed members are refused, so
a small file cannot unpack into a large one; object arrays cannot occur. Writing goes to a temporary name and is renamed
at the end, so a file is either whole or absent.
"""

import io
import json
import math
import operator
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from substrate.errors import DataError
from substrate.whole_file import written_whole

__all__ = ["FORMAT", "VERSION", "read_archive", "write_archive"]

FORMAT = "lssvm-substrate model"
VERSION = 1

_HEADER = "header.json"
_LARGEST_HEADER = 16 * 1024 * 1024
_LARGEST_ARRAY_HEADER = 64 * 1024
#: Kinds of dtype a model may hold: floats, integers, booleans, text.
_KINDS = "fiubU"
_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def write_archive(path: str | os.PathLike[str], content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header's content and arrays; an existing file is replaced only by a complete one."""
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise DataError(f"an array of dtype {array.dtype} ({name}) cannot be saved without pickle")
    schema = {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in arrays.items()}
    header = {"format": FORMAT, "version": VERSION, "arrays": schema, "content": content}
    with written_whole(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_HEADER, json.dumps(header, allow_nan=True))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            npy.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
            archive.writestr(f"{name}.npy", buffer.getvalue())


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header's content and the arrays of a model file, or a refusal that says what is wrong with it."""
    source = Path(path)
    try:
        with zipfile.ZipFile(source) as archive:
            return _read(source, archive)
    except (DataError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:
        # whatever the standard readers stumble over in a file that is not what it claims to be
        raise DataError(f"{source} is not a model file, or is damaged: {error}") from error


def _read(source: Path, archive: zipfile.ZipFile) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()):
        _refuse(source, "a member occurs twice")
    for info in members.values():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            _refuse(source, f"member {info.filename!r} is compressed")
    schema, content = _header(source, archive, members)
    expected = {f"{name}.npy" for name in schema} | {_HEADER}
    if set(members) != expected:
        _refuse(source, f"members {sorted(set(members) ^ expected)} are missing or not announced")
    return content, {name: _array(source, archive, members, name, schema[name]) for name in schema}


def _refuse(source: Path, reason: str) -> NoReturn:
    raise DataError(f"{source} is refused: {reason}; save the model again from a trusted source")


def _header(
    source: Path, archive: zipfile.ZipFile, members: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    if _HEADER not in members:
        _refuse(source, f"it has no {_HEADER}, so this package did not write it")
    if members[_HEADER].file_size > _LARGEST_HEADER:
        _refuse(source, f"its header has {members[_HEADER].file_size} bytes")
    try:
        header = json.loads(archive.read(_HEADER).decode("utf-8"))
    except ValueError as error:
        raise DataError(f"{source} has a damaged header: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        _refuse(source, f"its header does not say {FORMAT!r}")
    if header.get("version") != VERSION:
        raise DataError(
            f"{source} has format version {header.get('version')!r} and this package reads version {VERSION}; "
            "load it with the release that wrote it, or fit and save again"
        )
    schema, content = header.get("arrays"), header.get("content")
    if not isinstance(schema, dict) or not isinstance(content, dict):
        _refuse(source, "its header lacks the arrays or the content")
    return schema, content


def _array(
    source: Path, archive: zipfile.ZipFile, members: Mapping[str, Any], name: str, announced: Any
) -> NDArray[Any]:
    try:
        dtype = np.dtype(str(announced["dtype"]))
        shape = tuple(operator.index(length) for length in announced["shape"])
    except Exception as error:
        raise DataError(f"{source} announces the array {name!r} badly: {error!r}") from error
    if dtype.kind not in _KINDS or dtype.hasobject or any(length < 0 for length in shape):
        _refuse(source, f"array {name!r} announces dtype {dtype} and shape {shape}")
    n_bytes = dtype.itemsize * math.prod(shape)
    size = members[f"{name}.npy"].file_size
    if not n_bytes <= size <= n_bytes + _LARGEST_ARRAY_HEADER:
        _refuse(source, f"array {name!r} announces {n_bytes} bytes and its member has {size}")
    # Stored members are no larger than the file, and reading one whole checks its sum before anything is parsed.
    stream = io.BytesIO(archive.read(f"{name}.npy"))
    found_shape, _, found_dtype = _HEADER_READERS[npy.read_magic(stream)](stream)
    if found_shape != shape or found_dtype != dtype:
        _refuse(source, f"array {name!r} is {found_dtype} {found_shape}, announced as {dtype} {shape}")
    stream.seek(0)
    return np.asarray(npy.read_array(stream, allow_pickle=False))
