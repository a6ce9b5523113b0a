r"""Data that are constructed: an additive function of four inputs out of twenty-five, and the boards of tic-tac-toe.

The additive function is

.. math::

   y_i = 10 \sin(x_i^1) + 20 (x_i^2 - 0.5)^2 + 10 x_i^3 + 5 x_i^4 + e_i, \qquad
   x_i \sim \mathcal U[0, 1]^{25}, \quad e_i \sim \mathcal N(0, 1),

equation (31) of [Pelckmans2005], there taken from [Vapnik1998]. A method that detects structure
should keep the first four components and drop the others.

The boards are the final positions of tic-tac-toe. A board is a word of nine letters, row by row, over {x, o, b}, b for
blank. x begins; play ends when a line of three is full or no square is left:

.. math:: 958 \text{ final boards} = 626 \text{ won by x} + 316 \text{ won by o} + 16 \text{ drawn}.
"""

from itertools import product

import numpy as np

from substrate.arrays import non_negative, whole_number
from substrate.datasets.dataset import Dataset, RandomState, cite, random_source

__all__ = ["additive_function", "tic_tac_toe"]


def additive_function(
    n_samples: int = 100,
    n_features: int = 25,
    noise: float = 1.0,
    *,
    random_state: RandomState = None,
) -> Dataset:
    """Draw the additive function (31) of [Pelckmans2005], with noise and with inputs of no effect.

    :equation [Pelckmans2005]_ (31): the additive test function

    Parameters
    ----------
    n_samples
        Number of rows.
    n_features
        Number of inputs, at least the four that matter.
    noise
        Standard deviation of the Gaussian noise. It is drawn after the inputs and also at level
        zero, so that one seed gives the same inputs at every level.
    random_state
        None, a non-negative integer, a numpy Generator or a numpy RandomState.
    """
    rows, columns = whole_number(n_samples, "n_samples", 1), whole_number(n_features, "n_features", 4)
    scale = non_negative(noise, "noise", "as a deviation")
    source = random_source(random_state)
    X = source.uniform(size=(rows, columns))
    noiseless = 10 * np.sin(X[:, 0]) + 20 * (X[:, 1] - 0.5) ** 2 + 10 * X[:, 2] + 5 * X[:, 3]
    return Dataset(
        X,
        noiseless + scale * source.standard_normal(rows),
        feature_names=tuple(f"X{column}" for column in range(1, columns + 1)),
        target_name="y",
        description=additive_function.__doc__,
        citation=cite("Pelckmans2005", "Vapnik1998"),
        noiseless=noiseless,
    )


_LINES = (
    (0, 1, 2),
    (3, 4, 5),
    (6, 7, 8),
    (0, 3, 6),
    (1, 4, 7),
    (2, 5, 8),
    (0, 4, 8),
    (2, 4, 6),
)
_SQUARES = tuple(f"{row}_{column}" for row in ("top", "middle", "bottom") for column in ("left", "middle", "right"))
_VALUE = {"x": 1.0, "b": 0.0, "o": -1.0}


def tic_tac_toe() -> Dataset:
    """Load final boards of tic-tac-toe, and whether the first player has won [Aha1991].

    958 boards, nine inputs top_left .. bottom_right with x = +1, blank = 0 and o = -1 (our coding;
    the source has letters). Target ``class``: "positive" where x has won (626), "negative" where o
    has won (316) or neither player (16). Rows: won by x, won by o, drawn, each group sorted with x before o
    before blank.
    """
    boards = [board for board in map("".join, product("xob", repeat=9)) if _is_final(board)]
    boards.sort(key=lambda board: "xob".index(_winner(board)))
    return Dataset(
        np.array([[_VALUE[square] for square in board] for board in boards], dtype=np.float64),
        np.array(["positive" if _winner(board) == "x" else "negative" for board in boards]),
        feature_names=_SQUARES,
        target_name="class",
        target_names=("negative", "positive"),
        description=tic_tac_toe.__doc__,
        citation=cite("Aha1991"),
    )


def _is_final(board: str) -> bool:
    """Return whether a game can end so: the winner, of whom there is one, has moved last."""
    winner, ahead = _winner(board), board.count("x") - board.count("o")
    if winner == "b":
        return "b" not in board and ahead == 1
    return ahead == (winner == "x") and _winner(board.replace(winner, "b")) == "b"


def _winner(board: str) -> str:
    """Return "x" or "o" if that player holds a full line, else "b"."""
    for first, second, third in _LINES:
        if board[first] == board[second] == board[third] != "b":
            return board[first]
    return "b"
