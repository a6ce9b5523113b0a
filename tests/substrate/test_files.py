"""Model files: what is written is read back bit for bit, and nothing that is not whole and ours is read at all."""

import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import problems
import substrate
from substrate import files
from substrate.errors import DataError
from substrate.files import FORMAT, VERSION, load, save

ARRAYS = {
    "floats": np.random.default_rng(0).normal(size=(40, 17)),
    "single": np.linspace(0.0, 1.0, 5, dtype=np.float32),
    "big_endian": np.arange(4.0).astype(">f8"),
    "integers": np.arange(-3, 3).reshape(2, 3),
    "bytes": np.arange(5, dtype=np.uint8),
    "flags": np.array([True, False]),
    "text": np.array(["a", "ψ∘α", ""]),
    "empty": np.zeros((0, 3)),
    "cube": np.arange(24.0).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": np.arange(20.0)[::3],
    "extremes": np.array([np.inf, -np.inf, np.nan, 5e-324, -0.0]),
}
CONTENT = {"name": "x", "nested": {"list": [1, 2.5, None, True, "ψ"], "inf": float("inf")}}


def members_of(path):
    with zipfile.ZipFile(path) as stored:
        return {info.filename: stored.read(info) for info in stored.infolist()}


def write_members(path, members, compression=zipfile.ZIP_STORED):
    pairs = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(path, "w", compression) as stored:
        for name, data in pairs:
            stored.writestr(name, data)
    return path


def npy_bytes(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def header_of(arrays, **changes):
    items = [[name, {"kind": "array", "name": name}] for name in arrays]
    content = {"kind": "mapping", "items": [["arrays", {"kind": "mapping", "items": items}]]}
    return {"format": FORMAT, "version": VERSION, "content": content, "digest": "of something else"} | changes


def write(path, content, arrays):
    save({"content": content, "arrays": arrays}, path)


def contents(path, max_bytes=None):
    found = load(path, max_bytes=max_bytes)
    return found.get("content"), found["arrays"]


def forged(path, arrays, **changes):
    """A file by somebody else."""
    parts = {"header.json": json.dumps(header_of(arrays, **changes))}
    return write_members(path, parts | {f"{name}.npy": npy_bytes(array) for name, array in arrays.items()})


# ---- round trip ----------------------------------------------------------------------------------


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "model.npz"
    write(path, CONTENT, ARRAYS)
    content, arrays = contents(path)
    assert content == CONTENT
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype, name
        assert arrays[name].shape == array.shape, name
        assert_array_equal(arrays[name], array, err_msg=name)
    assert arrays["floats"].tobytes() == ARRAYS["floats"].tobytes()


# ---- a failing save ------------------------------------------------------------------------------


def interrupt(*_, **__):
    raise KeyboardInterrupt


def disk_full(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("where", "fault", "error"),
    [
        ("os.replace", disk_full, OSError),
        ("npy.write_array", disk_full, OSError),
        ("npy.write_array", interrupt, KeyboardInterrupt),
        ("json.dumps", interrupt, KeyboardInterrupt),
    ],
)
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, where, fault, error):
    path = tmp_path / "model.npz"
    write(path, {"old": True}, ARRAYS)
    before = path.read_bytes()
    module, name = where.split(".")
    with monkeypatch.context() as patched:
        patched.setattr(getattr(files, module), name, fault)
        with pytest.raises(error):
            write(path, {"new": True}, ARRAYS)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]
    write(path, {"new": True}, ARRAYS)
    assert contents(path)[0] == {"new": True}


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["a", 1], dtype=object), np.ones(2) * 1j, np.array(["2020"], "datetime64")]
)
def test_what_needs_pickle_is_refused_before_a_file_is_made(tmp_path, array):
    with pytest.raises(DataError, match=r"without pickle|not text"):
        write(tmp_path / "m.npz", {}, {"values": array})
    assert os.listdir(tmp_path) == []


# ---- damage --------------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "whole.npz"
    write(path, CONTENT, {name: ARRAYS[name] for name in ("floats", "integers", "text")})
    return path


def test_truncated_anywhere(tmp_path, whole):
    data = whole.read_bytes()
    cut = tmp_path / "cut.npz"
    for length in {*range(0, len(data), 61), *range(len(data) - 60, len(data))}:
        cut.write_bytes(data[:length])
        with pytest.raises(DataError, match=r"not a model file, or is damaged|refused"):
            load(cut)


def loads_alike_or_refuses(path, shapes):
    """Whether the file was refused; anything but a refusal or arrays of the same shapes fails the test."""
    try:
        _, arrays = contents(path)
    except DataError:
        return True
    assert {name: array.shape for name, array in arrays.items()} == shapes
    return False


@pytest.mark.parametrize("mask", [0x28, 0x01])
def test_every_byte_that_is_not_an_array_flipped(tmp_path, mask):
    """Local headers, npy headers and the central directory, each byte in two ways."""
    path, damaged = tmp_path / "small.npz", tmp_path / "damaged.npz"
    arrays = {"x": np.arange(1000.0)}  # larger than what one read takes, so a header is parsed before its sum is known
    write(path, {"a": 1}, arrays)
    data = path.read_bytes()
    body = data.index(np.arange(1000.0).tobytes())
    failures = {}
    for place in (*range(body), *range(body + 8000, len(data))):
        changed = bytearray(data)
        changed[place] ^= mask
        damaged.write_bytes(changed)
        try:
            loads_alike_or_refuses(damaged, {"x": (1000,)})
        except Exception as error:
            failures.setdefault(f"{type(error).__name__}: {error}"[:80], (place - body, hex(mask)))
    assert not failures


# ---- hostile files -------------------------------------------------------------------------------


class Payload:
    def __reduce__(self):
        return (os.mkdir, (self.target,))


def test_a_pickle_in_an_array_is_never_opened(tmp_path):
    payload = Payload()
    payload.target = str(tmp_path / "executed")
    array = np.array([payload], dtype=object)
    parts = {"x.npy": npy_bytes(array, allow_pickle=True)}
    path = write_members(tmp_path / "evil.npz", {"header.json": json.dumps(header_of({"x": array}))} | parts)
    with pytest.raises(DataError):
        load(path)
    assert not (tmp_path / "executed").exists()
    with np.load(path, allow_pickle=True) as stored:
        assert stored["x"].shape == (1,)
    assert (tmp_path / "executed").exists(), "the payload is live: opened with pickle it runs"


def test_a_zip_bomb_is_refused(tmp_path):
    bomb = np.zeros(2_000_000)
    parts = {"header.json": json.dumps(header_of({"x": bomb})), "x.npy": npy_bytes(bomb)}
    path = write_members(tmp_path / "bomb.npz", parts, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    with pytest.raises(DataError, match="is compressed"):
        load(path)


@pytest.mark.parametrize(
    "inside",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f8', 'fortran_order': False, 'shape': ((3,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'shape': (3,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'fortran_order': 3, 'shape': (3,), }",
        "__import__('os').getcwd()",
        "'''",
        "[" * 300,
        "{[]: 1}",
        "  \n 1\n\t2",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3L,), }x",
        "\0",
        "",
    ],
)
def test_array_headers_that_lie(tmp_path, inside):
    text = inside.encode("latin1") + b"\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + np.zeros(3).tobytes()
    # a long tail keeps the sum over the member from being checked before its header is parsed
    parts = {"header.json": json.dumps(header_of({"x": np.zeros(3)})), "x.npy": member + b"\0" * 10_000}
    with pytest.raises(DataError):
        load(write_members(tmp_path / "m.npz", parts))


@pytest.mark.parametrize(
    "name", ["../outside", "/outside", "a/b", "a\\b", "..", ".hidden", "a..b", "", "a b", "C:x", "x\n", "naïve", "a."]
)
def test_an_announced_path_is_refused_and_nothing_is_unpacked(tmp_path, name):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = forged(inner / "m.npz", {name: np.zeros(3)})
    with pytest.raises(DataError, match="which is no plain name"):
        load(path)
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["inner", "m.npz"]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", "is damaged"),
        (b"not json", "is damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (b"[1, 2]", "does not name"),
        (b"null", "does not name"),
        (b'"' + FORMAT.encode() + b'"', "does not name"),
        (b"{}", "does not name"),
        (b'{"format": "another"}', "does not name"),
        (b"[" * 100_000 + b"]" * 100_000, "damaged"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "damaged"),
        (b"1" * 5000, "does not fit into 64 bits"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_headers_of_another_form(tmp_path, header, message):
    path = write_members(tmp_path / "m.npz", {"header.json": header})
    with pytest.raises(DataError, match=message):
        load(path)


@pytest.mark.parametrize("read", [problems.load, substrate.load])
def test_a_folder_and_a_file_that_is_not_there_are_refused_in_words(tmp_path, read):
    with pytest.raises(DataError, match=r"there is no (model )?file .*absent\.npz"):
        read(tmp_path / "absent.npz")
    with pytest.raises(DataError, match="is a folder; name the model file in it"):
        read(tmp_path)


# ---- the digest ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda header, members: header["content"].update(more={"inf": 1.0}),
        lambda header, members: members.update({"value.1.0.npy": npy_bytes(np.array([1.0, 2.0, 4.0]))}),
        lambda header, members: header.update(digest="0" * 32),
    ],
    ids=["a value", "an array", "the digest"],
)
def test_a_change_to_anything_is_refused(tmp_path, change):
    path = tmp_path / "m.npz"
    write(path, CONTENT, {"x": np.array([1.0, 2.0, 3.0])})
    members = members_of(path)
    header = json.loads(members["header.json"])
    change(header, members)
    write_members(path, members | {"header.json": json.dumps(header)})
    with pytest.raises(DataError, match="changed after it was written"):
        load(path)


# ---- sizes ---------------------------------------------------------------------------------------


def never(*_, **__):
    raise AssertionError("an array was read before the sizes were added up")


def test_the_limit_is_on_all_arrays_together_and_comes_before_the_first(tmp_path, monkeypatch):
    arrays = {f"x{number}": np.zeros(1000) for number in range(4)}
    path = tmp_path / "m.npz"
    write(path, {}, arrays)
    assert contents(path, max_bytes=100_000)[1].keys() == arrays.keys()
    monkeypatch.setattr(files, "_read_array", never)
    with pytest.raises(
        DataError, match=r"would take \d+ bytes of memory, and 20000 are allowed; give a larger max_bytes"
    ):
        load(path, max_bytes=20_000)


def test_members_that_lie_on_each_other(tmp_path):
    """Many entries of the directory, one run of bytes: small on disk, large in memory."""
    path = forged(tmp_path / "m.npz", {f"x{number}": np.zeros(1000) for number in range(40)})
    data = path.read_bytes()
    directory = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    kept = 3 * 8300  # the header and some arrays are there; the others point at the last of them
    entries, place = bytearray(data[directory:end]), 0
    while (place := entries.find(b"PK\x01\x02", place)) >= 0:
        offset = struct.unpack_from("<I", entries, place + 42)[0]
        struct.pack_into("<I", entries, place + 42, min(offset, 8200))
        place += 4
    cut = data[:kept] + bytes(entries)
    tail = bytearray(data[end:])
    struct.pack_into("<I", tail, 16, kept)
    path.write_bytes(cut + bytes(tail))
    with pytest.raises(DataError, match="larger together than its"):
        load(path)


# ---- JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"content": {"a": 1, "a": 2}}', "a key occurs twice"),
        ('{"content": {}, "content": {}}', "a key occurs twice"),
        ('{"content": ' + "9" * 100_000 + "}", "an integer of 100000 digits does not fit into 64 bits"),
        ('{"content": -' + "9" * 4301 + "}", "an integer of 4301 digits"),
        ('{"content": 9223372036854775808}', "an integer of 19 digits"),
        ('{"content": -9223372036854775809}', "an integer of 19 digits"),
        ('{"content": ' + "[" * 300 + "]" * 300 + "}", "does not name|damaged"),
        ('{"a":' * 300 + "1" + "}" * 300, "does not name|damaged"),
        ('{"content": "\x00"}', "damaged"),
    ],
    ids=lambda value: value[:30],
)
def test_json_that_readers_disagree_about(tmp_path, text, message):
    path = write_members(tmp_path / "m.npz", {"header.json": text})
    with pytest.raises(DataError, match=message) as caught:
        load(path)
    assert "set_int_max_str_digits" not in str(caught.value)
