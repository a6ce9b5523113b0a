r"""The losses by which a fusion validates, as numbers and as convex expressions of the predictions.

For a target y, a prediction f and a level q, with labels :math:`y = \pm 1` in the last two,

.. math::

    (y - f)^2, \qquad |y - f|, \qquad \max(q (y - f), (q - 1) (y - f)), \qquad \max(1 - y f, 0), \qquad
    \log(1 + e^{-y f}) .

The validation error is the mean over the rows, weighted where rows have weights, and the sum over outputs and columns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError

__all__ = ["SQUARED", "ValidationLoss", "check_loss"]

#: The losses by name, with the words of a certificate.
_WORDS = {
    "squared": "mean squared error",
    "mean_absolute": "mean absolute error",
    "pinball": "mean pinball loss",
    "hinge": "mean hinge loss",
    "log_loss": "mean log-loss",
}
_ALIASES = {"absolute": "mean_absolute", "mean_squared": "squared", "logistic": "log_loss"}
#: Share of the size of the targets below which a validation error counts as none.
_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class ValidationLoss:
    """A loss by name; ``level`` is that of a pinball loss."""

    name: str = "squared"
    level: float = 0.5

    @property
    def words(self) -> str:
        """Return the loss in words, for a certificate."""
        return f"{_WORDS[self.name]} at {self.level:g}" if self.name == "pinball" else _WORDS[self.name]

    @property
    def is_signed(self) -> bool:
        """Return whether the targets are labels."""
        return self.name in ("hinge", "log_loss")

    def check(self, targets: Array) -> None:
        """Refuse targets that are not labels where the loss needs some."""
        if self.is_signed and not np.isin(targets, (-1.0, 1.0)).all():
            raise DataError(
                f"loss={self.name!r} compares predictions with labels -1 and +1, received {np.unique(targets)[:5]}"
            )

    def total(self, targets: Array, values: Array, weights: Array) -> float:
        """Return the weighted sum of the loss."""
        if self.name == "squared":
            each = (targets - values) ** 2
        elif self.name == "mean_absolute":
            each = np.abs(targets - values)
        elif self.name == "pinball":
            each = np.maximum(self.level * (targets - values), (self.level - 1.0) * (targets - values))
        elif self.name == "hinge":
            each = np.maximum(1.0 - targets * values, 0.0)
        else:
            each = np.logaddexp(0.0, -targets * values)
        return float(weights @ each)

    def expression(self, targets: Array, values: Any, weights: Array) -> Any:
        """Return the weighted sum of the loss as a convex expression of cvxpy."""
        import cvxpy as cp

        if self.name == "squared":
            return cp.sum_squares(cp.multiply(np.sqrt(weights), targets - values))
        if self.name == "mean_absolute":
            return cp.norm1(cp.multiply(weights, targets - values))
        if self.name == "pinball":
            errors = cp.multiply(weights, targets - values)
            return cp.sum(cp.maximum(self.level * errors, (self.level - 1.0) * errors))
        if self.name == "hinge":
            return cp.sum(cp.pos(weights - cp.multiply(weights * targets, values)))
        return weights @ cp.logistic(-cp.multiply(targets, values))

    def least(self, targets: Array) -> float:
        """Return the mean loss below which one counts as none: a millionth of the variance, or of the size, of the
        targets.
        """
        if self.is_signed:
            return _NOTHING
        spread = float(np.std(targets))
        return _NOTHING * (spread**2 if self.name == "squared" else spread)


SQUARED = ValidationLoss()


def check_loss(loss: Any) -> ValidationLoss:
    """Return the loss that is meant by a name, or by a pair ("pinball", level)."""
    name, level = loss, 0.5
    if isinstance(loss, (tuple, list)) and len(loss) == 2 and loss[0] == "pinball":
        name = "pinball"
        try:
            level = float(loss[1])
        except (TypeError, ValueError):
            level = np.nan
        if not 0.0 < level < 1.0:
            raise DeclarationError(f"the level of a pinball loss is between 0 and 1, received {loss[1]!r}")
    name = _ALIASES.get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or name not in _WORDS:
        raise DeclarationError(f"loss must be one of {', '.join(_WORDS)}, or ('pinball', level), received {loss!r}")
    return ValidationLoss(name, level)
