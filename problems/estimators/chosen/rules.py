r"""The rules of a search: the values that its parameters may have, its kernels, and the rows left out together.

``cv="groups"`` leaves every group of rows out in turn, ``cv="blocks"`` every row with its ``reach`` neighbours on both
sides, of which only the row itself counts (:mod:`substrate.left_out.leave_one_out`). Both are closed forms of
one decomposition, as leave-one-out is. ``cv="noise"`` compares nothing: gamma is the root of an equation.

**Families of kernels** are what ``kernels="families"`` tries,

.. math:: k_0(x, z) = x^T z, \qquad k_{f, c}(x, z) = f\!\left(\frac{d_f(x, z)}{c\, m_f}\right), \qquad
          m_f = \operatorname{median}_{i < j} d_f(x_i, x_j), \qquad c \in \{\tfrac14, \tfrac12, 1, 2, 4\}

with f the RBF, the Matérn kernels of smoothness 3/2 and 5/2 (d the Euclidean distance) and the Laplacian kernel (d the
sum of absolute differences): 21 kernels. They differ in how smooth the fitted function is, which no width can replace:
from no derivative (Laplacian) over one and two to all of them (RBF), and a plane. The widths are multiples of the
median distance, so a common unit of the columns, and an offset, change nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
from sklearn.model_selection import GroupKFold, LeaveOneOut, check_cv

from substrate.arrays import ascending_pair, is_device_array, positive, to_numpy, whole_number
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Kernel, Laplacian, Linear, Matern, Restricted, as_kernel
from substrate.left_out.criteria import OF_SPECTRUM
from substrate.left_out.leave_one_out import LeftOutBlocks, Split, checked_splits

__all__ = [
    "RECOMMENDED",
    "Widths",
    "at_all_widths",
    "at_median_widths",
    "blocks_of",
    "check_folds",
    "check_groups",
    "check_kernels",
    "check_rules",
    "criterion_of",
    "family_name",
    "is_families",
    "is_width",
    "judged_by",
    "list_unresolved",
    "refuse_device",
    "splits_of",
    "trainable_splits",
    "widen",
    "widths_of",
]

Widths = Literal["auto", "shared", "each"]
#: The words of ``cv`` for rows that are left out together.
_BLOCKS = ("blocks", "groups")
#: The parameters of ``recommended``, of which an estimator takes those that it has.
RECOMMENDED: Mapping[str, Any] = {"kernels": "families", "search": "gradient"}

#: One kernel of each family, its width taken from the data.
FAMILIES: tuple[Kernel, ...] = (Linear(), RBF(), Laplacian(), Matern(nu=1.5), Matern(nu=2.5))
#: The widths that are tried, in median distances.
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)

_LEAST, _MOST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)


def criterion_of(model: Any) -> str:
    """Return "loo", "gcv", "evidence", "folds", "blocks", of rows that are left out together, or "noise"."""
    together = () if model.basis is not None else (*_BLOCKS, "noise") if hasattr(model, "noise") else _BLOCKS
    judged = judged_by(model.cv, (*OF_SPECTRUM, *together))
    return "blocks" if judged in _BLOCKS else judged


def widths_of(model: Any) -> Widths | None:
    """Return how a gradient search treats a shared width; None: it only refines it."""
    if model.widths is not None or not is_families(model.kernels):
        return model.widths
    return "auto" if criterion_of(model) in OF_SPECTRUM else "shared"


def check_rules(model: Any) -> None:
    """Refuse parameters before any work."""
    criterion, widths = criterion_of(model), model.widths
    positive(model.gap, "gap")
    check_kernels(model.kernels, model.__sklearn_tags__().input_tags.pairwise)
    if model.gamma_range is not None:
        ascending_pair(model.gamma_range, "the range of gamma")
    if model.search not in (None, "gradient"):
        raise DeclarationError(f"search must be None or 'gradient', received {model.search!r}")
    if widths is not None and not (isinstance(widths, str) and widths in get_args(Widths)):
        raise DeclarationError(f"widths must be None, 'auto', 'shared' or 'each', received {widths!r}")
    if widths is not None and model.search != "gradient":
        raise DeclarationError(f"widths={widths!r} is decided by search='gradient', received search={model.search!r}")
    if model.max_evaluations is not None:
        whole_number(model.max_evaluations, "max_evaluations", 1)
    if model.time_limit is not None:
        positive(model.time_limit, "time_limit")
    if model.search == "gradient" and np.size(model.linear_columns):
        raise DeclarationError(
            "search='gradient' supports a bias, but no other unpenalised columns; use a list of kernels, or "
            "linear_columns=()"
        )
    if criterion == "blocks" and widths == "auto":
        raise DeclarationError(
            f"widths='auto' compares machines by single rows left out, and cv={model.cv!r} leaves rows out together; "
            "use widths='shared' or widths='each'"
        )
    noise, by_blocks = getattr(model, "noise", None), isinstance(model.cv, str) and model.cv == "blocks"
    if model.reach is not None:
        whole_number(model.reach, "reach", 0)
    if (model.reach is not None) != by_blocks:
        raise DeclarationError(
            "cv='blocks' needs reach, the number of neighbours on each side that share their errors with a row, as "
            "reach=20 for errors that are correlated over 20 rows, since the rows alone do not tell these from the "
            f"function; no other cv has a reach; received cv={model.cv!r} and reach={model.reach!r}"
        )
    if (noise is not None) != (criterion == "noise"):
        raise DeclarationError(
            "cv='noise' needs noise, the standard deviation of the noise in the units of y, and noise is for "
            f"cv='noise' alone; received cv={model.cv!r} and noise={noise!r}"
        )
    if criterion == "noise":
        positive(noise, "noise")
        for name in ("kernels", "search", "gamma_range"):
            if getattr(model, name) is not None:
                raise DeclarationError(
                    f"cv='noise' determines gamma of one kernel and compares nothing, received {name}="
                    f"{getattr(model, name)!r}; set {name}=None, or judge by cv='loo'"
                )


def check_folds(model: Any, groups: Any) -> None:
    """Refuse parameters whose machines are compared by closed forms only."""
    if groups is not None:
        raise DeclarationError(
            "a machine with a shape or robust weights is chosen by folds, not by groups or blocks of rows: use "
            "a number of folds, or splits such as GroupKFold(5).split(X, y, groups)"
        )
    if criterion_of(model) != "folds":
        raise DeclarationError(
            f"cv={model.cv!r} is a closed form of the machine without a shape and robust weights; with robust, "
            "monotone, convex or bounds choose gamma by folds, cv=5"
        )
    if model.kernels is not None or model.search is not None:
        raise DeclarationError(
            "with robust, monotone, convex or bounds gamma is chosen for one kernel: leave kernels and search out, and "
            "choose the kernel without them, or by GridSearchCV"
        )


def check_groups(model: Any, groups: Any, n: int) -> Any:
    """Return the labels of groups, one per row; refuse unused labels, and missing ones that ``cv`` needs."""
    cv = model.cv
    if groups is None:
        if isinstance(cv, str) and cv == "groups":
            raise DataError("cv='groups' leaves groups of rows out: give fit(X, y, groups=...), one label per row")
        return None
    if cv is None or (isinstance(cv, str) and cv not in _BLOCKS):
        raise DeclarationError(
            f"groups are used by cv='groups', by cv='blocks' (where a series ends), by a number of folds and by a "
            f"splitter of scikit-learn, not by cv={cv!r}"
        )
    labels = np.asarray(to_numpy(groups))
    if labels.shape != (n,):
        raise DataError(f"groups must have one label for each of the {n} rows, received shape {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError("groups has a label that is not finite; give every row a label")
    return labels


def blocks_of(model: Any, X: Any, groups: Any) -> tuple[LeftOutBlocks | None, str]:
    """Return which rows a search leaves out together, and a description; None for other criteria. Set ``reach_``."""
    if criterion_of(model) != "blocks":
        return None, ""
    refuse_device(X)
    if model.cv == "groups":
        blocks = LeftOutBlocks.of_groups(groups)
        return blocks, blocks.describe()
    model.reach_ = int(model.reach)
    blocks = LeftOutBlocks.centred(int(X.shape[0]), model.reach_, groups)
    return blocks, f"{blocks.describe()}: reach {model.reach_}; only the row itself counts"


def judged_by(cv: Any, words: tuple[str, ...], or_none: str = "") -> str:
    """Return the meaning of ``cv``: one of ``words``, "folds", or, with ``or_none``, "validation" rows."""
    if isinstance(cv, (bool, float)) or (isinstance(cv, str) and cv not in words) or (cv is None and not or_none):
        raise DeclarationError(
            f"cv must be {', '.join(map(repr, words))}, a number of folds, a splitter, "
            f"{'' if or_none else 'or '}a list of splits{or_none}; received {cv!r}"
        )
    return cv if isinstance(cv, str) else "validation" if cv is None else "folds"


def refuse_device(X: Any) -> None:
    """Refuse arrays of a device, whose rows are not divided."""
    if is_device_array(X):
        raise DeclarationError(
            "folds, blocks and validation rows are of numpy arrays (X.cpu().numpy(), X.get()); on a device use "
            "cv='loo' or cv='gcv'"
        )


def splits_of(model: Any, X: Any, y: Any, kept: Any = None, groups: Any = None) -> tuple[Split, ...]:
    """Return the splits of ``cv``, by numbers among the rows ``kept`` of those given (None: all of them).

    A splitter, or a list of splits, names the rows that were given to fit; a number of folds names none, and divides
    the rows that are kept, drawn at random where there is a ``random_state``. No fold of a number of them divides one
    of the ``groups``.
    """
    refuse_device(X)
    cv, labels = model.cv, bool(model._labels)
    if isinstance(cv, Integral):
        if kept is not None:
            X, y, groups, kept = X[kept], y[kept], None if groups is None else groups[kept], None
        cv = check_cv(cv, y, classifier=labels) if groups is None else GroupKFold(int(cv))
        if model.random_state is not None:
            cv.shuffle, cv.random_state = True, model.random_state
    splitter = LeaveOneOut() if isinstance(cv, str) else check_cv(cv)
    return trainable_splits(splitter.split(X, y, groups), X.shape[0], y if labels else None, kept)


def trainable_splits(splits: Any, n: int, labels: Any = None, kept: Any = None) -> tuple[Split, ...]:
    """Check splits of n rows that also leave at least two rows, and one of every class, to train on.

    ``kept`` are the numbers of the rows of positive weight, None where these are all; the splits that are returned
    number the rows among them.
    """
    pairs = checked_splits(splits, n, kept)
    if kept is not None:
        n, labels = len(kept), None if labels is None else labels[kept]
    for number, (train, valid) in enumerate(pairs):
        if train.size < 2:
            raise DataError(
                f"split {number} has {train.size} training and {valid.size} validation rows of {n}; it needs at least "
                "two and one, so use fewer folds or more rows"
            )
        if labels is not None and np.unique(labels[train]).size < np.unique(labels).size:
            raise DataError(f"split {number} has a class that is absent from its training rows; use stratified folds")
    return pairs


def is_families(kernels: Any) -> bool:
    """Return whether the parameter ``kernels`` asks for the families."""
    return isinstance(kernels, str) and kernels == "families"


def check_kernels(kernels: Any, pairwise: bool) -> None:
    """Refuse a parameter ``kernels`` that is given and no list of kernels; ``pairwise``: X is a kernel matrix."""
    if kernels is None:
        return
    if is_families(kernels):
        if pairwise:
            raise DeclarationError(
                "kernels='families' computes kernels of the inputs, and kernel='precomputed' has none; pass X itself "
                "and leave kernel at its default"
            )
        return
    if isinstance(kernels, (str, Kernel)) or not isinstance(kernels, Sequence) or not kernels:
        raise DeclarationError(f"kernels must be a list of kernels, at least one, or 'families', received {kernels!r}")
    if any(as_kernel(kernel).pairwise for kernel in kernels):
        raise DeclarationError("a precomputed kernel is no candidate; pass it as kernel='precomputed'")


def list_unresolved(kernels: Any) -> list[Kernel]:
    """Return the given kernels, or one of each family, with widths that may depend on the data."""
    return list(FAMILIES) if is_families(kernels) else [as_kernel(kernel) for kernel in kernels]


def at_all_widths(kernels: Any, resolved: Iterable[Kernel]) -> list[Kernel]:
    """Return the candidates, each once: families at all their widths, a list at its own widths."""
    if not is_families(kernels):
        return list(dict.fromkeys(resolved))
    return list(dict.fromkeys(widen(kernel, factor) for kernel in resolved for factor in MULTIPLES))


def widen(kernel: Kernel, factor: float) -> Kernel:
    """Return a kernel with all its widths times a factor; unchanged where it has none."""
    widths = {name: scale for name, scale in kernel.scales().items() if is_width(name)}
    return kernel.with_scales({name: min(max(factor * width, _LEAST), _MOST) for name, width in widths.items()})


def is_width(name: str) -> bool:
    """Return whether the scale of a kernel that has this name is a width."""
    return name.rpartition("__")[2].partition("[")[0] == "sigma"


def at_median_widths(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return, of candidates of families, one of each, at the middle of its widths."""
    families = [list(family) for _, family in groupby(kernels, family_name)]
    return [family[len(family) // 2] for family in families]


def family_name(kernel: Kernel) -> str:
    """Return the family of a kernel, for a certificate: its class, and its smoothness."""
    kernel = kernel.kernel if isinstance(kernel, Restricted) else kernel
    return f"{type(kernel).__name__} {kernel.nu:g}" if isinstance(kernel, Matern) else type(kernel).__name__
