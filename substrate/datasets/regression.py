r"""Regression tables: motorcycle and Boston.

Both are samples of

.. math:: y_i = f(x_i) + e_i, \qquad i = 1, \dots, N,

the motorcycle data with an error whose variance changes with :math:`x` and with several :math:`y`
at one :math:`x`, the Boston data with inputs on very different scales and a target cut off at 50.
"""

from typing import TYPE_CHECKING, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from substrate.datasets.bunch import Record, deliver
from substrate.datasets.citations import cite
from substrate.datasets.tables import provenance, read_table

if TYPE_CHECKING:
    from sklearn.utils import Bunch

__all__ = ["boston", "motorcycle"]

Arrays: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]


@overload
def motorcycle(*, return_X_y: Literal[True] = True) -> Arrays: ...
@overload
def motorcycle(*, return_X_y: Literal[False]) -> "Bunch": ...
def motorcycle(*, return_X_y: bool = True) -> "Arrays | Bunch":
    """Head acceleration against time in a simulated motorcycle accident [Silverman1985].

    133 rows; input ``times`` in milliseconds after impact, target ``accel`` in g. Only 94 of the
    times are distinct, one row occurs twice, and the spread of the target grows after the impact:
    it is almost nothing before 14 ms.

    [Suykens2002] fits it in milliseconds (sigma = 6.6); [Pelckmans2005] uses N = 100 without saying
    which rows.

    Parameters
    ----------
    return_X_y
        True for ``(X, y)`` of shapes (133, 1) and (133,); False for a ``sklearn.utils.Bunch``.
    """
    return _regression("motorcycle.csv", motorcycle.__doc__, "Silverman1985", return_X_y)


@overload
def boston(*, return_X_y: Literal[True] = True) -> Arrays: ...
@overload
def boston(*, return_X_y: Literal[False]) -> "Bunch": ...
def boston(*, return_X_y: bool = True) -> "Arrays | Bunch":
    r"""Median home values in 506 census tracts of Boston, 1970 [HarrisonRubinfeld1978].

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

    Parameters
    ----------
    return_X_y
        True for ``(X, y)`` of shapes (506, 13) and (506,); False for a ``sklearn.utils.Bunch``.
    """
    return _regression("boston.csv", boston.__doc__, "HarrisonRubinfeld1978", return_X_y)


def _regression(filename: str, description: str | None, key: str, return_X_y: bool) -> "Arrays | Bunch":
    table = read_table(filename)
    record = Record(
        X=table.inputs,
        y=np.array(table.last, dtype=np.float64),
        feature_names=table.input_names,
        target_name=table.last_name,
        description=description,
        citation=cite(key),
        provenance=provenance(filename),
        filename=filename,
    )
    return deliver(record, return_X_y)
