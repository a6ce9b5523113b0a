"""Which cases of a check that all models share, or that has many cases, belong to the ordinary run.

A check such as the refusal of a bad X is one piece of code that every model goes through, by one of a few ways. Every
case of it is run on two models that stand for such ways, and one case on every model, which shows that it goes one of
them: on a third of the models in one version, on others in another. What is left out is marked slow, so that ``pytest
-m slow`` runs the whole product. Of any other check whose cases are a product too (seeds, kernels, options), and take
long, the mark ``some_cases(n)`` draws n.

Long tests take turns too: those that ``tests/long_tests.txt`` names, because a case takes a fifth of a second or more
have a third of their cases in the ordinary run of a version. They are one of forty
cases and took half of the time.

Cases are drawn by a hash of their names and of the sources of ``substrate``. The draw is the same in every process, for
one file and for all of them; a new page or estimator, which are files of ``problems``, leaves the draw of the others
unchanged; and every version of the numerical code draws anew, so that in time every case is seen.
"""

import hashlib
import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

__all__ = [
    "EVERY_CASE",
    "LONG_TESTS",
    "PAGES",
    "ROUTES",
    "SAMPLED",
    "SOME_CASES",
    "SOME_WAYS",
    "TURNS",
    "first",
    "hash_sources",
    "is_its_turn",
    "kind_of",
    "read_long_tests",
    "sample_cases",
    "take_turns",
]

#: One estimator for each way in.
ROUTES = {
    "all rows at once": "LSSVMRegressor",
    "a matrix given for the kernel": "LSSVMRegressor(kernel=Precomputed())",
    "classes and their codings": "LSSVMClassifier",
    "rows in passes": "LSSVMRegressor(basis=12)",
    "classes in passes": "LSSVMClassifier(basis=12)",
    "arrays on a device": "LSSVMRegressor",
    "folds": "LSSVMRegressorCV",
    "rows for validation": "FusedL1SubstrateRegressor",
    "components": "LSSVMKernelPCA",
}
#: Pages of such estimators.
PAGES = ("ls_svm_regression", "ls_svm_classification", "fused_l1_substrate")
#: The kinds that every case is tried on some of.
EVERY_CASE = {
    *ROUTES.values(),
    *(f"{page}{part}" for page in PAGES for part in ("", ".declare", ".closed_form")),
}
#: Ways on which every case of a shared check is tried, and cases of it that every model has.
SOME_WAYS, SOME_CASES = 2, 1
#: The tests whose cases take turns, and how many versions it takes until a case has its turn, on average.
LONG_TESTS, TURNS = Path(__file__).parents[1] / "long_tests.txt", 3
#: The checks that this run has sampled, by name: the kind of each of their cases, and the places of the chosen ones.
SAMPLED: dict[str, tuple[list[str], set[int]]] = {}
#: The parameters by which a check walks the models: estimators, the functions of the pages, and the pages.
WALKS = ("estimator", "function", "module")


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """Return values to parametrize a check with, such as seeds: a few for the ordinary run, the others slow."""
    return [pytest.param(v, marks=() if place < count else pytest.mark.slow) for place, v in enumerate(values)]


@cache
def read_long_tests() -> frozenset[str]:
    """Return the tests whose cases take turns: names of functions with their files, without parameters."""
    return frozenset(LONG_TESTS.read_text(encoding="utf-8").split())


def is_its_turn(case: str, version: str | None = None) -> bool:
    """Return whether a case belongs to the ordinary run of this version: always, unless its test is a long one.

    Parameters
    ----------
    case : str
        The name of the case, as pytest tells it.
    version : str, optional
        What the draw begins with; by default the hash of the sources.
    """
    return case.partition("[")[0] not in read_long_tests() or take_turns(case, version)


def take_turns(name: str, version: str | None = None) -> bool:
    """Return whether this version has a name among the one of ``TURNS`` that it draws."""
    draw = hash_sources() if version is None else version
    return int.from_bytes(hashlib.blake2b(f"{draw} {name}".encode()).digest()) % TURNS == 0


def kind_of(parameters: Mapping[str, Any]) -> str | None:
    """Return the model of a case of a shared check, by name; None for a case of any other check."""
    model = next((parameters[name] for name in WALKS if name in parameters), None)
    if model is None:
        return None
    if inspect.isclass(model) or hasattr(model, "DEMONSTRATION"):  # the mark of a page
        return str(model.__name__).removeprefix("problems.")
    if isinstance(model, BaseEstimator):  # by its parameters too
        return _in_words(model)
    return model if isinstance(model, str) and model.endswith((".declare", ".closed_form")) else None


@cache
def _in_words(model: BaseEstimator) -> str:
    return repr(model).removesuffix("()")


@cache
def hash_sources() -> str:
    """Return a hash of every source file of ``substrate``: what tells one version of the numbers from another."""
    root = Path(__file__).parents[2]
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted((root / "substrate").rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def sample_cases(
    names: Sequence[str], kinds: Sequence[str], n_cases: int = SOME_CASES, version: str | None = None
) -> set[int]:
    """Return the places of the cases to run: of several kinds, those whose turn it is.

    Parameters
    ----------
    names : sequence
        For every case, its name, which says the check, the model and what is tried.
    kinds : sequence
        For every case, the kind that it belongs to.
    n_cases : int
        How many cases of each kind are chosen.
    version : str, optional
        What the draw begins with; by default the hash of the sources.
    """
    draw = hash_sources() if version is None else version
    by_kind, by_case = defaultdict(list), defaultdict(list)
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        by_kind[kind].append(place)
        if kind in EVERY_CASE:
            by_case[name.replace(kind, "").replace("()", "")].append(place)
    rank = [hashlib.blake2b(f"{draw} {name}".encode()).digest() for name in names]
    chosen = {place for places in by_kind.values() for place in sorted(places, key=rank.__getitem__)[:n_cases]}
    if len(by_kind) > 1:
        chosen = {place for place in chosen if take_turns(names[place], draw)} or {min(chosen, key=rank.__getitem__)}
    return chosen.union(*(sorted(places, key=rank.__getitem__)[:SOME_WAYS] for places in by_case.values()))
