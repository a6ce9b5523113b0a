"""Which cases of a check that all models share belong to the ordinary run.

A check such as the refusal of a bad X is one piece of code that every model goes through. Every case of it is run on
one model for each way into that code, and one case on every other model, which shows that it goes that way. What is
left out is marked slow, so that ``pytest -m slow`` runs the whole product. The choice depends on nothing but the name
of the check and the order of its cases: it is the same in every process, for one file and for all of them.
"""

import inspect
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from sklearn.base import BaseEstimator

__all__ = ["EVERY_CASE", "PAGES", "ROUTES", "SAMPLED", "SOME_CASES", "first", "kind_of", "sampled"]

#: One estimator for each way in.
ROUTES = {
    "all rows at once": "LSSVMRegressor",
    "a matrix given for the kernel": "LSSVMRegressor(kernel=Precomputed())",
    "classes and their codings": "LSSVMClassifier",
    "rows in passes": "SparseLSSVMRegressor",
    "classes in passes": "SparseLSSVMClassifier",
    "arrays on a device": "LSSVMRegressor",
    "folds": "LSSVMRegressorCV",
    "rows for validation": "FusedL1SubstrateRegressor",
}
#: Pages of such estimators.
PAGES = ("ls_svm_regression", "ls_svm_classification", "fused_l1_substrate")
#: The kinds that are tried on every case.
EVERY_CASE = {
    *ROUTES.values(),
    *(f"{page}{part}" for page in PAGES for part in ("", ".declare", ".closed_form")),
}
#: Cases of a shared check for every other model.
SOME_CASES = 1
#: The checks that this run has sampled, by name: the kind of each of their cases, and the places of the chosen ones.
SAMPLED: dict[str, tuple[list[str], set[int]]] = {}
#: The parameters by which a check walks the models: estimators, the functions of the pages, and the pages.
WALKS = ("estimator", "function", "module")


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """Values to parametrize a check with, such as seeds: a few for the ordinary run, the others slow."""
    return [pytest.param(v, marks=() if place < count else pytest.mark.slow) for place, v in enumerate(values)]


def kind_of(parameters: Mapping[str, Any]) -> str | None:
    """The model of a case of a shared check, by name; None for a case of any other check."""
    model = next((parameters[name] for name in WALKS if name in parameters), None)
    if len(parameters) < 2 or model is None:
        return None
    if inspect.isclass(model) or hasattr(model, "DEMONSTRATION"):  # the mark of a page
        return str(model.__name__).removeprefix("problems.")
    if isinstance(model, BaseEstimator):  # by its parameters too
        return _in_words(model)
    return model if isinstance(model, str) and model.endswith((".declare", ".closed_form")) else None


@cache
def _in_words(model: BaseEstimator) -> str:
    return repr(model).removesuffix("()")


def sampled(check: str, kinds: Sequence[str], some: int = SOME_CASES) -> set[int]:
    """The places of the cases to run, given the kind of each case.

    Parameters
    ----------
    check : str
        Name of the check; it decides where the samples begin.
    kinds : sequence
        For every case, the kind that it belongs to.
    some : int
        How many cases of each kind are chosen. Neighbouring kinds take other cases, so that between them they see all.
    """
    places = defaultdict(list)
    for place, kind in enumerate(kinds):
        places[kind].append(place)
    chosen: set[int] = set()
    start = zlib.crc32(check.encode())
    for kind, cases in places.items():
        if kind in EVERY_CASE or len(cases) <= some:
            chosen.update(cases)
        else:
            chosen.update(cases[(start + k * len(cases) // some) % len(cases)] for k in range(some))
            start += 1
    return chosen
