"""What solvers said and left behind while one machine was being solved."""

import numpy as np

from substrate.certificates import Row
from substrate.composition.conic import Witness
from substrate.errors import SolverError

__all__ = ["Trials"]

_UNSOLVABLE = {
    "infeasible": "its constraints contradict each other; leave some out, or give them slack",
    "unbounded": "its objective falls without end; add a penalty, such as s.squared_norm, or a bound",
}


class Trials:
    """The latest witness, the rows and the witness of the best point so far, and every solver's word."""

    def __init__(self) -> None:
        self.witness: Witness | None = None
        self._words: dict[str, str] = {}
        self._best: tuple[float, Witness | None] = (np.inf, None)

    def begin(self) -> None:
        """Forget earlier solves."""
        self._words, self._best = {}, (np.inf, None)

    def keep(self, solver: str, word: str, witness: Witness | None) -> None:
        """Take down a solver's word and point; two that agree that there is no solution are enough."""
        self.witness = witness
        self._words[solver] = word
        self.refuse_unsolvable(among=2)

    def weigh(self, rows: tuple[Row, ...]) -> float:
        """The largest ``relative / tolerance`` of the latest point's rows."""
        worst = max(row.relative / row.tolerance for row in rows)
        if worst < self._best[0]:
            self._best = (worst, self.witness)
        return worst

    def settle(self) -> None:
        """Return to the witness of the best point, which is the one that was kept."""
        self.witness = self._best[1]

    def refuse_unsolvable(self, among: int = 1) -> None:
        """Say why there is no solution, if this many solvers agree that there is none."""
        for word, why in _UNSOLVABLE.items():
            accepted = (word,) if among > 1 else (word, f"{word}_inaccurate")
            solvers = [solver for solver, said in self._words.items() if said in accepted]
            if len(solvers) >= among:
                raise SolverError(f"the machine is {word}, by the word of {' and '.join(solvers)}: {why}") from None
