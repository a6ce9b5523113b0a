"""The models of ``substrate fit`` by name, each choosing its own weight unless one is given.

=========  ==============================  ===============================================  =========
name       estimator                       what is chosen, and by what                      bound
=========  ==============================  ===============================================  =========
lssvm      ``LSSVM...CV``                  gamma and width, leave-one-out on training rows  yes
robust     ``RobustLSSVMRegressor``        gamma and width, mean absolute leave-one-out     no
sparse     ``SparseLSSVM...CV``            gamma and width, leave-one-out on training rows  yes
l1         ``FusedL1Substrate...``         zeta, by the validation rows                     yes
structure  ``FusedMaximalVariation...``    rho, by the validation rows                      yes
fused      ``LSSVM...CV``                  gamma and width, by the validation rows          yes
=========  ==============================  ===============================================  =========

With ``--gamma``, ``--zeta`` or ``--rho`` the plain machine at that weight is fitted instead; ``fused`` has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import problems
from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.kernels import Kernel, as_kernel
from substrate.reduced import Basis

__all__ = ["MODELS", "WIDTHS", "ModelKind", "Weights", "fitted", "kernel_of"]

#: Widths that are tried, as multiples of the median distance of the training rows.
WIDTHS = (0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One entry of the table above: the weight it has, the stems of its estimators, whether validation rows choose."""

    weight: str
    chosen: str
    given: str
    validated: bool
    tries_widths: bool
    regression_only: bool = False


MODELS: Mapping[str, ModelKind] = {
    "lssvm": ModelKind("gamma", "LSSVM{}CV", "LSSVM{}", False, True),
    "robust": ModelKind("gamma", "RobustLSSVM{}", "RobustLSSVM{}", False, True, regression_only=True),
    "sparse": ModelKind("gamma", "SparseLSSVM{}CV", "SparseLSSVM{}", False, True),
    "l1": ModelKind("zeta", "FusedL1Substrate{}", "L1Substrate{}", True, False),
    "structure": ModelKind("rho", "FusedMaximalVariation{}", "MaximalVariation{}", True, False),
    "fused": ModelKind("gamma", "LSSVM{}CV", "", True, True),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights given on the command line, None where the model chooses."""

    gamma: float | None = None
    zeta: float | None = None
    rho: float | None = None

    def of(self, model: str) -> float | None:
        """The weight of a model; one that it does not have is refused."""
        own = MODELS[model].weight
        for field in fields(self):
            if field.name != own and getattr(self, field.name) is not None:
                raise DeclarationError(f"--model {model} has no --{field.name}; its weight is --{own}")
        value: float | None = getattr(self, own)
        return value


def estimator_class(model: str, task: str, weight: float | None) -> Any:
    """The estimator of a name, or an error before any work."""
    kind = MODELS[model]
    if kind.regression_only and task != "regression":
        raise DeclarationError(
            f"--model {model} is for regression only; take lssvm, l1, structure or fused for classes"
        )
    stem = kind.chosen if weight is None else kind.given
    if not stem:
        raise DeclarationError(f"--model {model} chooses its own {kind.weight}; to give one, take --model lssvm")
    name = stem.format("Regressor" if task == "regression" else "Classifier")
    if name not in problems.ESTIMATORS:
        raise DeclarationError(f"--model {model} needs {name}, which this release does not have; take lssvm or l1")
    return getattr(problems, name)


def check_validation(model: str, weight: float | None, n_held_out: int) -> None:
    """Models that choose by validation rows need some."""
    if MODELS[model].validated and weight is None and not n_held_out:
        name = MODELS[model].weight
        raise DeclarationError(f"--model {model} chooses {name} by validation rows; give --validation 0.25 or --{name}")


def fitted(
    model: str, task: str, kernel: str, sigma: float | None, weights: Weights, seed: int,
    X: Array, y: Any, X_val: Array, y_val: Any,
) -> Any:  # fmt: skip
    """The model, fitted to the training rows, its weight given or chosen."""
    weight = weights.of(model)
    kind, estimator = MODELS[model], estimator_class(model, task, weight)
    check_validation(model, weight, len(y_val))
    one = kernel_of(kernel, sigma)
    known = estimator().get_params(deep=False)
    seeded: dict[str, Any] = {"random_state": seed} if "random_state" in known else {}
    seeded |= {"basis": Basis(random_state=seed)} if "basis" in known else {}
    if weight is not None:
        return estimator(kernel=one, **{kind.weight: weight}, **seeded).fit(X, y)
    kernels = _widths(one, X) if kind.tries_widths else None
    if model == "robust":
        search = problems.LSSVMRegressorCV(kernel=one, kernels=kernels, loss="mean_absolute").fit(X, y)
        return estimator(kernel=search.kernel_, gamma=float(search.gamma_)).fit(X, y)
    tried = {} if kernels is None else {"kernels": kernels}
    judged = {"cv": None} if kind.validated else {}
    made = estimator(kernel=one, **tried, **judged, **seeded)
    return made.fit(X, y, X_val, y_val) if kind.validated else made.fit(X, y)


def kernel_of(name: str, sigma: float | None) -> Kernel:
    """The kernel of a name, with its width where one was given."""
    kernel = as_kernel(name)
    if kernel.pairwise:
        raise DeclarationError("--kernel precomputed needs a matrix, not a table; use it from Python")
    if sigma is None:
        return kernel
    if not hasattr(kernel, "sigma"):
        raise DeclarationError(f"--kernel {name} has no width; leave --sigma out, or take rbf, laplacian or matern")
    return replace(kernel, sigma=sigma)  # type: ignore[call-arg]


def _widths(kernel: Kernel, X: Array) -> list[Kernel] | None:
    """Kernels of several widths around the median distance, where the width was not given."""
    if getattr(kernel, "sigma", None) != "median":
        return None
    middle: Any = kernel.resolved(X)
    return [replace(middle, sigma=share * middle.sigma) for share in WIDTHS]
