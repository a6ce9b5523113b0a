"""Fixed coverings: which cases of a product are run, where every combination would take hours.

A check such as the refusal of a bad X is one piece of code that every model goes through, by one of a few ways. So
every case of it is tried on two models that stand for such ways, and every model is tried on one case, which shows that
it goes one of them. Of any other product, if it is marked ``covering``, every value of every parameter is tried once.
``pytest --all`` runs every combination.
"""

import inspect

from sklearn.base import BaseEstimator

__all__ = ["PAGES", "ROUTES", "cover_product", "cover_walk", "name_model"]

#: One estimator for each way in.
ROUTES = {
    "all rows at once, and arrays on a device": "LSSVMRegressor",
    "a matrix given for the kernel": "LSSVMRegressor(kernel=Precomputed())",
    "classes and their codings": "LSSVMClassifier",
    "rows in passes": "LSSVMRegressor(basis=12)",
    "classes in passes": "LSSVMClassifier(basis=12)",
    "folds": "LSSVMRegressorCV",
    "rows for validation": "FusedL1SubstrateRegressor",
    "components": "LSSVMKernelPCA",
}
#: Pages of such estimators.
PAGES = ("ls_svm_regression", "ls_svm_classification", "fused_l1_substrate")
#: The models that stand for the others.
REPRESENTATIVES = {*ROUTES.values(), *(f"{page}{part}" for page in PAGES for part in ("", ".declare", ".closed_form"))}
#: The parameters by which a check walks the models: estimators, the functions of the pages, and the pages.
WALKS = ("estimator", "function", "module")


def name_model(parameters):
    """Return the model of a case of a walk, by name; None for a case of any other check."""
    model = next((parameters[name] for name in WALKS if name in parameters), None)
    if inspect.isclass(model) or hasattr(model, "DEMONSTRATION"):  # the mark of a page
        return model.__name__.removeprefix("problems.")
    if isinstance(model, BaseEstimator):  # by its parameters too
        return repr(model).removesuffix("()")
    return model if isinstance(model, str) and model.endswith((".declare", ".closed_form")) else None


def cover_product(cases):
    """Keep the cases in which the k-th value of every parameter meets the k-th of all others, in turn."""
    counts = {name: 1 + max(case.indices[name] for case in cases) for name in cases[0].indices}
    kept = [{name: k % count for name, count in counts.items()} for k in range(max(counts.values()))]
    return [case for case in cases if case.indices in kept]


def cover_walk(cases):
    """Keep one case of every model, each the next one, and every case of two models that stand for the others."""
    models = [name_model(case.params) for case in cases]
    if None in models:
        return cases
    by_model, by_attempt = {}, {}
    for case, model in zip(cases, models, strict=True):
        by_model.setdefault(model, []).append(case)
        if model in REPRESENTATIVES:
            by_attempt.setdefault(case.id.replace(model, "").replace("()", ""), []).append(case)
    kept = [attempts[j % len(attempts)] for j, attempts in enumerate(by_model.values())]
    for j, ways in enumerate(by_attempt.values()):
        kept += [ways[(j + step) % len(ways)] for step in range(2)]
    chosen = set(map(id, kept))
    return [case for case in cases if id(case) in chosen]
