"""What parsed arguments ask for: how a table is read, and the choices of a fit."""

from collections.abc import Sequence
from typing import Any

from problems.tables.models import Choices, Weights
from problems.tables.sizes import BASIS
from problems.tables.table import Table, read_table
from substrate.errors import DeclarationError

__all__ = ["choices_of", "read_options"]


def read_options(source: str, options: Any, decided: bool = False) -> Table:
    """Read a table as the parsed arguments say how it is written."""
    return read_table(
        source, options.delimiter, options.decimal, options.thousands, decided=decided, encoding=options.encoding
    )


def choices_of(options: Any, target: str, task: str) -> Choices:
    """Return the choices that the parsed arguments of ``substrate fit`` state."""
    return Choices(
        target=target,
        task=task,
        model=options.model,
        kernel=options.kernel,
        sigma=options.sigma,
        weights=Weights(options.gamma, options.zeta, options.rho),
        one_hot=options.one_hot,
        ordered=_ordered(options.ordered),
        categorical=options.categorical,
        standardise=not options.no_standardise,
        validation=options.validation,
        seed=options.seed,
        group=options.group,
        split=options.split,
        dates=options.date,
        ids=options.id,
        impute=options.impute,
        class_weight=_class_weight(options.class_weight),
        refit=not options.no_refit,
        n_basis=options.n_basis or BASIS,
        evaluations=options.evaluations,
        seconds=options.seconds,
        shown=True,
        shapes=_shapes(options),
    )


def _ordered(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read ``--ordered size:small,middle,large``."""
    orders = {}
    for word in words:
        name, _, listed = word.rpartition(":")
        ranks = tuple(cell.strip() for cell in listed.split(","))
        if not name or len(set(ranks)) < max(len(ranks), 2) or "" in ranks:
            raise DeclarationError(
                f"--ordered is COLUMN:FIRST,SECOND,..., each category once, as size:small,large; received {word!r}"
            )
        orders[name] = ranks
    return orders


def _shapes(options: Any) -> dict[str, Any]:
    """Read ``--monotone price:-1``, ``--convex age`` and ``--bounds 0 none``."""
    shapes: dict[str, Any] = {}
    for word in options.monotone or ():
        name, _, sign = word.rpartition(":")
        if not name or sign not in ("1", "+1", "-1"):
            raise DeclarationError(f"--monotone is COLUMN:1 or COLUMN:-1, as price:-1; received {word!r}")
        shapes.setdefault("monotone", {})[name] = int(sign)
    if options.convex:
        shapes["convex"] = list(options.convex)
    if options.bounds:
        try:
            shapes["bounds"] = tuple(None if end.lower() == "none" else float(end) for end in options.bounds)
        except ValueError as error:
            received = " ".join(options.bounds)
            raise DeclarationError(f"--bounds is two numbers, or none for one of them; received {received}") from error
    return shapes


def _class_weight(words: Sequence[str] | None) -> str | dict[str, float] | None:
    """Read ``balanced``, or LABEL=WEIGHT for some classes."""
    if words is None or list(words) == ["balanced"]:
        return None if words is None else "balanced"
    weights = {}
    for word in words:
        label, sign, text = word.rpartition("=")
        try:
            weights[label] = float(text)
        except ValueError:
            sign = ""
        if not sign or not 0.0 <= weights[label] < float("inf"):
            raise DeclarationError(
                f"--class-weight is balanced, or LABEL=WEIGHT for classes, weights >= 0; received {word!r}"
            )
    return weights
