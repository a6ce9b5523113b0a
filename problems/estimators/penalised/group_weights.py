r"""A weight of maximal variation for each group of inputs.

.. math:: \sum_g \rho_g \sum_{l \in g} t_l

The groups are a partition of the columns; a component belongs to the group that has its columns. One number is shared
by all, whether there are groups or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.shared.checks import column_number, list_some
from substrate.arrays import positive
from substrate.errors import DeclarationError
from substrate.ingredients import Weights

__all__ = ["GroupWeights"]

_EXAMPLE = "groups={'cheap': [0, 1], 'costly': [2]} with rho={'cheap': 1.0, 'costly': 5.0}"


@dataclass(frozen=True, slots=True)
class GroupWeights:
    """One number for all components where ``weights`` is empty, else one for each group; ``groups`` may be absent."""

    shared: float
    groups: Mapping[Any, tuple[Any, ...]]
    weights: tuple[float, ...] = ()

    @classmethod
    def of(cls, rho: Any, groups: Any) -> "GroupWeights":
        """Check what can be checked before the columns are known."""
        named = {} if groups is None else _name_groups(groups)
        if not isinstance(rho, (Mapping, list, tuple)) and np.ndim(rho) != 1:
            return cls(positive(rho, "rho"), named)
        if not named:
            raise DeclarationError(
                f"rho must be one number unless groups names the columns of each, received {rho!r}; give {_EXAMPLE}"
            )
        weights = dict(rho) if isinstance(rho, Mapping) else dict(enumerate(rho))
        names = list(named) if isinstance(rho, Mapping) else list(range(len(named)))
        if set(weights) != set(names):
            raise DeclarationError(
                f"rho must be one number or one for each group, by their names or in their order: expected {names}, "
                f"received {list(weights)}"
            )
        return cls(0.0, named, tuple(positive(weights[name], f"rho[{name!r}]") for name in names))

    def columns(self, n_features: int, names: Any = None) -> dict[Any, tuple[int, ...]]:
        """Return the columns of every group by number; refused unless each column is in one of them."""
        by_group = {
            group: tuple(column_number(column, f"groups: group {group!r}", n_features, names) for column in columns)
            for group, columns in self.groups.items()
        }
        counts = np.bincount([column for columns in by_group.values() for column in columns], minlength=n_features)
        if self.groups and (counts != 1).any():
            missing, twice = (list_some(np.flatnonzero(each).tolist()) or "none" for each in (counts == 0, counts > 1))
            raise DeclarationError(
                f"groups must hold every column once: {missing} of {n_features} in no group, {twice} in several "
                "places; name each once, and add a group for the others"
            )
        return by_group

    def members(self, components: Sequence[tuple[int, ...]], n_features: int, names: Any = None) -> list[int]:
        """Return the number of the group of every component, which must not use columns of two groups."""
        group_of = {
            column: number
            for number, columns in enumerate(self.columns(n_features, names).values())
            for column in columns
        }
        members = []
        for columns in components:
            groups = sorted({group_of[column] for column in columns}) if group_of else [0]
            if len(groups) > 1:
                groups_named = " and ".join(repr(list(self.groups)[number]) for number in groups[:2])
                raise DeclarationError(
                    f"groups: the component of columns {list(columns)} is in groups {groups_named}; a component has "
                    "one weight, so put its columns into one group"
                )
            members.append(groups[0])
        return members

    def of_components(self, components: Sequence[tuple[int, ...]], n_features: int, names: Any = None) -> Weights:
        """Return the weight of every component, or the shared number."""
        members = self.members(components, n_features, names)
        return np.array(self.weights)[members] if self.weights else self.shared

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the weight of every group, for a certificate; nothing where one number is shared."""
        weights = zip(self.groups, self.weights, strict=True) if self.weights else ()
        stated = ", ".join(f"{name!r} {weight:g}" for name, weight in weights)
        return (("rho of groups", stated),) if stated else ()


def _name_groups(groups: Any) -> dict[Any, tuple[Any, ...]]:
    if not isinstance(groups, (Mapping, list, tuple, np.ndarray)):
        raise DeclarationError(f"groups must be lists of columns, or a mapping of names to them, received {groups!r}")
    named = dict(groups) if isinstance(groups, Mapping) else dict(enumerate(groups))
    if not named:
        raise DeclarationError("groups is empty; give a list of columns for each group, or None")
    for name, columns in named.items():
        if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
            raise DeclarationError(f"groups: names are text or integers, received {name!r}")
        if not isinstance(columns, (list, tuple, range, np.ndarray)) or np.ndim(columns) != 1 or not len(columns):
            raise DeclarationError(f"groups: group {name!r} must be a list of columns, received {columns!r}")
    return {name: tuple(columns) for name, columns in named.items()}
