"""No file makes loading long, or larger than it may be: every kernel and every parameter, with hostile values."""

import json
import struct
import zipfile
from dataclasses import MISSING, fields

import numpy as np
import pytest
from measured_loads import loads_of
from rewritten_files import rewrite

import problems
from problems import LSSVMRegressor, load
from substrate import files, kernels
from substrate.files import FORMAT, VERSION
from substrate.kernels import RBF, Componentwise, Foreign, Kernel, Laplacian, Linear, Matern, Polynomial, Symmetric

#: What a file may take, and what the measurement itself adds.
LIMIT, AROUND = 10_000_000, 300_000
ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
CLASSES = [
    kernel
    for kernel in (getattr(kernels, name) for name in kernels.__all__)
    if isinstance(kernel, type) and issubclass(kernel, Kernel) and kernel not in (Kernel, Foreign)
]
NUMBERS = [0, -1, 10**8, 2**62, 5e-324, 1e-300, 1e300, 1.7e308, float("inf"), float("nan"), 1.5, True, None]
SEQUENCES = [
    {"kind": "list", "items": [1.0] * 4_000},
    {"kind": "tuple", "items": list(range(4_000))},
    {"kind": "tuple", "items": [2**62, 0]},
    {"kind": "list", "items": []},
    {"kind": "mapping", "items": [[k, 1.0] for k in range(1_000)]},
]
TEXT = ["", "median", "each", "x" * 200_000]


def as_json(kernel):
    made = files._Writer().encode(kernel, "kernel")
    json.dumps(made)
    return made


def nested(name, depth, inner, **more):
    for _ in range(depth):
        inner = {"kind": "value", "class": name, "fields": {"kernel": inner, **more}}
    return inner


def balanced(name, depth):
    """A tree of sums or products, of 2^depth leaves."""
    leaf = as_json(RBF(1.0))
    for _ in range(depth):
        leaf = {"kind": "value", "class": name, "fields": {"left": leaf, "right": leaf}}
    return leaf


def mirrored_sums(depth):
    """Mirrored kernels inside sums inside mirrored kernels: no two are neighbours."""
    inner = as_json(RBF(1.0))
    for _ in range(depth):
        both = {"kind": "value", "class": "Sum", "fields": {"left": inner, "right": as_json(Linear())}}
        inner = {"kind": "value", "class": "Symmetric", "fields": {"kernel": both, "symmetry": "even"}}
    return inner


def hostile_fields(kernel):
    """Every field of a kernel class, replaced by every hostile value, as JSON."""
    inner = as_json(RBF(1.0))
    plain = {}
    for field in fields(kernel):
        if field.name in ("kernel", "left", "right"):
            plain[field.name] = inner
        elif field.name == "columns":
            plain[field.name] = {"kind": "tuple", "items": [0]}
        else:
            plain[field.name] = 1.0 if field.default is MISSING else field.default
    values = [*NUMBERS, *SEQUENCES, *TEXT, nested("Scaled", 100, inner, factor=2.0), balanced("Product", 8)]
    for name in plain:
        for value in values:
            yield {"kind": "value", "class": kernel.__name__, "fields": {**plain, name: value}}


def structures():
    """Kernels whose parts are many, deep, or evaluated again and again."""
    inner = as_json(RBF(1.0))
    for depth in (3, 110):
        yield nested("Symmetric", depth, inner, symmetry="even")
        yield nested("Symmetric", depth, inner, symmetry="odd")
        yield nested("Scaled", depth, inner, factor=1e10)
        yield nested("Restricted", depth, inner, columns={"kind": "tuple", "items": [0]})
        yield nested("Componentwise", depth, inner)
        yield mirrored_sums(depth // 2)
    for name in ("Sum", "Product"):
        yield balanced(name, 11)
        yield nested("Symmetric", 8, balanced(name, 6), symmetry="even")
    parts = {"kind": "list", "items": [inner] * 1_000}
    for order in (1, 500, 2**62):
        yield {"kind": "value", "class": "Componentwise", "fields": {"kernel": parts, "order": order}}
    for degree, offset in ((1, 0.0), (50, 1.0), (1000, 0.0), (1001, 1.0), (10**8, 0.0), (2**62, 1.0)):
        yield {"kind": "value", "class": "Polynomial", "fields": {"degree": degree, "offset": offset}}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A file of a machine."""
    folder = tmp_path_factory.mktemp("honest")
    X = np.random.default_rng(0).normal(size=(12, 1))
    LSSVMRegressor(RBF(1.0)).fit(X, X[:, 0]).save(folder / "values.npz")
    return folder


def with_kernel(source, target, kernel):
    def replace(header, arrays):
        header["content"]["fitted"]["kernel_"] = kernel
        header["content"]["parameters"]["kernel"] = kernel

    target.write_bytes(source.read_bytes())
    rewrite(target, replace)
    return target


def assert_bounded(found, limit=LIMIT):
    wrong = {
        path: (outcome[:300], peak)
        for path, (outcome, peak) in found.items()
        if peak > limit + AROUND or not outcome.startswith(("loads", "refused"))
    }
    assert not wrong
    assert max(len(outcome) for outcome, _ in found.values()) < 6_000, "and no message repeats what a file holds"


def test_every_field_of_every_kernel(tmp_path, honest):
    """Some of the values are refused, some are only strange; none takes more than it may."""
    paths = []
    for place, kernel in enumerate(CLASSES):
        for number, described in enumerate(hostile_fields(kernel)):
            if (place + number) % 9 == 0:
                source = honest / "values.npz"
                paths.append(with_kernel(source, tmp_path / f"{kernel.__name__}{number}.npz", described))
    assert_bounded(loads_of(honest / "values.npz", paths, LIMIT))


def test_structures_of_kernels(tmp_path, honest):
    paths = []
    for number, kernel in enumerate(structures()):
        paths.append(with_kernel(honest / "values.npz", tmp_path / f"{number}.npz", kernel))
    found = loads_of(honest / "values.npz", paths, LIMIT)
    assert_bounded(found)
    assert sum(outcome == "loads" for outcome, _ in found.values()) >= 6, "and honest ones load"


@pytest.mark.parametrize(
    "kernel",
    [
        Symmetric(RBF(1.0)),
        Polynomial(5),
        Polynomial(20, 0.5) * RBF(1.0),
        Matern(1.0, nu=10.5),
        Componentwise(RBF(1.0)) + Componentwise(Laplacian(1.0)) + Linear(),
        Componentwise([RBF(1.0)] * 10),
        sum(([RBF(1.0 + k) for k in range(60)]), start=0.5 * Linear()),
    ],
    ids=lambda kernel: repr(kernel)[:40],
)
def test_honest_kernels_load(tmp_path, kernel):
    X = np.random.default_rng(0).normal(size=(20, 30)) / 30.0
    model = LSSVMRegressor(kernel).fit(X, X[:, 0])
    model.save(tmp_path / "m.npz")
    assert load(tmp_path / "m.npz", max_bytes=LIMIT).predict(X).tobytes() == model.predict(X).tobytes()


# ---- parameters ----------------------------------------------------------------------------------

HOSTILE = [
    -1,
    2**62,
    -(2**62),
    1.7e308,
    5e-324,
    float("nan"),
    float("inf"),
    "x" * 200_000,
    *SEQUENCES,
    {"kind": "list", "items": [{"kind": "list", "items": [2**62, 0]}] * 2_000},
    {"kind": "value", "class": "Basis", "fields": {"n": 2**62, "rule": "random"}},
    {"kind": "value", "class": "Basis", "fields": {"n": 10, "rule": {"kind": "list", "items": [2**62] * 1_000}}},
    {"kind": "value", "class": "Polynomial", "fields": {"degree": 10**8}},
    nested("Symmetric", 40, as_json(RBF(1.0)), symmetry="even"),
]


def test_every_parameter_of_every_estimator(tmp_path, honest):
    """A value is refused, or a fit will refuse it; none takes more than it may."""
    paths = []
    for many, estimator in enumerate(ESTIMATORS):
        source = tmp_path / f"{estimator.__name__}.npz"
        estimator(RBF(1.0)).save(source)
        for place, name in enumerate(sorted(estimator().get_params(deep=False).keys() - files.OUTSIDE)):
            for number, value in enumerate(HOSTILE):
                if (many + place + number) % 24:
                    continue
                target = tmp_path / f"{estimator.__name__}-{name}-{number}.npz"
                target.write_bytes(source.read_bytes())
                rewrite(
                    target,
                    lambda header, arrays, n=name, v=value: header["content"]["parameters"].update({n: v}),
                )
                paths.append(target)
    found = loads_of(honest / "values.npz", paths, LIMIT)
    assert_bounded(found)
    assert not any(outcome == "loads" for path, (outcome, _) in found.items() if path.endswith(("-15.npz", "-16.npz")))


# ---- sizes of what describes the rest ------------------------------------------------------------


def header_bytes(text):
    """A header of a model file with this JSON in it."""
    fixed = {"format": FORMAT, "version": VERSION, "digest": "0" * 32}
    return json.dumps(fixed)[:-1].encode() + b', "content": {"x": ' + text + b"}}"


def shaped(count):
    """JSON of about so many bytes, in the forms that take most in memory."""

    def listed(item):
        return b"[" + b",".join([item] * (count // (len(item) + 1))) + b"]"

    yield "lists", listed(b"[]")
    yield "lists of lists", listed(b"[[0]]")
    yield "deep lists", listed(b"[" * 30 + b"]" * 30)
    yield "mappings", listed(b"{}")
    yield "mappings of one", listed(b'{"a":0}')
    yield "mappings of mappings", listed(b'{"a":{}}')
    yield "keys", b"{" + b",".join(b'"%x":0' % k for k in range(count // 10)) + b"}"
    yield "numbers", listed(b"1.5")
    yield "integers", listed(b"999")
    yield "texts", listed(b'"ab"')
    yield "wide texts", listed('"\U0001f600"'.encode())
    yield "one wide text", b'"' + "\U0001f600".encode() * (count // 4) + b'"'


def test_headers_of_every_form_stay_below_the_limit(tmp_path, honest):
    """Four megabytes are refused before they are parsed."""
    paths = []
    for name, text in shaped(4_000_000):
        paths.append(tmp_path / f"{name}.npz")
        with zipfile.ZipFile(paths[-1], "w") as stored:
            stored.writestr("header.json", header_bytes(text))
    found = loads_of(honest / "values.npz", paths, LIMIT)
    assert_bounded(found)
    assert all("bytes of memory, and 10000000 are allowed" in outcome for outcome, _ in found.values())


def listing(count, name=b""):
    """A zip of so many members without bytes, all at one place."""
    local = struct.pack("<4s2B4HL2L2H", b"PK\3\4", 20, 0, 0, 0, 0, 33, 0, 0, 0, len(name), 0) + name
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0)
    listed = (entry + name) * count
    few = min(count, 65535)
    return local, listed, struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, few, few, len(listed), len(local), 0)


def test_a_million_members_are_counted_before_they_are_read(tmp_path, honest):
    path = tmp_path / "many.npz"
    path.write_bytes(b"".join(listing(1_000_000)))
    some = tmp_path / "some.npz"
    some.write_bytes(b"".join(listing(13_000)))
    found = loads_of(honest / "values.npz", [path, some], LIMIT)
    assert_bounded(found)
    assert found[str(path)][1] < AROUND
    assert "bytes of memory, and 10000000 are allowed" in found[str(path)][0]
    assert "a member occurs twice" in found[str(some)][0], "few enough to be read"
