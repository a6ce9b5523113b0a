r"""Classification tables: Ripley's two classes, Pima, Ionosphere.

Labels are those of the sources: 0 and 1, or letters. The machines of the papers want

.. math:: y_i \in \{-1, +1\},

a coding that belongs to the estimator and is not applied here. Ripley's points come from a mixture
of two round Gaussian clouds in each class :math:`c`,

.. math::

   p(x \mid c) = \tfrac12 \mathcal N(x;\, m_{c1}, s^2 I) + \tfrac12 \mathcal N(x;\, m_{c2}, s^2 I).
"""

from typing import TYPE_CHECKING, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from substrate.datasets.arguments import check_choice
from substrate.datasets.bunch import Record, deliver
from substrate.datasets.citations import cite
from substrate.datasets.tables import provenance, read_table

if TYPE_CHECKING:
    from sklearn.utils import Bunch

__all__ = ["ionosphere", "pima", "ripley"]

Numbered: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64]]
Lettered: TypeAlias = tuple[NDArray[np.float64], NDArray[np.str_]]
Subset: TypeAlias = Literal["train", "test", "all"]

_RIPLEY_FILES = {
    "train": ("ripley_synth_tr.csv",),
    "test": ("ripley_synth_te.csv",),
    "all": ("ripley_synth_tr.csv", "ripley_synth_te.csv"),
}


@overload
def ripley(subset: Subset = "train", *, return_X_y: Literal[True] = True) -> Numbered: ...
@overload
def ripley(subset: Subset = "train", *, return_X_y: Literal[False]) -> "Bunch": ...
def ripley(subset: Subset = "train", *, return_X_y: bool = True) -> "Numbered | Bunch":
    """Ripley's synthetic two-class problem in the plane [Ripley1996].

    Coordinates ``xs`` and ``ys``, class ``yc`` 0 or 1, both classes equally frequent.
    [Pelckmans2005] trains on the 250 points; its accuracies fit the 1000 test points.

    Parameters
    ----------
    subset
        "train" (250 rows), "test" (1000 rows), or "all", the training rows followed by the test
        rows.
    return_X_y
        True for ``(X, y)``, y of integers; False for a ``sklearn.utils.Bunch``.
    """
    filenames = _RIPLEY_FILES[check_choice("subset", subset, tuple(_RIPLEY_FILES))]
    tables = [read_table(filename) for filename in filenames]
    record = Record(
        X=np.concatenate([table.inputs for table in tables]),
        y=np.concatenate([np.array(table.last, dtype=np.int64) for table in tables]),
        feature_names=tables[0].input_names,
        target_name=tables[0].last_name,
        target_names=("0", "1"),
        description=ripley.__doc__,
        citation=cite("Ripley1996"),
        provenance=provenance("ripley_synth_tr.csv, ripley_synth_te.csv"),
        filename=", ".join(filenames),
    )
    return deliver(record, return_X_y)


@overload
def pima(*, return_X_y: Literal[True] = True) -> Numbered: ...
@overload
def pima(*, return_X_y: Literal[False]) -> "Bunch": ...
def pima(*, return_X_y: bool = True) -> "Numbered | Bunch":
    """Diabetes among 768 women of Pima heritage [Smith1988].

    .. warning::
       Zeros mean missing in ``glucose`` (5), ``pressure`` (35), ``triceps`` (227), ``insulin``
       (374) and ``mass`` (11): no living person has such a value. They are kept because that is the
       table others report on. The 111 zeros of ``pregnant`` are real.

    Inputs: pregnant (times), glucose (plasma, 2 h after the drink), pressure (diastolic, mm Hg),
    triceps (skin fold, mm), insulin (2 h serum), mass (body mass index), pedigree (family history),
    age (years). Target ``diabetes``: 1 for the 268 who tested positive, 0 for the other 500.

    [Pelckmans2005] trains on N = 468; the indices are not printed.

    Parameters
    ----------
    return_X_y
        True for ``(X, y)`` of shapes (768, 8) and (768,), y of integers; False for a
        ``sklearn.utils.Bunch``.
    """
    table = read_table("pima.csv")
    record = Record(
        X=table.inputs,
        y=np.array(table.last, dtype=np.int64),
        feature_names=table.input_names,
        target_name=table.last_name,
        target_names=("negative", "positive"),
        description=pima.__doc__,
        citation=cite("Smith1988"),
        provenance=provenance("pima.csv"),
        filename="pima.csv",
    )
    return deliver(record, return_X_y)


@overload
def ionosphere(*, return_X_y: Literal[True] = True) -> Lettered: ...
@overload
def ionosphere(*, return_X_y: Literal[False]) -> "Bunch": ...
def ionosphere(*, return_X_y: bool = True) -> "Lettered | Bunch":
    """Radar returns from the ionosphere, good or bad [Sigillito1989].

    351 rows of 17 complex autocorrelation values, written as 34 real inputs a01 .. a34. ``a01`` is
    0 or 1 and ``a02`` is 0 in every row, so a standard deviation of zero awaits whoever
    standardises; one row occurs twice. Target ``class``: "g" good (225) or "b" bad (126).

    Parameters
    ----------
    return_X_y
        True for ``(X, y)`` of shapes (351, 34) and (351,), y of strings; False for a
        ``sklearn.utils.Bunch``.
    """
    table = read_table("ionosphere.csv")
    record = Record(
        X=table.inputs,
        y=np.array(table.last, dtype=np.str_),
        feature_names=table.input_names,
        target_name=table.last_name,
        target_names=("b", "g"),
        description=ionosphere.__doc__,
        citation=cite("Sigillito1989"),
        provenance=provenance("ionosphere.csv"),
        filename="ionosphere.csv",
    )
    return deliver(record, return_X_y)
