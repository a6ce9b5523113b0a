"""Model files: plain arrays and a JSON header in one zip, readable as npz, written and read without pickle.

A file holds one ``.npy`` member per array and ``header.json``. Reading trusts nothing: the header's format and
version, and every member's name, size, dtype and shape are checked, and what all of it needs in memory is added up,
before an array is read; compressed members are refused, so a small file cannot unpack into a large one; object arrays
cannot occur. What describes the rest is counted before it is read too: the list of members at the end of the file by
its size, the header by its bytes, and by its brackets, commas and colons before it is parsed.

Writing goes to a temporary name and is renamed at the end, so a file is either whole or absent; the same contents give
the same bytes.

The header carries a digest of the rest, which distinguishes a file as it was written from one that was changed later.
It protects against accidents, not against adversaries, who can write a new digest too.

JSON is read strictly, so that no two readers can understand a header differently and none needs more than its text.
Refused are keys that occur twice, of which readers keep one or the other; integers that do not fit into 64 bits;
excessive nesting; and bytes that are not UTF-8. NaN and Infinity, which Python writes, are read; the caller decides
where they are allowed.
"""

import hashlib
import io
import json
import math
import operator
import os
import re
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from substrate.errors import DataError, DeclarationError
from substrate.whole_file import written_whole

__all__ = ["FORMAT", "VERSION", "Archive", "read_archive", "write_archive"]

FORMAT = "lssvm-substrate model"
#: The version that is written, and the only one that is read.
VERSION = 2

#: Default limit of the bytes that a file may take in memory, or four times its own size if that is more.
LEAST_LIMIT = 2**30

_HEADER = "header.json"
_LARGEST_ARRAY_HEADER = 64 * 1024
#: The deepest nesting of JSON, and its largest integer, whose negative is nearly the smallest.
_LARGEST_DEPTH, _LARGEST_INTEGER = 256, 2**63 - 1
#: Bytes in memory per text as an object, beside its letters.
_TEXT_OBJECT = 96
#: Bytes in memory per byte of JSON, whose letters are read, decoded to up to four bytes each, and written again for the
#: digest; and what each mark of it adds at most: a mapping, a list, an entry, a key, half a text. Measured on the
#: shapes that grow most, and rounded up by a third or more.
_JSON_GROWS = 8
_JSON_MARKS = {b"{": 160, b"[": 112, b",": 56, b":": 160, b'"': 24}
#: Bytes in memory per byte of the list of members, whose shortest entry has 46 bytes and makes an object of 400.
_MEMBERS_GROW = 16
#: The last record of a zip, without a comment; and the two before it where sizes or counts exceed 32 or 16 bits.
_END, _LOCATOR, _END_64 = (struct.Struct(form) for form in ("<4s4H2LH", "<4sLQL", "<4sQ2H2L4Q"))
#: The most dimensions of an array, and the longest description of its dtype.
_MOST_DIMENSIONS, _LONGEST_DTYPE = 32, 32
#: Letters of a message that a file can choose.
_LONGEST_REASON = 500
#: Kinds of dtype a model may hold: floats, integers, booleans, text.
_KINDS = "fiubU"
_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_NAME = re.compile(r"\w[\w-]*(\.[\w-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Archive:
    """The contents of a file. ``as_written`` is whether the digest matches."""

    content: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    as_written: bool


#: Called before arrays are read, with the header's content and the arrays' names; returns the bytes needed besides.
Plan = Callable[[dict[str, Any], set[str]], int]


def write_archive(
    path: str | os.PathLike[str],
    content: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    check: Callable[[Archive], None] | None = None,
) -> None:
    """Write a header's content and arrays; an existing file is replaced only by a complete one.

    ``check`` is called with the contents of the new file before it is renamed, and refuses them by raising.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise DataError(f"an array of dtype {array.dtype} ({name}) cannot be saved without pickle")
    schema = {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in arrays.items()}
    with written_whole(path) as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            sums = {}
            for name, array in arrays.items():
                buffer = io.BytesIO()
                npy.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
                sums[name] = _sum(buffer.getbuffer())
                archive.writestr(_member(f"{name}.npy"), buffer.getbuffer())
            header = {"format": FORMAT, "version": VERSION, "arrays": schema, "content": content}
            header["digest"] = _digest(schema, content, sums)
            archive.writestr(_member(_HEADER), json.dumps(header, allow_nan=True))
        if check is not None:
            stream.flush()
            check(_read_stream(Path(path), stream, math.inf, None))


def read_archive(path: str | os.PathLike[str], max_bytes: float | None = None, plan: Plan | None = None) -> Archive:
    """Return the contents of a file, or an error that states what is wrong with it.

    ``max_bytes`` limits what it may take in memory; None is 1 GiB, or four times the size of the file if that is more.
    """
    source = Path(path)
    limit = _limit(source, max_bytes)
    with source.open("rb") as stream:
        return _read_stream(source, stream, limit, plan)


def _limit(source: Path, max_bytes: float | None) -> float:
    try:
        status = source.stat()
    except FileNotFoundError as error:
        raise DataError(f"there is no file {source}; save() writes one") from error
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{source} is a folder; name the model file in it")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{source} is no regular file, and reading it might never end; copy the model into a file")
    if max_bytes is None:
        return max(LEAST_LIMIT, 4 * status.st_size)
    if isinstance(max_bytes, (bool, str)) or not max_bytes > 0:
        raise DeclarationError(f"max_bytes must be a positive number of bytes, or None; received {max_bytes!r}")
    return max_bytes


def _read_stream(source: Path, stream: IO[bytes], limit: float, plan: Plan | None) -> Archive:
    try:
        size = stream.seek(0, os.SEEK_END)
        listed = _MEMBERS_GROW * _bytes_of_list(source, stream, size)
        if listed > limit:
            _too_large(source, listed, limit)
        with zipfile.ZipFile(stream) as archive:
            return _read(source, archive, size, listed, limit, plan)
    except (DataError, MemoryError):
        raise
    except Exception as error:
        # all that the standard readers raise on a file that is not what it claims to be
        reason = _short(str(error))
        raise DataError(f"{source} is not a model file, or is damaged: {reason}") from error


def _bytes_of_list(source: Path, stream: IO[bytes], size: int) -> int:
    """Return the size of the list of members, which :mod:`zipfile` reads whole; refuse a file in which it is not clear.

    The list must end where the last records begin, and those must end the file: then every reader finds the same one.
    """
    end = size - _END.size
    if end < 0:
        raise zipfile.BadZipFile("File is not a zip file")
    stream.seek(end)
    signature, *_, length, offset, comment = _END.unpack(stream.read(_END.size))
    if signature != b"PK\5\6" or comment:
        raise zipfile.BadZipFile("File is not a zip file, or something follows it")
    place = end - _LOCATOR.size
    if place >= 0:
        stream.seek(place)
        signature, _, place_64, _ = _LOCATOR.unpack(stream.read(_LOCATOR.size))
        if signature == b"PK\6\7":
            end = place - _END_64.size
            if end < 0 or place_64 != end:
                _refuse(source, "its last records do not follow each other")
            stream.seek(end)
            signature, *_, length, offset = _END_64.unpack(stream.read(_END_64.size))
            if signature != b"PK\6\6":
                _refuse(source, "its last records do not follow each other")
    if offset + length != end:
        _refuse(source, f"its list of members has {length} bytes from {offset} on, and ends before {end}")
    return int(length)


def _read(source: Path, archive: zipfile.ZipFile, size: int, listed: int, limit: float, plan: Plan | None) -> Archive:
    """Return the contents of a file of ``size`` bytes, whose list of members takes ``listed`` bytes in memory."""
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()):
        _refuse(source, "a member occurs twice")
    for info in members.values():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            _refuse(source, f"member {info.filename[:100]!r} is compressed")
    if sum(info.file_size for info in members.values()) > size:
        _refuse(source, f"its members are larger together than its {size} bytes")
    header, described = _header(source, archive, members, listed, limit)
    schema, content = header["arrays"], header["content"]
    for name in schema:
        if not _NAME.fullmatch(name):
            _refuse(source, f"an array is named {name[:100]!r}, which is no plain name")
    expected = {f"{name}.npy" for name in schema} | {_HEADER}
    if set(members) != expected:
        unexpected = sorted(set(members) ^ expected)
        more = f" and {len(unexpected) - 5} more" if len(unexpected) > 5 else ""
        _refuse(source, f"members {unexpected[:5]}{more} are missing or not announced")
    announced = {
        name: _read_announcement(source, members[f"{name}.npy"].file_size, name, schema[name]) for name in schema
    }
    described = listed + 2 * described  # as it was parsed, and as the values that are made of it
    _check_size(source, members, announced, header, described, limit, plan)
    arrays, sums = {}, {}
    for name, form in announced.items():
        # Stored members are no larger than the file, and reading one whole checks its sum before anything is parsed.
        data = archive.read(f"{name}.npy")
        sums[name] = _sum(data)
        arrays[name] = _array(source, io.BytesIO(data), name, *form)
    return Archive(content, arrays, header["digest"] == _digest(schema, content, sums))


def _refuse(source: Path, reason: str) -> NoReturn:
    raise DataError(f"{source} is refused: {_short(reason)}; save the model again from a trusted source")


def _short(reason: str) -> str:
    """Return what a message can hold of a text that comes from a file."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."


def _header(
    source: Path, archive: zipfile.ZipFile, members: Mapping[str, Any], listed: int, limit: float
) -> tuple[dict[str, Any], int]:
    """Return the header, and the bytes that it takes in memory, counted before it is parsed."""
    if _HEADER not in members:
        _refuse(source, f"it has no {_HEADER}, so this package did not write it")
    size = members[_HEADER].file_size
    needed = _JSON_GROWS * size
    if listed + needed > limit:
        _too_large(source, listed + needed, limit)
    data = archive.read(_HEADER)
    needed += sum(grows * data.count(mark) for mark, grows in _JSON_MARKS.items())
    if listed + needed > limit:
        _too_large(source, listed + needed, limit)
    header = _read_json(data, f"the header of {source}")
    del data
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        _refuse(source, f"its header does not name {FORMAT!r}")
    version = header.get("version")
    if type(version) is not int or version != VERSION:
        raise DataError(
            f"{source} has format version {_short(repr(version))} and this package reads version {VERSION}; load it "
            "with the release that wrote it, or fit and save again"
        )
    if not isinstance(header.get("arrays"), dict) or not isinstance(header.get("content"), dict):
        _refuse(source, "its header lacks the arrays or the content")
    if not isinstance(header.get("digest"), str):
        _refuse(source, "its header lacks the digest")
    return header, needed


def _read_announcement(source: Path, size: int, name: str, announced: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    try:
        described = str(announced["dtype"])
        if len(described) > _LONGEST_DTYPE or len(announced["shape"]) > _MOST_DIMENSIONS:
            raise ValueError(f"more than {_LONGEST_DTYPE} letters of dtype, or {_MOST_DIMENSIONS} dimensions")
        dtype = np.dtype(described)
        shape = tuple(operator.index(length) for length in announced["shape"])
        if any(isinstance(length, bool) for length in announced["shape"]):
            raise TypeError("a length is a truth value")
    except Exception as error:
        raise DataError(f"{source} announces the array {name!r} badly: {_short(repr(error))}") from error
    # numpy turns empty text into letters, so an item without bytes would still take some
    if dtype.kind not in _KINDS or dtype.hasobject or not dtype.itemsize or any(length < 0 for length in shape):
        _refuse(source, f"array {name!r} announces dtype {dtype} and shape {shape}")
    n_bytes = dtype.itemsize * math.prod(shape)
    if not n_bytes <= size <= n_bytes + _LARGEST_ARRAY_HEADER:
        _refuse(source, f"array {name!r} announces {n_bytes} bytes and its member has {size}")
    return dtype, shape


def _check_size(
    source: Path,
    members: Mapping[str, Any],
    announced: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
    header: dict[str, Any],
    described: int,
    limit: float,
    plan: Plan | None,
) -> None:
    """Add up, before any array is read, what the file will take: an empty array counts by its other lengths."""
    needed = described + max(info.file_size for info in members.values())
    for dtype, shape in announced.values():
        count = math.prod(max(length, 1) for length in shape)
        needed += count * (dtype.itemsize + (_TEXT_OBJECT if dtype.kind == "U" else 0))
    if plan is not None and needed <= limit:
        needed += plan(header["content"], set(announced))
    if needed > limit:
        _too_large(source, needed, limit)


def _too_large(source: Path, needed: int, limit: float) -> NoReturn:
    raise DataError(
        f"{source} is refused: it would take {needed} bytes of memory, and {limit:.0f} are allowed; give a larger "
        "max_bytes if you trust it"
    )


def _array(source: Path, stream: io.BytesIO, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    found_shape, _, found_dtype = _HEADER_READERS[npy.read_magic(stream)](stream)
    if found_shape != shape or found_dtype != dtype:
        _refuse(source, f"array {name!r} is {found_dtype} {found_shape}, announced as {dtype} {shape}")
    stream.seek(0)
    return np.asarray(npy.read_array(stream, allow_pickle=False))


def _member(name: str) -> zipfile.ZipInfo:
    """Return an entry without a date: a file does not reveal when it was made, and the same model gives the same
    bytes.
    """
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o600 << 16
    return entry


def _sum(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _digest(schema: Any, content: Any, sums: Mapping[str, str]) -> str:
    described = json.dumps([VERSION, schema, content, sums], sort_keys=True, allow_nan=True)
    return _sum(described.encode("utf-8"))


def _read_json(data: bytes, name: str) -> Any:
    """Return the value; a refusal begins with the name of what was read."""
    try:
        value = json.loads(data.decode("utf-8"), parse_int=_integer, object_pairs_hook=_mapping)
    except RecursionError as error:
        raise DataError(f"{name} is damaged: it is nested beyond reason") from error
    except ValueError as error:
        raise DataError(f"{name} is damaged: {_short(str(error))}") from error
    _check_depth(value, name)
    return value


def _integer(digits: str) -> int:
    # by the length first: Python is slow on long numbers, and raises an error of its own
    if len(digits) > 20 or not -_LARGEST_INTEGER - 1 <= int(digits) <= _LARGEST_INTEGER:
        raise DataError(f"an integer of {len(digits.lstrip('-'))} digits does not fit into 64 bits")
    return int(digits)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys: set[str] = set()
        twice = next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]
        raise DataError(f"the key {twice[:100]!r} occurs twice")
    return mapping


def _check_depth(value: Any, name: str) -> None:
    level = [value]
    for _ in range(_LARGEST_DEPTH + 1):
        if not level:
            return
        inside = [
            container.values() if isinstance(container, dict) else container
            for container in level
            if isinstance(container, (dict, list))
        ]
        level = [inner for outer in inside for inner in outer]
    raise DataError(f"{name} is damaged: it is nested deeper than {_LARGEST_DEPTH} levels")
