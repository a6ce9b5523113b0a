"""What ``predict`` of a machine returns: one output, or several by name, each a sum of terms.

Several substrates may be summands of one function or separate functions, and only the user knows which: ``predict`` of
the machine says so, or the names of its substrates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import ACCURATE, spread_of
from substrate.composition.level import Substrate
from substrate.composition.terms import LinearPart, One, Term, base_of, terms_of
from substrate.errors import DeclarationError

__all__ = ["Outputs", "columns_of", "declared_outputs", "labels_of", "scale_of_targets"]

_ADVICE = (
    "a machine of several substrates says what it predicts: give all of them a name, Substrate(..., name='low'), for "
    "one output each, or pass predict=s1 + s2 for their sum, predict=s1 for one of them, or predict={'low': s1, ...} "
    "for outputs by name"
)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The terms of each output by its name; the name None stands for the only one, which is returned as an array."""

    terms: Mapping[str | None, tuple[Term, ...]]

    def parts(self) -> tuple[LinearPart, ...]:
        """Return the linear parts of all outputs."""
        every = [base_of(term) for terms in self.terms.values() for term in terms]
        return tuple(term for term in every if isinstance(term, LinearPart))

    def refuse_foreign(self, variables: list[Any]) -> None:
        """Refuse weights that no term of the problem contains: they are not determined."""
        present = {id(variable) for variable in variables}
        for term in self.parts():
            if id(term.weights) not in present:
                raise DeclarationError(
                    f"predict uses the weights {term.weights}, which are no variable that a term or a constraint of "
                    "the machine contains"
                )


def labels_of(substrates: tuple[Substrate, ...]) -> tuple[str, ...]:
    """Return the name of each substrate in the rows of a certificate: its own, or its number among several."""
    names = [s.name for s in substrates if s.name is not None]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(f"two substrates are named {twice[0]!r}; each needs a name of its own")
    several = len(substrates) > 1
    return tuple(s.name or (f"substrate {k}" if several else "") for k, s in enumerate(substrates, start=1))


def declared_outputs(predict: Any, substrates: tuple[Substrate, ...]) -> Outputs:
    """Return the outputs that ``predict=`` declares; without it, the one substrate or those named."""
    if predict is None:
        if len(substrates) == 1:
            return Outputs({None: substrates})
        if any(s.name is None for s in substrates):
            raise DeclarationError(_ADVICE)
        return Outputs({s.name: (s,) for s in substrates})
    if isinstance(predict, Term):
        return Outputs({None: _check_output(predict, substrates)})
    if not isinstance(predict, Mapping) or not predict:
        raise DeclarationError(
            "predict is a substrate, an affine expression of substrates and linear parts (s1 + s2, 2.0 * s, s - w), or "
            f"a dict of them by name, received {predict!r}"
        )
    unnamed = [name for name in predict if not isinstance(name, str) or not name]
    if unnamed:
        raise DeclarationError(f"the outputs of predict are named by text, received {unnamed[0]!r}")
    return Outputs({name: _check_output(term, substrates, f" {name!r}") for name, term in predict.items()})


def _check_output(output: Any, substrates: tuple[Substrate, ...], name: str = "") -> tuple[Term, ...]:
    if not isinstance(output, Term):
        raise DeclarationError(
            f"output{name} of predict must be a substrate, a linear part or an affine expression of them, received "
            f"{output!r}"
        )
    terms = terms_of(output)
    for term in map(base_of, terms):
        if isinstance(term, Substrate) and not any(term is s for s in substrates):
            raise DeclarationError(f"output{name} of predict uses a substrate that the machine was not given")
    if all(isinstance(base_of(term), One) for term in terms):
        raise DeclarationError(f"output{name} of predict is a number; give it a substrate")
    shapes = {columns_of(term) for term in terms if not isinstance(base_of(term), One)}
    if len(shapes) > 1:
        raise DeclarationError(
            f"the terms of output{name} of predict have different columns, {sorted(shapes)}; give them the same number"
        )
    return terms


def columns_of(term: Term) -> tuple[int, ...]:
    """Return the number of columns of a term's values as a shape: () for one value per row."""
    base = base_of(term)
    if isinstance(base, Substrate):
        return base.columns
    return base.columns_of_values if isinstance(base, LinearPart) else ()


def scale_of_targets(y: Array, weights: Array) -> tuple[float, float]:
    """Return the spread of y and the accepted rounding: for targets without a spread, a millionth of their size."""
    spread, rounding = spread_of(y, weights)
    if spread <= rounding:
        rounding = ACCURATE * (float(np.abs(y).max()) or 1.0)
    return spread, rounding
