"""The models of ``substrate fit`` by name, each choosing its own weight unless one is given.

=========  ==============================  ===============================================  =========
name       estimator                       what is chosen, and by what                      bound
=========  ==============================  ===============================================  =========
stack      ``StackedLSSVM...``             machines and their weights, leave-one-out        weights
lssvm      ``LSSVM...CV``                  gamma, kernel, leave-one-out on training rows    yes
robust     ``LSSVMRegressor(robust=...)``  gamma, kernel, mean absolute leave-one-out       no
sparse     ``SparseLSSVM...CV``            gamma, kernel, leave-one-out on training rows    yes
l1         ``FusedL1Substrate...``         zeta, by the held-out rows                       yes
structure  ``FusedMaximalVariation...``    rho, by the held-out rows                        yes
fused      ``LSSVM...CV``                  gamma, kernel, by the held-out rows              yes
=========  ==============================  ===============================================  =========

``auto`` is lssvm, or sparse where a kernel matrix of all rows is too large to decompose often. With ``--gamma``,
``--zeta`` or ``--rho`` the plain machine at that weight is fitted instead; ``stack`` and ``fused`` have none. Kernels
are those of ``kernels="families"``, where the rows are few also along slopes from the best of them; a kernel that is
named is tried at a few widths. l1, structure, and machines at a given weight or width have the RBF kernel unless
another is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

import problems
from problems.estimators.chosen.families import FAMILIES, MULTIPLES
from problems.tables.dependent_rows import INDEPENDENT, DependentRows, check_split
from problems.tables.inputs import Input
from problems.tables.preparation import split_rows
from problems.tables.sizes import BASIS, EVALUATIONS, MOST_DENSE
from substrate.arrays import Array, positive
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Categorical, Kernel, Linear, Matern, as_kernel
from substrate.reduced import Basis

__all__ = [
    "MODELS",
    "N_FAMILIES",
    "SCREENED_KERNELS",
    "SCREENED_ROWS",
    "WIDTHS",
    "Choices",
    "ModelKind",
    "Weights",
    "fit_model",
    "kernel_of",
    "refit_model",
]

#: Widths that are tried, as multiples of the median distance of the training rows.
WIDTHS = (0.25, 0.5, 1.0, 2.0)
#: Kernels of all families, at their widths.
N_FAMILIES = 1 + (len(FAMILIES) - 1) * len(MULTIPLES)
#: Families that are added to a plane where rows are in the order of time.
_BESIDE_A_PLANE: tuple[Kernel, ...] = (RBF(), Matern(nu=2.5))
#: Training rows up to which slopes are followed from the best of them, of the models that can.
MOST_SEARCHED = {"stack": 1000, "lssvm": 1000, "fused": 1000, "sparse": MOST_DENSE}
#: Of more rows a sparse model searches on so many drawn ones, and judges so many of the best kernels on all of them.
SCREENED_ROWS, SCREENED_KERNELS = 800, 2


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One entry of the table above: the weight it has, the stems of its estimators, whether validation rows choose."""

    weight: str
    chosen: str
    weight_option: str
    validated: bool
    tries_widths: bool
    regression_only: bool = False
    #: Whether what was chosen can be fitted again to all rows, and classes can have weights.
    least_squares: bool = True


def _penalized_kind(weight: str, stem: str) -> ModelKind:
    """Return a model with a norm as its penalty, whose weight the held-out rows choose."""
    return ModelKind(
        weight=weight,
        chosen=f"Fused{stem}",
        weight_option=stem,
        validated=True,
        tries_widths=False,
        least_squares=False,
    )


MODELS: Mapping[str, ModelKind] = {
    "stack": ModelKind(weight="gamma", chosen="StackedLSSVM{}", weight_option="", validated=False, tries_widths=True),
    "lssvm": ModelKind(weight="gamma", chosen="LSSVM{}CV", weight_option="LSSVM{}", validated=False, tries_widths=True),
    "robust": ModelKind(
        weight="gamma",
        chosen="LSSVM{}",
        weight_option="LSSVM{}",
        validated=False,
        tries_widths=True,
        regression_only=True,
    ),
    "sparse": ModelKind(
        weight="gamma", chosen="SparseLSSVM{}CV", weight_option="SparseLSSVM{}", validated=False, tries_widths=True
    ),
    "l1": _penalized_kind("zeta", "L1Substrate{}"),
    "structure": _penalized_kind("rho", "MaximalVariation{}"),
    "fused": ModelKind(weight="gamma", chosen="LSSVM{}CV", weight_option="", validated=True, tries_widths=True),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights given on the command line, None where the model chooses."""

    gamma: float | None = None
    zeta: float | None = None
    rho: float | None = None

    def of(self, model: str) -> float | None:
        """Return the weight of a model; one that it does not have is refused."""
        weight = MODELS[model].weight
        for parameter in fields(self):
            if parameter.name != weight and getattr(self, parameter.name) is not None:
                other = parameter.name
                owner = {"zeta": "l1", "rho": "structure"}.get(other, "lssvm")
                raise DeclarationError(
                    f"--model {model} has no --{other}; its weight is --{weight} (--{other} is that of --model {owner})"
                )
        value: float | None = getattr(self, weight)
        return None if value is None else positive(value, f"--{weight}")


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the command line."""

    target: str
    task: str = "auto"
    model: str = "lssvm"
    kernel: str = "rbf"
    sigma: float | None = None
    weights: Weights = field(default_factory=Weights)
    one_hot: Sequence[str] = ()
    #: Categories in their order, by the column that becomes their ranks.
    ordered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: How categories enter: "one-hot", as 0 and 1, or "kernel", by one of their own; then their columns, once known.
    categorical: str = "one-hot"
    category_columns: tuple[int, ...] = ()
    #: The column of the date that orders the rows, once known; None where there is none.
    time_column: int | None = None
    standardise: bool = True
    validation: float = 0.25
    seed: int = 0
    #: The column whose groups are held out and left out whole, and how rows are held out: "random" or "time".
    group: str | None = None
    split: str = "random"
    dates: Sequence[str] = ()
    ids: Sequence[str] = ()
    impute: str = "refuse"
    #: "balanced", or a weight for every label as it is written in the table.
    class_weight: str | Mapping[str, float] | None = None
    refit: bool = True
    n_basis: int = BASIS
    #: Evaluations of the search along slopes (None: as many as its rows allow), and seconds for all of it.
    evaluations: int | None = None
    seconds: float | None = None
    #: Whether bars on the terminal show how far a fit is.
    shown: bool = False
    #: Shapes that hold everywhere: parameters of the estimator, columns by name, or by number once they are known.
    shapes: Mapping[str, Any] = field(default_factory=dict)

    def with_shapes_of(self, features: Sequence[str], task: str) -> "Choices":
        """Return the choices with the columns of the shapes by number, or an error before any work."""
        if not self.shapes:
            return self
        if self.model != "lssvm" or task != "regression":
            raise DeclarationError("--monotone, --convex and --bounds are for a regression by --model lssvm")
        named = [*self.shapes.get("monotone", {}), *self.shapes.get("convex", ())]
        if strange := [name for name in named if name not in features]:
            raise DeclarationError(f"a shape names {strange[0]!r}; the inputs are {', '.join(map(repr, features))}")
        numbers = {name: number for number, name in enumerate(features)}
        shapes: dict[str, Any] = dict(self.shapes)
        if "monotone" in shapes:
            shapes["monotone"] = {numbers[name]: sign for name, sign in shapes["monotone"].items()}
        if "convex" in shapes:
            shapes["convex"] = [numbers[name] for name in shapes["convex"]]
        return replace(self, shapes=shapes)

    @property
    def tries_families(self) -> bool:
        """Return whether the kernel is chosen among the families."""
        chosen = self.sigma is None and self.weights.of(self.model) is None and not self.shapes
        return chosen and self.kernel == "families" and MODELS[self.model].tries_widths

    def with_columns_of(self, inputs: Sequence[Input]) -> "Choices":
        """Return the choices with the columns of the date and of the categories that have a kernel of their own."""
        features = [input_ for input_ in inputs for _ in input_.features]
        columns = tuple(number for number, input_ in enumerate(features) if input_.by_kernel)
        if columns and self.model not in ("lssvm", "sparse"):
            raise DeclarationError(
                f"--categorical kernel is for --model lssvm and sparse, received {self.model}; take one-hot"
            )
        dates = self.dates[:1] if self.split == "time" else ()
        time_column = next((number for number, input_ in enumerate(features) if input_.name in dates), None)
        return replace(self, category_columns=columns, time_column=time_column)

    def budget(self, n_rows: int) -> int:
        """Return how many kernels along slopes from the best of the families are tried, on so many training rows."""
        most = MOST_SEARCHED.get(self.model)
        if not self.tries_families or most is None:
            return 0
        if self.evaluations is not None:
            return self.evaluations
        return EVALUATIONS if n_rows <= most else 0

    def is_screened(self, n_rows: int) -> bool:
        """Return whether kernels are searched on some of the rows, and the best of them judged on all."""
        many = n_rows > MOST_SEARCHED["sparse"]
        return self.model == "sparse" and many and self.tries_families and self.evaluations is None

    def n_kernels(self, n_rows: int) -> float:
        """Return how many kernels are judged on all rows, with the searches on halves of them counted as shares
        of one.
        """
        if self.is_screened(n_rows):
            return SCREENED_KERNELS
        if self.tries_families:
            return N_FAMILIES + 1.5 * self.budget(n_rows)
        chosen = self.sigma is None and self.weights.of(self.model) is None and not self.shapes
        widths = chosen and MODELS[self.model].tries_widths
        return len(WIDTHS) if widths else 1


def estimator_class(model: str, task: str, weight: float | None) -> Any:
    """Return the estimator of a name, or an error before any work."""
    kind = MODELS[model]
    if kind.regression_only and task != "regression":
        raise DeclarationError(
            f"--model {model} is for regression only; take lssvm, l1, structure or fused for classes"
        )
    stem = kind.chosen if weight is None else kind.weight_option
    if not stem:
        raise DeclarationError(f"--model {model} chooses its own {kind.weight}; to give one, take --model lssvm")
    name = stem.format("Regressor" if task == "regression" else "Classifier")
    if name not in problems.ESTIMATORS:
        raise DeclarationError(f"--model {model} needs {name}, which this release does not have; take lssvm or l1")
    return getattr(problems, name)


def check_dependence(choices: Choices) -> None:
    """Refuse groups and time where a model cannot respect them."""
    check_split(choices.split, choices.group, choices.model, choices.weights.of(choices.model))


def check_validation(model: str, weight: float | None, n_held_out: int) -> None:
    """Refuse a model that chooses by held-out rows where there are none."""
    if MODELS[model].validated and weight is None and not n_held_out:
        name = MODELS[model].weight
        raise DeclarationError(f"--model {model} chooses {name} by held-out rows; give --validation 0.25 or --{name}")


def fit_model(
    choices: Choices,
    task: str,
    class_weight: Any,
    X: Array,
    y: Any,
    X_val: Array,
    y_val: Any,
    dependence: DependentRows = INDEPENDENT,
) -> Any:
    """Return the model, fitted to the training rows, its weight given or chosen."""
    model, weight = choices.model, choices.weights.of(choices.model)
    kind, estimator = MODELS[model], estimator_class(model, task, weight)
    check_validation(model, weight, len(y_val))
    kernel = _with_categories(kernel_of(choices.kernel, choices.sigma), choices, X.shape[1])
    options = _options(estimator, choices, class_weight, X.shape[0])
    if weight is not None:
        return _quiet(estimator(kernel=kernel, **{kind.weight: weight}, **options).fit(X, y))
    if choices.shapes:
        folds = dependence.folds(X.shape[0], task, choices.seed)
        return _quiet(estimator(kernel=kernel, cv=folds, **options).fit(X, y))
    kernels: Any = _widths(kernel, X) if kind.tries_widths else None
    if choices.tries_families:
        kernels = "families"
        if dependence.in_time and task == "regression" and not choices.category_columns:
            kernels = _kernels_in_time(X, choices.time_column)
        elif choices.category_columns:
            kernels = [_with_categories(family, choices, X.shape[1]) for family in FAMILIES]
        if choices.is_screened(X.shape[0]):
            kernels = _screen_kernels(choices, task, class_weight, kernels, X, y, dependence)
    if model == "robust":
        shown = {"verbose": int(choices.shown)}
        search = problems.LSSVMRegressorCV(kernel=kernel, kernels=kernels, loss="mean_absolute", **shown).fit(X, y)
        return estimator(kernel=search.kernel_, gamma=float(search.gamma_), **options).fit(X, y)
    tried = {} if kernels is None else {"kernels": kernels}
    if (budget := choices.budget(X.shape[0])) and model != "stack":
        tried |= {"search": "gradient", "max_evaluations": budget}
    if kind.validated:
        return _quiet(estimator(kernel=kernel, cv=None, **tried, **options).fit(X, y, X_val, y_val))
    if dependence.is_independent:
        return _quiet(estimator(kernel=kernel, **tried, **options).fit(X, y))
    if budget:
        tried |= {"widths": "shared"}  # whether inputs have widths of their own is decided by single rows
    if model == "sparse" or (dependence.in_time and task == "regression"):
        return _quiet(estimator(kernel=kernel, cv=dependence.folds(X.shape[0], task), **tried, **options).fit(X, y))
    return _quiet(estimator(kernel=kernel, cv=dependence.rule, **tried, **options).fit(X, y, groups=dependence.groups))


def refit_model(estimator: Any, choices: Choices, task: str, class_weight: Any, X: Array, y: Any) -> Any:
    """Return the plain machine with the kernel and the gamma of a fitted one, fitted to all rows; of a stack the
    kernels of its machines that have a weight, with new gammas and weights.
    """
    suffix = "Regressor" if task == "regression" else "Classifier"
    if choices.model == "stack":
        stack = getattr(problems, MODELS["stack"].chosen.format(suffix))
        options = _options(stack, choices, class_weight, X.shape[0])
        numbers = np.flatnonzero(np.reshape(estimator.stack_weights_, (len(estimator.kernels_), -1)).any(axis=1))
        kernels = [estimator.kernels_[number] for number in numbers]
        return _quiet(stack(kernels=kernels, **options).fit(X, y))
    plain = getattr(
        problems, MODELS["lssvm" if choices.model == "fused" else choices.model].weight_option.format(suffix)
    )
    gamma = float(getattr(estimator, "gamma_", estimator.gamma))
    options = _options(plain, choices, class_weight, X.shape[0])
    return _quiet(plain(kernel=estimator.kernel_, gamma=gamma, **options).fit(X, y))


def _options(estimator: Any, choices: Choices, class_weight: Any, n_rows: int) -> dict[str, Any]:
    """Return seed, basis, weights of classes and bars, as far as an estimator has them."""
    parameters = estimator().get_params(deep=False)
    basis = Basis(min(choices.n_basis, n_rows), random_state=choices.seed)
    wanted: dict[str, Any] = {"random_state": choices.seed, "basis": basis}
    if choices.shown:
        wanted |= {"verbose": 1}
    wanted |= {} if class_weight is None else {"class_weight": class_weight}
    wanted |= choices.shapes
    wanted |= {"robust": "hampel"} if choices.model == "robust" else {}
    return {name: value for name, value in wanted.items() if name in parameters}


def _quiet(estimator: Any) -> Any:
    """Take the bars away: how a fit was shown is no part of a model."""
    parameters = estimator.get_params(deep=False)
    return estimator.set_params(verbose=0) if "verbose" in parameters else estimator


def kernel_of(name: str, sigma: float | None) -> Kernel:
    """Return the kernel of a name, with its width where one was given; where none is named, the RBF kernel."""
    kernel = as_kernel("rbf" if name == "families" else name)
    if kernel.pairwise:
        raise DeclarationError("--kernel precomputed needs a matrix, not a table; use it from Python")
    if sigma is None:
        return kernel
    if not hasattr(kernel, "sigma"):
        raise DeclarationError(f"--kernel {name} has no width; leave --sigma out, or take rbf, laplacian or matern")
    return replace(kernel, sigma=positive(sigma, "--sigma"))  # type: ignore[call-arg]


def _screen_kernels(
    choices: Choices, task: str, class_weight: Any, kernels: Any, X: Array, y: Any, dependence: DependentRows
) -> list[Kernel]:
    """Return the best kernels of a search on some of the rows, which has a width per input where that is better."""
    labels = y if task == "classification" else None
    _, rows = split_rows(X.shape[0], SCREENED_ROWS / X.shape[0], choices.seed, labels)
    searcher = getattr(problems, f"LSSVM{'Regressor' if task == 'regression' else 'Classifier'}CV")
    options = _options(searcher, choices, class_weight, rows.size)
    options |= {"kernels": kernels, "search": "gradient", "max_evaluations": EVALUATIONS // 2}
    if dependence.is_independent:
        found = searcher(**options).fit(X[rows], y[rows])
    else:
        some = dependence.take(rows)
        found = searcher(cv=some.rule, widths="shared", **options).fit(X[rows], y[rows], groups=some.groups)
    order = np.argsort(-np.asarray(found.cv_results_["mean_test_score"]), kind="stable")
    return [found.cv_results_["param_kernel"][place] for place in order[:SCREENED_KERNELS]]


def _with_categories(kernel: Kernel, choices: Choices, n_inputs: int) -> Kernel:
    """Return the kernel of the numeric columns times that of the categories, which has a width for each of them."""
    if not choices.category_columns:
        return kernel
    categories = Categorical("each").on(*choices.category_columns)
    numeric = [column for column in range(n_inputs) if column not in choices.category_columns]
    return kernel.on(*numeric) * categories if numeric else categories


def _kernels_in_time(X: Array, time_column: int | None) -> list[Kernel]:
    """Return the families at a few widths, alone and added to a plane; the date, if there is one, is in the plane only.

    A stationary kernel returns to the mean beyond the last row, a plane goes on; and what the other inputs do is known
    at later dates only if it does not depend on them.
    """
    others = [column for column in range(X.shape[1]) if column != time_column]
    alone = [kernel for family in FAMILIES[1:] for kernel in _widths(family, X) or [family]]
    if not others:
        return [Linear(), *alone]
    restricted = [kernel for family in _BESIDE_A_PLANE for kernel in _widths(family, X[:, others]) or [family]]
    return [Linear(), *alone, *(Linear() + kernel.on(*others) for kernel in restricted)]


def _widths(kernel: Kernel, X: Array) -> list[Kernel] | None:
    """Return kernels of several widths around the median distance, where the width was not given."""
    if getattr(kernel, "sigma", None) != "median":
        return None
    middle: Any = kernel.resolved(X)
    return [replace(middle, sigma=share * middle.sigma) for share in WIDTHS]
