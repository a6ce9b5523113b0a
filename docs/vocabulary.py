"""``python docs/vocabulary.py [--write]``: which estimator has which method, parameter and attribute, from the classes.

What an estimator lacks that its neighbours have is explained by :data:`REASONS`; a method without an entry there and
without a reason is a fault, as is a reason for a method that exists.
"""

import inspect
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from docstring_fields import ROOT
from generated_page import page_command, table

import problems

__all__ = ["METHODS", "PAGE", "REASONS", "Vocabulary", "main"]

PAGE = ROOT / "docs" / "vocabulary.md"

_HEAD = """# Vocabulary

Methods, parameters and attributes have the same name in every estimator. Every estimator has `fit`, `predict`, `score`
and `save`; `certify(X, y=None, sample_weight=None)` checks the present model against its training data, and `prove`
does so in ball arithmetic. `leave_one_out(X=None, y=None)` and `left_out_importance`, which permutes one input after
the other, need the rows where the model does not keep them, and then the `sample_weight` of the fit too. A machine
that chooses a weight has `gamma_`, `zeta_` or `rho_`, `criterion_`, `criterion_lower_bound_` and `path_` after `fit`;
`cv` states how candidates are evaluated: `"loo"`, `"gcv"`, `"evidence"`, `"training"` (pruning), a number of folds, a
splitter or an iterable of splits, None for validation rows. `predict_interval(X, coverage)` of a regressor returns
intervals, and `interval_guarantee` their conditions; `predict_proba` and `predict_set(X, coverage)` of a classifier
return probabilities and sets of labels, and `set_guarantee` their conditions; `calibrate(X, y)` bases both on rows that
were not used in the fit.

Made by `python docs/vocabulary.py --write` from the classes; a test compares this page with the classes. A number
refers to the reason below for a method that is missing.
"""

#: What is asked of every estimator: the heading of a column, and whether a class has it.
METHODS: Mapping[str, Any] = {
    "certify": lambda kind: hasattr(kind, "certify"),
    "prove": lambda kind: hasattr(kind, "prove"),
    "leave_one_out": lambda kind: hasattr(kind, "leave_one_out"),
    "left_out_importance": lambda kind: hasattr(kind, "left_out_importance"),
    "predict_interval": lambda kind: hasattr(kind, "predict_interval"),
    "predict_proba": lambda kind: hasattr(kind, "predict_proba"),
    "predict_set": lambda kind: hasattr(kind, "predict_set"),
    "sample_weight in fit": lambda kind: "sample_weight" in inspect.signature(kind.fit).parameters,
}
#: What every estimator must have.
_EVERYWHERE = ("fit", "predict", "score", "save", "certify", "prove", "calibrate")

_COLUMNS = ("ALSSVMClassifier", "AdaPinvClassifier", "IPLSSVMClassifier", "LS2SVMClassifier")
_PRUNED = ("PrunedLSSVMClassifier", "PrunedLSSVMRegressor")
_L1 = (
    "FusedL1SubstrateClassifier",
    "FusedL1SubstrateRegressor",
    "L1SubstrateClassifier",
    "L1SubstrateRegressor",
)
_VARIATION = (
    "FusedMaximalVariationClassifier",
    "FusedMaximalVariationRegressor",
    "MaximalVariationClassifier",
    "MaximalVariationRegressor",
)
_CLASSIFIERS = tuple(name for name in sorted(problems.ESTIMATORS) if name.removesuffix("CV").endswith("Classifier"))
_REGRESSORS = tuple(name for name in sorted(problems.ESTIMATORS) if name not in _CLASSIFIERS)

#: Why some estimators lack what others have: column, estimators, reason.
REASONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "leave_one_out",
        _COLUMNS,
        "A training row is an equation of the system and, where it was kept, a column too. Without an equation a "
        "residual is $e_i / (1 - h_{ii})$; without its column the machine is on another basis, and a leverage "
        "says nothing about it.",
    ),
    (
        "leave_one_out",
        _L1,
        "The support changes when a row is left out. $e_i / (1 - h_{ii})$ with a fixed support is exact only where it "
        'does not; folds and paths (`cv="loo"` of `FusedL1Substrate*`) are exact.',
    ),
    (
        "leave_one_out",
        _VARIATION,
        "The bound $t_l$ of a component is attained at a few rows. Without one of them the bound changes, and no "
        'leverage of the remaining rows gives the machine; `cv="loo"` of `FusedMaximalVariation*` follows its path.',
    ),
    (
        "leave_one_out",
        ("StackedLSSVMClassifier", "StackedLSSVMRegressor"),
        "The weights of its machines depend on all left-out errors, and change without a row. `criterion_` is the mean "
        "square of the left-out errors of the stack.",
    ),
    (
        "leave_one_out",
        _PRUNED,
        "Which rows are kept depends on every row. With the kept rows fixed, use `model.machine_.leave_one_out()`.",
    ),
    (
        "left_out_importance",
        _PRUNED,
        "Use `model.machine_.left_out_importance()`, on the rows that were kept.",
    ),
    (
        "left_out_importance",
        (*_COLUMNS, *_L1, *_VARIATION),
        "There is no `leave_one_out`; use scikit-learn's `permutation_importance` on rows that were not fitted.",
    ),
    (
        "left_out_importance",
        ("StackedLSSVMClassifier", "StackedLSSVMRegressor"),
        "There is no `leave_one_out`; use the machine of the largest weight, `LSSVMRegressor(model.kernel_)`, or "
        "scikit-learn's `permutation_importance` on rows that were not fitted.",
    ),
    (
        "left_out_importance",
        ("KernelClassifier", "KernelRegressor"),
        "It would need a fit for every row and permutation, since the pieces of the loss may change; use "
        "scikit-learn's `permutation_importance` on rows that were not fitted.",
    ),
    (
        "predict_interval",
        _CLASSIFIERS,
        "A class is not a number; use `predict_set`.",
    ),
    (
        "predict_proba",
        _REGRESSORS,
        "A number has no class; use `predict_interval`.",
    ),
    (
        "predict_set",
        _REGRESSORS,
        "The set of numbers is an interval; use `predict_interval`.",
    ),
    (
        "sample_weight in fit",
        _COLUMNS,
        "These machines do not minimise errors: they solve the equations $y_i f(x_i) = 1 - \\alpha_i/\\gamma$ of all "
        "rows by least squares, with $\\alpha_i = 0$ where column i was dropped. A weight on the diagonal, "
        "$\\alpha_i/(\\gamma v_i)$, vanishes with the column, so that row i would count as if it had none; a weight of "
        "the equation has no effect where all columns are kept and the equations hold exactly. Neither is the weight "
        "of an error, and the papers define no third.",
    ),
    (
        "sample_weight in fit",
        _COLUMNS[:1],
        "An Adaline goes through the patterns one by one and eliminates those that it fits. The machine on the rows "
        "left is an LS-SVM, which could be weighted; which rows are left follows from single steps, in which the "
        "weight of an error could weigh a step, a visit or the threshold: three different selections, none "
        "of which is equivalent to repeated rows. `LSSVMClassifier` on the rows of `support_` takes weights.",
    ),
    (
        "sample_weight in fit",
        (*_L1[:2], *_VARIATION[:2]),
        "A weight of an error is not the weight of its row. As $v_i \\to 0$ the row remains an atom $k(x_i, \\cdot)$ "
        "of (16), or a place where (13) bounds every component, and at $v_i = 0$ it would be dropped with both: the "
        "machine jumps there, whereas least squares, $\\alpha_i = \\gamma v_i e_i$, is continuous.",
    ),
)


class Vocabulary:
    """Estimators against methods, parameters and attributes, and what is wrong with the reasons."""

    def __init__(
        self, estimators: Mapping[str, type[Any]], reasons: Iterable[tuple[str, tuple[str, ...], str]] = REASONS
    ) -> None:
        self.estimators, self.reasons = dict(estimators), tuple(reasons)
        self.cells: dict[str, dict[str, str]] = {}
        self.faults: list[str] = []
        numbers = {(what, name): k for k, (what, names, _) in enumerate(self.reasons, 1) for name in names}
        for name, kind in self.estimators.items():
            self.faults += [f"{name} has no {method}" for method in _EVERYWHERE if not hasattr(kind, method)]
            self.cells[name] = {what: self._cell(name, what, numbers) for what in METHODS}
        self.faults += [f"a reason for {what} of {name}, which does not exist" for what, name in numbers]

    @classmethod
    def of_the_package(cls) -> "Vocabulary":
        """Return the vocabulary of every exported estimator."""
        return cls({name: getattr(problems, name) for name in sorted(problems.ESTIMATORS)})

    def _cell(self, name: str, what: str, numbers: dict[tuple[str, str], int]) -> str:
        number = numbers.pop((what, name), None)
        if METHODS[what](self.estimators[name]):
            if number is not None:
                self.faults.append(f"{name} has {what} and reason {number} says why not")
            return "yes"
        if number is None:
            self.faults.append(f"{name} has no {what}, and no reason is given")
            return ""
        return f"[{number}](vocabulary.md#reason-{number})"

    def page(self) -> str:
        """Return the page as Markdown."""
        rows = [(f"`{name}`", *cells.values()) for name, cells in self.cells.items()]
        headings = ("estimator", *(f"`{what}`" if " " not in what else what for what in METHODS))
        reasons = [f'{k}. <a id="reason-{k}"></a>{what}: {why}' for k, (what, _, why) in enumerate(self.reasons, 1)]
        parameters = {name: kind().get_params(deep=False) for name, kind in self.estimators.items()}
        attributes = {name: documented_attributes(kind) for name, kind in self.estimators.items()}
        return "\n".join(
            [
                _HEAD,
                table("## Methods", headings, rows),
                "## Why not\n",
                *reasons,
                "",
                table("## Parameters", ("parameter", "estimators"), self._owners(parameters)),
                table(
                    "## Fitted attributes",
                    ("attribute", "estimators"),
                    self._owners(attributes),
                ),
            ]
        )

    def _owners(self, owned: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
        """Return each name with the estimators that have it."""
        owners: dict[str, list[str]] = defaultdict(list)
        for estimator, names in owned.items():
            for name in names:
                owners[name].append(estimator)
        return [
            (f"`{name}`", "all" if len(who) == len(self.estimators) else ", ".join(f"`{owner}`" for owner in who))
            for name, who in sorted(owners.items())
        ]


def documented_attributes(kind: type) -> list[str]:
    """Return the attributes of a fit that the docstring of an estimator names."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes\n----------\n")
    lines = section.partition("\n\n")[0].splitlines()
    named = [line.partition(":")[0].split(",") for line in lines if line and not line.startswith(" ")]
    return [name.strip() for names in named for name in names]


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return page_command(Vocabulary.of_the_package(), PAGE, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
