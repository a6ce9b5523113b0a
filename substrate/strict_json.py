"""JSON read strictly: no duplicate keys, no numbers that are not finite, no nesting beyond a limit."""

import json
from typing import Any

from substrate.errors import DataError

__all__ = ["LARGEST_DEPTH", "LARGEST_INTEGER", "read_json"]


#: The deepest nesting of lists and mappings.
LARGEST_DEPTH = 256


#: The largest integer; its negative is nearly the smallest.
LARGEST_INTEGER = 2**63 - 1


def read_json(data: bytes, name: str) -> Any:
    """The value, or a refusal that begins with the name of what was read."""
    try:
        value = json.loads(data.decode("utf-8"), parse_int=_integer, object_pairs_hook=_mapping)
    except RecursionError as error:
        raise DataError(f"{name} is damaged: it is nested beyond reason") from error
    except ValueError as error:
        raise DataError(f"{name} is damaged: {error}") from error
    _check_depth(value, name)
    return value


def _integer(digits: str) -> int:
    # by the length first: Python is slow on long numbers, and raises an error of its own
    if len(digits) > 20 or not -LARGEST_INTEGER - 1 <= int(digits) <= LARGEST_INTEGER:
        raise DataError(f"an integer of {len(digits.lstrip('-'))} digits does not fit into 64 bits")
    return int(digits)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise DataError(f"the key {twice[:100]!r} occurs twice")
    return made


def _check_depth(value: Any, name: str) -> None:
    level = [value]
    for _ in range(LARGEST_DEPTH + 1):
        if not level:
            return
        level = [inner for outer in level for inner in _inside(outer)]
    raise DataError(f"{name} is damaged: it is nested deeper than {LARGEST_DEPTH} levels")


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
