"""Which rows a search leaves out together: those of a group, or a row with its neighbours in time.

``cv="groups"`` leaves every group of rows out in turn, ``cv="blocks"`` every row with its ``reach`` neighbours on both
sides, of which only the row itself counts (:mod:`substrate.least_squares.left_out_blocks`). Both are closed forms of
one decomposition, as leave-one-out is.
"""

from typing import Any

import numpy as np

from substrate.arrays import to_numpy, whole_number
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.left_out_blocks import LeftOutBlocks

__all__ = ["BLOCKS", "blocks_of", "check_blocks", "check_groups", "describe_blocks"]

#: The words of ``cv`` for rows that are left out together.
BLOCKS = ("blocks", "groups")


def check_blocks(model: Any) -> None:
    """Refuse a reach that is none, not used or not given, and a rule of widths that needs independent rows."""
    reach = getattr(model, "reach", None)
    if reach is not None:
        whole_number(reach, "reach", 0)
        if model.cv != "blocks":
            raise DeclarationError(
                f"reach is the number of neighbours that cv='blocks' leaves out, received cv={model.cv!r}"
            )
    if isinstance(model.cv, str) and model.cv == "blocks" and reach is None:
        raise DeclarationError(
            "cv='blocks' needs reach, the number of neighbours on each side that share their errors with a row, as "
            "reach=20 for errors that are correlated over 20 rows; the rows alone do not tell these from the function"
        )
    if isinstance(model.cv, str) and model.cv in BLOCKS and model.widths == "auto":
        raise DeclarationError(
            f"widths='auto' compares machines by single rows left out, and cv={model.cv!r} leaves rows out together; "
            "use widths='shared' or widths='each'"
        )


def check_groups(model: Any, groups: Any, n: int) -> Any:
    """Return the labels of groups, one per row; refused where the rule of ``cv`` has no use for them, or needs them."""
    cv = model.cv
    if groups is None:
        if isinstance(cv, str) and cv == "groups":
            raise DataError("cv='groups' leaves groups of rows out: give fit(X, y, groups=...), one label per row")
        return None
    if cv is None or (isinstance(cv, str) and cv not in BLOCKS):
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


def blocks_of(model: Any, n: int, groups: Any) -> LeftOutBlocks | None:
    """Return which of n rows a search leaves out together; None for any other criterion. Sets ``reach_``."""
    if not (isinstance(model.cv, str) and model.cv in BLOCKS):
        return None
    if model.cv == "groups":
        return LeftOutBlocks.of_groups(groups)
    model.reach_ = int(model.reach)
    return LeftOutBlocks.centred(n, model.reach_, groups)


def describe_blocks(model: Any, blocks: LeftOutBlocks) -> str:
    """Return what is left out, for a certificate."""
    if model.cv == "groups":
        return blocks.describe()
    return f"{blocks.describe()}: reach {model.reach_}; only the row itself counts"
