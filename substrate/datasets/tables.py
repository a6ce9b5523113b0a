r"""Embedded tables for regression (motorcycle, sunspots, Boston) and classification (Ripley, Pima, Ionosphere).

They are comma-separated files, read with the standard library. A file has one header row, no quoting and no empty cell;
its last column is the target. Nothing is cached: each reading builds new arrays, so callers may overwrite them.

Two regression tables are samples of

.. math:: y_i = f(x_i) + e_i, \qquad i = 1, \dots, N,

the motorcycle data with an error whose variance changes with :math:`x` and with several :math:`y`
at one :math:`x`, the Boston data with inputs on very different scales and a target cut off at 50. The sunspot numbers
are a series: what is to be predicted follows from the years before.

The labels of the classification tables are as in the sources: 0 and 1, or letters. The machines of the papers expect

.. math:: y_i \in \{-1, +1\},

a coding that belongs to the estimator and is not applied here. Ripley's points come from a mixture
of two round Gaussian clouds in each class :math:`c`,

.. math::

   p(x \mid c) = \tfrac12 \mathcal N(x;\, m_{c1}, s^2 I) + \tfrac12 \mathcal N(x;\, m_{c2}, s^2 I).
"""

import csv
from importlib.resources import files
from typing import Literal, TypeAlias

import numpy as np

from substrate.datasets.dataset import Dataset, cite
from substrate.errors import DataError

__all__ = ["boston", "ionosphere", "motorcycle", "pima", "ripley", "sunspots"]

_FOLDER = files("substrate.datasets").joinpath("data")


def motorcycle() -> Dataset:
    """Load head acceleration against time in a simulated motorcycle accident [Silverman1985].

    133 rows; input ``times`` in milliseconds after impact, target ``accel`` in g. Only 94 of the
    times are distinct, one row occurs twice, and the spread of the target grows after the impact:
    it is almost nothing before 14 ms.

    [Suykens2002] fits it in milliseconds (sigma = 6.6); [Pelckmans2005] uses N = 100 without stating which rows.
    """
    return _load("motorcycle.csv", np.float64, motorcycle.__doc__, "Silverman1985")


def sunspots() -> Dataset:
    """Load the yearly mean sunspot numbers from 1700 to 2008, a series [Waldmeier1961].

    309 rows; input ``year``, target ``sunspots``, never negative, with a cycle of about eleven years that rises faster
    than it falls. It is customary to fit the years to 1920 and to test on 1921 to 1955 and on the years after 1955.
    """
    return _load("sunspots.csv", np.float64, sunspots.__doc__, "Waldmeier1961")


def boston() -> Dataset:
    r"""Load median home values in 506 census tracts of Boston, 1970 [HarrisonRubinfeld1978].

    .. warning::
       The column ``B`` encodes race: it is :math:`1000 (Bk - 0.63)^2`, Bk being the proportion of
       Black inhabitants, put into the model on the premise that segregation raises prices.
       scikit-learn withdrew the set for that reason. It is here as a benchmark only, so that
       numbers printed in papers can be recomputed. Do not draw conclusions about people or housing
       from it.

    Thirteen inputs: CRIM crime rate, ZN % of land for large lots, INDUS % of non-retail business
    land, CHAS 1 on the Charles River, NOX nitric oxides, RM rooms per dwelling, AGE % built before
    1940, DIS distance to employment centres, RAD access to highways, TAX property tax rate, PTRATIO
    pupils per teacher, B see above, LSTAT % of lower status. Target MEDV in $1000s; 16 rows sit at
    the cap 50.0. These are the original values, not the later corrected ones.

    [Suykens2002] takes 406 rows at random for training and 100 for the test, [Pelckmans2005] 250
    for training, 100 for validation and the other 156, evidently, for the test (its captions say
    training); neither prints its indices.
    """
    return _load("boston.csv", np.float64, boston.__doc__, "HarrisonRubinfeld1978")


def _load(filenames: str, kind: type, description: str | None, key: str, target_names: tuple[str, ...] = ()) -> Dataset:
    """Return files with the same header as a table whose last column is the target, of one kind of numbers or words."""
    header: list[str] = []
    rows: list[list[str]] = []
    for filename in filenames.split(", "):
        header, *lines = csv.reader(_FOLDER.joinpath(filename).read_text(encoding="utf-8").splitlines())
        rows += lines
    page = _FOLDER.joinpath("PROVENANCE.md").read_text(encoding="utf-8")
    sections = dict(section.split("\n", 1) for section in page.split("\n## ")[1:])
    return Dataset(
        np.array([row[:-1] for row in rows], dtype=np.float64),
        np.array([row[-1] for row in rows], dtype=kind),
        feature_names=tuple(header[:-1]),
        target_name=header[-1],
        target_names=target_names,
        description=description,
        citation=cite(key),
        provenance=next(text.strip() for heading, text in sections.items() if filenames in heading),
        filename=filenames,
    )


Subset: TypeAlias = Literal["train", "test", "all"]

_RIPLEY_FILES = {
    "train": "ripley_synth_tr.csv",
    "test": "ripley_synth_te.csv",
    "all": "ripley_synth_tr.csv, ripley_synth_te.csv",
}


def ripley(subset: Subset = "train") -> Dataset:
    """Load Ripley's synthetic two-class problem in the plane [Ripley1996].

    Coordinates ``xs`` and ``ys``, class ``yc`` 0 or 1, both classes equally frequent.
    [Pelckmans2005] trains on the 250 points; its accuracies fit the 1000 test points.

    Parameters
    ----------
    subset
        "train" (250 rows), "test" (1000 rows), or "all", the training rows followed by the test
        rows.
    """
    if not isinstance(subset, str) or subset not in _RIPLEY_FILES:
        raise DataError(f"subset must be one of {', '.join(map(repr, _RIPLEY_FILES))}, received {subset!r}")
    return _load(_RIPLEY_FILES[subset], np.int64, ripley.__doc__, "Ripley1996", ("0", "1"))


def pima() -> Dataset:
    """Load data on diabetes among 768 women of Pima heritage [Smith1988].

    .. warning::
       Zeros mean missing in ``glucose`` (5), ``pressure`` (35), ``triceps`` (227), ``insulin``
       (374) and ``mass`` (11): no living person has such a value. They are kept because that is the
       table others report on. The 111 zeros of ``pregnant`` are real.

    Inputs: pregnant (times), glucose (plasma, 2 h after the drink), pressure (diastolic, mm Hg),
    triceps (skin fold, mm), insulin (2 h serum), mass (body mass index), pedigree (family history),
    age (years). Target ``diabetes``: 1 for the 268 who tested positive, 0 for the other 500.

    [Pelckmans2005] trains on N = 468; the indices are not printed.
    """
    return _load("pima.csv", np.int64, pima.__doc__, "Smith1988", ("negative", "positive"))


def ionosphere() -> Dataset:
    """Load radar returns from the ionosphere, good or bad [Sigillito1989].

    351 rows of 17 complex autocorrelation values, written as 34 real inputs a01 .. a34. ``a01`` is 0 or 1 and ``a02``
    is 0 in every row, so standardising must handle a standard deviation of zero; one row occurs twice. Target
    ``class``: "g" good (225) or "b" bad (126).
    """
    return _load("ionosphere.csv", np.str_, ionosphere.__doc__, "Sigillito1989", ("b", "g"))
