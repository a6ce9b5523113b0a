"""A model file holds what the lists name and nothing else: no address, no path, and no certificate but its own."""

import json
import socket
import warnings
import zipfile
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from rewritten_files import rewrite
from sklearn.base import is_classifier
from sklearn.model_selection import KFold

import problems
from problems import LSSVMClassifier, LSSVMRegressor, LSSVMRegressorCV, load
from problems.estimators.shared import files
from problems.estimators.shared.files import save
from problems.estimators.shared.saved import FITTED, OUTSIDE, PARAMETERS, attributes_of, kinds_of, parameters_of
from substrate.certificates import Certificate
from substrate.errors import DataError, ModelFileWarning, SubstrateError
from substrate.kernels import RBF, Componentwise, Laplacian
from substrate.reduced import Basis

ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
over_estimators = pytest.mark.parametrize("estimator", ESTIMATORS)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2


def made(estimator, rows=X, **parameters):
    own = estimator().get_params(deep=False)
    chosen = {
        key: value
        for key, value in ({"random_state": 0, "basis": Basis(random_state=0)} | parameters).items()
        if key in own
    }
    targets = np.where(np.median(Y) < Y, "up", "down") if is_classifier(estimator()) else Y
    return estimator(RBF(1.0), **chosen).fit(rows, targets)


def content_of(path):
    with zipfile.ZipFile(path) as stored:
        return json.loads(stored.read("header.json"))["content"]


# ---- the lists -----------------------------------------------------------------------------------


@over_estimators
def test_every_parameter_has_a_kind_or_acts_outside(estimator):
    own = set(estimator().get_params(deep=False))
    assert set(parameters_of(estimator)) == own - OUTSIDE


@pytest.mark.parametrize("listed", [PARAMETERS, FITTED], ids=["parameters", "attributes"])
def test_the_lists_name_classes_of_estimators_only(listed):
    every = [*ESTIMATORS, *(getattr(problems, name) for name in problems.SPECTRAL)]
    assert set(listed) <= {kind.__name__ for estimator in every for kind in kinds_of(estimator)}


@over_estimators
def test_defaults_are_allowed(estimator):
    kinds = parameters_of(estimator)
    for name, value in estimator().get_params(deep=False).items():
        assert name in OUTSIDE or kinds[name].allows(value), name


@dataclass(eq=False, repr=False)
class Derived(LSSVMRegressor):
    """What a class of one's own says of its fields and of what a fit sets."""

    _: KW_ONLY
    mode: Literal["even", "odd"] = "even"
    most: int | None = None
    shift: float = 0.0
    unknown: Any = None
    center_: float = field(init=False)
    rows_: Any = field(init=False)


def test_annotations_state_the_kinds_of_a_derived_estimator():
    kinds = parameters_of(Derived)
    assert set(kinds) == {*parameters_of(LSSVMRegressor), "mode", "most", "shift"}
    assert kinds["mode"].allows("odd")
    assert not kinds["mode"].allows("tcp://127.0.0.1:1")
    assert kinds["most"].allows(None)
    assert kinds["most"].allows(3)
    assert not kinds["most"].allows(2.5)
    assert kinds["shift"].allows(2.5)
    assert not kinds["shift"].allows(float("nan"))
    attributes = attributes_of(Derived)
    assert set(attributes) == {*attributes_of(LSSVMRegressor), "center_"}
    assert attributes["center_"].allows(1.0)
    assert not attributes["center_"].allows("1.0")


def test_a_parameter_without_a_kind_cannot_be_saved(tmp_path, monkeypatch):
    others = {name: kind for name, kind in PARAMETERS["LSSVMModel"].items() if name != "solver"}
    monkeypatch.setitem(PARAMETERS, "LSSVMModel", others)
    with pytest.raises(DataError, match=r"may not hold solver; annotate it .*shared/saved\.py"):
        LSSVMRegressor().save(tmp_path / "m.npz")


def test_an_attribute_that_is_not_listed_cannot_be_saved(tmp_path):
    model = made(LSSVMRegressor)
    model.scheduler_ = "tcp://127.0.0.1:1"
    with pytest.raises(DataError, match="may not hold scheduler_"):
        model.save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


TEXT = ["tcp://127.0.0.1:1", "/etc/passwd", "os.system", "", "-m", "auto\n", "rbf "]
STRANGE = [
    *TEXT,
    *([text] for text in TEXT),
    *({text: 1.0} for text in TEXT[:1]),
    *({"kernel": text} for text in TEXT[:1]),
    float("nan"),
    1j,
    object(),
    b"auto",
    [[]],
    {"solver": "auto"},
    len,
    LSSVMRegressor,
    np.array(TEXT),
    np.array([object()]),
    np.array([np.nan]),
    np.zeros((1, 1, 1, 1)),
    np.array(["2020"], "datetime64"),
]
#: Where text, or a number that may be unknown, belongs.
NAMES = ("classes_", "feature_names_in_")
UNKNOWN = (
    "coef_standard_errors_",
    "criterion_",
    "criterion_lower_bound_",
    "noise_variance_",
    "residual_",
)


@over_estimators
@pytest.mark.parametrize("kinds_of", [parameters_of, attributes_of], ids=["parameters", "attributes"])
def test_no_kind_takes_a_strange_value(estimator, kinds_of):
    for name, kind in kinds_of(estimator).items():
        taken = [strange for strange in STRANGE if kind.allows(strange)]
        if name in NAMES:
            taken = [
                strange for strange in taken if not (isinstance(strange, np.ndarray) and strange.dtype.kind == "U")
            ]
        if name in ("class_weight", "rho", "rho_"):  # by the labels of classes or groups
            taken = [strange for strange in taken if not isinstance(strange, dict)]
        if name in ("convex", "linear_columns"):  # by the names of columns
            taken = [strange for strange in taken if not all(isinstance(one, str) for one in strange)]
        if name in UNKNOWN:
            taken = [strange for strange in taken if np.asarray(strange).dtype.kind != "f"]
        assert not taken, name


@pytest.mark.parametrize("part", ["parameters", "fitted"])
def test_every_value_of_a_file_is_asked_for_its_kind(tmp_path, part):
    path = tmp_path / "m.npz"
    made(LSSVMClassifier).save(path)
    original = path.read_bytes()
    for name in content_of(path)[part]:
        path.write_bytes(original)

        def lie(header, arrays, name=name):
            header["content"][part][name] = "tcp://127.0.0.1:1"
            arrays.pop(name, None)

        rewrite(path, lie)
        with pytest.raises(DataError, match=f"the (parameter|attribute) {name} must be .*received 'tcp:"):
            load(path)


# ---- what acts outside ---------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("name", ["passes", "executor", "checkpoint", "memory_budget", "verbose", "n_jobs"])
@pytest.mark.parametrize("value", [None, "tcp://127.0.0.1:1"])
def test_what_acts_outside_is_not_read(tmp_path, no_network, name, value):
    """Not even as null: a file of this version has no such key."""
    path = tmp_path / "m.npz"
    made(LSSVMRegressorCV if name == "n_jobs" else LSSVMRegressor).save(path)
    rewrite(path, lambda header, arrays: header["content"]["parameters"].update({name: value}))
    with pytest.raises(DataError, match=rf"has parameters .*'{name}'"):
        load(path)


def test_a_splitter_cannot_be_saved_and_its_splits_can(tmp_path):
    folds = [(np.arange(10), np.arange(10, 20)), (np.arange(10, 20), np.arange(10))]
    made(LSSVMRegressorCV, cv=folds).save(tmp_path / "m.npz")
    assert_array_equal(load(tmp_path / "m.npz").cv[1][0], folds[1][0])
    with pytest.raises(DataError, match=r"cv is a KFold .* cannot be saved"):
        made(LSSVMRegressorCV, cv=KFold(3)).save(tmp_path / "m.npz")


# ---- the digest ----------------------------------------------------------------------------------


def move_by_rounding(header, arrays):
    arrays["support_values_"][0] = np.nextafter(arrays["support_values_"][0], np.inf)


def edit(header, arrays):
    arrays["support_values_"][0] += 1e-3


@pytest.mark.parametrize("estimator", [LSSVMRegressor, LSSVMClassifier])
def test_a_certificate_of_an_edited_file_does_not_hold(tmp_path, estimator):
    path = tmp_path / "m.npz"
    model = made(estimator)
    model.save(path)
    assert model.certificate_.holds
    rewrite(path, lambda header, arrays: header["content"]["fitted"].update(n_features_in_=3), digest=False)
    assert load(path).certificate_.holds, "nothing has changed"
    rewrite(path, edit, digest=False)
    with pytest.warns(ModelFileWarning, match="so its certificate does not hold") as caught:
        loaded = load(path)
    assert len(caught) == 1
    assert not loaded.certificate_.holds
    assert [row.name for row in loaded.certificate_.failures] == ["file as written"]


def test_a_printed_certificate_of_an_edited_file_says_so(tmp_path):
    path = tmp_path / "m.npz"
    made(LSSVMRegressor).save(path)
    rewrite(path, edit, digest=False)
    with pytest.warns(ModelFileWarning):
        loaded = load(path)
    assert str(loaded.certificate_).startswith("LS-SVM regression: DOES NOT HOLD")
    assert "file: changed after it was written; its certificate does not hold" in str(loaded.certificate_)
    assert "does not hold" in loaded.certificate_._repr_html_()
    assert not loaded.certify(X, Y).holds, "and it is right: these are not the coefficients of the fit"


def test_certified_again_it_has_its_own(tmp_path):
    path = tmp_path / "m.npz"
    made(LSSVMRegressor).save(path)
    rewrite(path, move_by_rounding, digest=False)
    with pytest.warns(ModelFileWarning):
        loaded = load(path)
    loaded.certificate_ = loaded.certify(X, Y)
    assert loaded.certificate_.holds
    loaded.save(path)
    assert load(path).certificate_.holds


def test_saved_again_it_still_does_not_hold(tmp_path):
    path = tmp_path / "m.npz"
    made(LSSVMRegressor).save(path)
    rewrite(path, edit, digest=False)
    with pytest.warns(ModelFileWarning):
        load(path).save(path)
    assert not load(path).certificate_.holds


def test_an_edited_file_without_a_fit_warns_too(tmp_path):
    path = tmp_path / "m.npz"
    LSSVMRegressor(RBF(1.0)).save(path)
    rewrite(path, lambda header, arrays: header["content"]["parameters"].update(gamma=3.0), digest=False)
    with pytest.warns(ModelFileWarning, match="changed after it was written"):
        assert load(path).gamma == 3.0


def test_a_certificate_that_a_terminal_would_act_on_is_refused(tmp_path):
    path = tmp_path / "m.npz"
    model = made(LSSVMRegressor)
    for place in ("title", "fact"):
        title, fact = ("\x1b[2J holds", "x") if place == "title" else ("t", "a\nLS-SVM regression: holds")
        model.certificate_ = Certificate(title, model.certificate_.rows, (("solver", fact),))
        with pytest.raises(DataError, match="certificate_ must be a certificate of printable words"):
            model.save(path)


# ---- sizes ---------------------------------------------------------------------------------------


def test_an_array_belongs_to_one_value(tmp_path):
    """400 references to one array of text would each become a list of objects."""
    path = tmp_path / "m.npz"
    made(LSSVMClassifier).save(path)

    def refer(header, arrays):
        arrays["labels"] = np.full(10_000, "a")
        reference = {"kind": "text", "name": "labels"}
        header["content"]["parameters"]["gamma"] = {"kind": "list", "items": [reference] * 400}

    rewrite(path, refer)
    with pytest.raises(DataError, match="the array 'labels' is used twice"):
        load(path)


def test_an_array_that_belongs_to_nothing_is_refused(tmp_path):
    path = tmp_path / "m.npz"
    made(LSSVMRegressor).save(path)
    rewrite(path, lambda header, arrays: arrays.update(more=np.zeros(3)))
    with pytest.raises(DataError, match=r"the arrays \['more'\] are missing, or belong to nothing"):
        load(path)


SPARSE = sp.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0))


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (lambda: LSSVMRegressor("precomputed").fit(RBF(1.0)(X), Y), 10**15),
        (lambda: LSSVMRegressor(RBF(1.0)).fit(SPARSE, Y), 10**12),
        (lambda: LSSVMRegressor(Laplacian(1.0)).fit(SPARSE, Y), 10**7),
        (lambda: LSSVMRegressor(Componentwise(RBF(1.0))).fit(SPARSE, Y), 10**7),
    ],
    ids=["a matrix", "sparse rows", "sparse rows made dense", "components"],
)
def test_columns_that_are_announced_are_counted(tmp_path, monkeypatch, model, columns):
    path = tmp_path / "m.npz"
    model().save(path)

    def widen(header, arrays):
        fitted = header["content"]["fitted"]
        fitted["n_features_in_"] = columns
        if "support_vectors_" in fitted:
            fitted["support_vectors_"]["shape"] = [20, columns]

    rewrite(path, widen)

    def never(*_, **__):
        raise AssertionError("decoded before the sizes were added up")

    monkeypatch.setattr(files, "decode", never)
    with pytest.raises(DataError, match="bytes of memory, and 1073741824 are allowed"):
        load(path)


def test_the_limit_can_be_set(tmp_path):
    path = tmp_path / "m.npz"
    model = made(LSSVMRegressor)
    model.save(path)
    assert_array_equal(load(path, max_bytes=10**6).predict(X), model.predict(X))
    with pytest.raises(DataError, match="and 10000 are allowed; give a larger max_bytes"):
        load(path, max_bytes=10_000)


@pytest.mark.parametrize("shape", [[20], [20, -3], [20, 3.0], [True, 3], None, "20", [20, 3, 1]])
def test_sparse_shapes_of_another_form(tmp_path, shape):
    path = tmp_path / "m.npz"
    LSSVMRegressor(RBF(1.0)).fit(SPARSE, Y).save(path)
    rewrite(path, lambda header, arrays: header["content"]["fitted"]["support_vectors_"].update(shape=shape))
    with pytest.raises(DataError, match="two lengths are needed"):
        load(path)


# ---- what is saved can be loaded -----------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path, value):
    path = tmp_path / "m.npz"
    made(LSSVMRegressor).save(path)
    before = path.read_bytes()
    model = made(LSSVMRegressor)
    model.support_values_ = np.full_like(model.support_values_, value)
    with pytest.raises(DataError, match=r"this LSSVMRegressor is not saved, because .*could not be loaded again"):
        model.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.npz"]


@pytest.mark.parametrize("parameters", [{"gamma": "wide"}, {"solver": "tcp://127.0.0.1:1"}, {"kernel": "os.system"}])
def test_parameters_that_no_fit_would_take_are_not_saved(tmp_path, parameters):
    with pytest.raises(DataError, match=f"the parameter {next(iter(parameters))} must be"):
        LSSVMRegressor(**parameters).save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def test_an_integer_beyond_64_bits_is_not_saved(tmp_path):
    with pytest.raises(DataError, match="does not fit into 64 bits"):
        LSSVMRegressor(max_iter=2**63).save(tmp_path / "m.npz")


SLOW = [pytest.param(estimator, marks=pytest.mark.slow) for estimator in ESTIMATORS]


@pytest.mark.parametrize("estimator", [LSSVMRegressor, LSSVMClassifier, LSSVMRegressorCV, *SLOW])
def test_a_cell_of_1e200_is_refused_or_gives_a_model_that_loads_and_predicts(tmp_path, estimator):
    rows = X.copy()
    rows[3, 1] = 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = made(estimator, rows)
            model.save(tmp_path / "m.npz")
        except SubstrateError:
            assert list(tmp_path.iterdir()) == []
            return
        loaded = load(tmp_path / "m.npz")
        assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_a_check_of_the_caller_is_asked_before_the_file_appears(tmp_path):
    seen = []

    def refuse(model, notes):
        seen.append((type(model), notes, list(tmp_path.glob("m.npz"))))
        raise DataError("these notes say nothing")

    with pytest.raises(DataError, match="these notes say nothing"):
        save(made(LSSVMRegressor), tmp_path / "m.npz", {"a": 1}, refuse)
    assert seen == [(LSSVMRegressor, {"a": 1}, [])]
    assert list(tmp_path.iterdir()) == []
