"""Every estimator and every declared problem, with data, parameters and readers that suit each of them.

Estimators, ``declare`` and ``closed_form`` functions are found by walking the package, so a new model is put through
the tests of ``tests/bad_input`` by being exported.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import problems
from problems.command_line.verify import problem_modules
from substrate.basis import Basis
from substrate.kernels import RBF, Linear

#: The width of the kernel where the default one would hide what is tested.
SIGMA = 1.5


def exported_estimators():
    return [getattr(problems, name) for name in sorted(problems.ESTIMATORS)]


def parameters_of(estimator):
    return estimator().get_params(deep=False)


def way_in_words(value):
    """Return the part of a test's name for a choice of parameters; anything else is unchanged."""
    if not isinstance(value, dict):
        return None
    if value == {"solver": "cvxpy"}:
        return "declared"
    if isinstance(value.get("basis"), Basis):
        value = value | {"basis": value["basis"].n}
    return ", ".join(f"{name} {choice}" for name, choice in value.items()) or "as it comes"


ESTIMATORS = exported_estimators()
WEIGHTED = [estimator for estimator in ESTIMATORS if has_fit_parameter(estimator, "sample_weight")]
#: Those that prune a row of weight two as one row.
PRUNED = [e for e in WEIGHTED if e.__name__.startswith("Pruned")]
#: Those in which a row of weight two is not two rows: it is left out, or pruned, as one.
WHOLE_ROWS = [e for e in WEIGHTED if e.__name__.endswith("CV") or e.__name__.startswith("Stacked") or e in PRUNED]
KERNELED = [estimator for estimator in ESTIMATORS if "kernel" in parameters_of(estimator)]
#: Those that take a matrix for a kernel; an additive machine needs inputs to take apart.
PAIRWISE = [e for e in KERNELED if e(kernel="precomputed").__sklearn_tags__().input_tags.pairwise]
WITH_GAMMA = [estimator for estimator in ESTIMATORS if "gamma" in parameters_of(estimator)]
#: Those that factor their system or iterate.
WITH_SOLVER = [problems.LSSVMRegressor, problems.LSSVMClassifier]
REGRESSORS = [estimator for estimator in ESTIMATORS if is_regressor(estimator())]
CLASSIFIERS = [estimator for estimator in ESTIMATORS if is_classifier(estimator())]
MULTI_OUTPUT = [e for e in REGRESSORS if e().__sklearn_tags__().target_tags.multi_output]
#: Components and clusters, whose estimators have scores in the place of predictions.
COMPONENTS = [getattr(problems, name) for name in problems.SPECTRAL]
#: Models of two views, the second of which takes the place of the target.
SECOND_VIEW = [e for e in COMPONENTS if e().__sklearn_tags__().target_tags.multi_output]
#: Every estimator that learns from rows in any order.
FROM_ROWS = [*ESTIMATORS, *COMPONENTS]
MODULES = problem_modules()
WITH_CLOSED_FORM = {name: module for name, module in MODULES.items() if hasattr(module, "closed_form")}
#: Everything that takes (K, y, parameters).
FUNCTIONS = {
    **{f"{name}.declare": (module.declare, module) for name, module in MODULES.items()},
    **{f"{name}.closed_form": (module.closed_form, module) for name, module in WITH_CLOSED_FORM.items()},
}

#: Every estimator with the parameters that its class calls typical.
TYPICAL = [(estimator, dict(choice)) for estimator in ESTIMATORS for choice in estimator._typical]
#: Every estimator as it comes, and once more on a basis where it has the choice.
BASES = [(estimator, {}) for estimator in ESTIMATORS] + [
    (estimator, {"basis": Basis(12, random_state=0)}) for estimator in ESTIMATORS if "basis" in parameters_of(estimator)
]
#: Every estimator as it comes, and once more by its declared problem where it has the choice.
WAYS = [(estimator, {}) for estimator in ESTIMATORS] + [(e, {"solver": "cg"}) for e in WITH_SOLVER]
over_ways = pytest.mark.parametrize(("estimator", "choice"), WAYS, ids=way_in_words)
over_ways_and_uses = pytest.mark.parametrize(("estimator", "choice"), WAYS + TYPICAL, ids=way_in_words)
over_ways_of_regression = pytest.mark.parametrize(
    ("estimator", "choice"), [way for way in WAYS if way[0] in REGRESSORS], ids=way_in_words
)
over_bases = pytest.mark.parametrize(("estimator", "choice"), BASES, ids=way_in_words)
over_estimators = pytest.mark.parametrize("estimator", ESTIMATORS)
over_rows = pytest.mark.parametrize("estimator", FROM_ROWS)
over_weighted = pytest.mark.parametrize("estimator", WEIGHTED)
over_all_weighted = pytest.mark.parametrize(
    "estimator", [e for e in FROM_ROWS if e in WEIGHTED or getattr(e, "_takes_weights", False)]
)
over_numbers = pytest.mark.parametrize("estimator", [*REGRESSORS, *SECOND_VIEW])
over_kerneled = pytest.mark.parametrize("estimator", KERNELED)
over_pairwise = pytest.mark.parametrize("estimator", PAIRWISE)
over_regressors = pytest.mark.parametrize("estimator", REGRESSORS)
over_functions = pytest.mark.parametrize("function", FUNCTIONS)
over_modules = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)


def make_data(estimator, n=24, columns=3, seed=0):
    """Return rows and a target or labels that suit the estimator."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    signal = np.sin(2.0 * X[:, 0]) + (X[:, 1:2] ** 2).sum(axis=1)
    if is_classifier(estimator()) or estimator is problems.KernelFisherDiscriminant:
        return X, np.where(signal > np.median(signal), "up", "down")
    return X, signal + 0.1 * rng.normal(size=n)


def seeded(estimator, **parameters):
    """Return an estimator that makes the same random choices every time, where it makes any."""
    kinds = parameters_of(estimator)
    if "random_state" in kinds:
        parameters.setdefault("random_state", 0)
    if parameters.get("basis") is not None:
        parameters["basis"] = Basis.of(parameters["basis"]).with_params(random_state=0)
    return estimator(**parameters)


def quick_kernel(estimator):
    """Return a kernel with which a smoke test is quick: whole paths of many components take their time, linear ones do
    not.
    """
    return Linear() if is_additive(estimator) else RBF(SIGMA)


def is_additive(estimator):
    """Return whether an estimator is a sum of components, whatever its kernel."""
    return issubclass(estimator, SelectorMixin)


def location_of(model):
    """Return the word for the prediction of a regressor where all inputs are equal; None where rounding decides."""
    name = type(model).__name__
    return "kept" if name.startswith("Pruned") else None if name.startswith(("Fused", "Kernel")) else "mean"


def make_estimator(estimator, **parameters):
    """Return an estimator with a fixed kernel where it has one, so that its width does not hide what is tested."""
    if "kernel" in parameters_of(estimator):
        parameters.setdefault("kernel", RBF(SIGMA))
    return seeded(estimator, **parameters)


def in_units(estimator, factor):
    """Return the parameters that are measured in the units of the target, for a target multiplied by the factor."""
    parameters = parameters_of(estimator)
    weights = {name: parameters[name] for name in ("zeta", "c", "rho") if parameters.get(name) is not None}
    return {name: abs(factor) * value for name, value in weights.items()}


def first_rows(parameters, rows):
    """Return the arguments of a declaration for some of the training rows: validation points are compared with those
    only.
    """
    matrices = {name: matrix for name, matrix in parameters.items() if name.startswith("K_")}
    subset = {name: K[:, rows] if name.endswith("_val") else K[np.ix_(rows, rows)] for name, K in matrices.items()}
    subset |= {name: parameters[name][rows] for name in ("Z",) if name in parameters}
    return parameters | subset


def on_matrix(parameters, K):
    """Return the arguments of a declaration on another matrix: points that are symmetric."""
    return parameters | ({"K_mirrored": K} if "K_mirrored" in parameters else {})


def output(model, X):
    """Return the numbers a fitted model computes."""
    return model.decision_function(X) if is_classifier(model) else model.predict(X)


def small_arguments(case, n, seed):
    """Return the arguments of a page's case on n random training rows, and as many others as the page itself asks
    for.
    """
    plain = replace(case, kernel=RBF(SIGMA), every=1, standardize=False)

    def draw(rows):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(rows, 2))
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=rows)
        return plain.arguments(X, y > np.median(y) if case.labels else y)

    trained = draw(n)["y"].size
    return draw(n * n // trained)


def arguments_of(module, n=12, seed=3):
    """Return a small kernel matrix, a target or labels, and the parameters of the demonstration."""
    arguments = small_arguments(module.DEMONSTRATION.cases[0], n, seed)
    return arguments.pop("K"), arguments.pop("y"), arguments


def assert_unfitted(model):
    """It says that it is not fitted, and has no attribute of a fit but those that describe the columns."""
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    remaining = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert remaining <= {"n_features_in_", "feature_names_in_"}
