"""JSON read strictly: nothing that two readers could understand differently, and nothing that costs more than its text.

Refused are keys that occur twice, of which readers keep one or the other; integers that 64 bits do not hold; nesting
beyond reason; and bytes that are not UTF-8. NaN and Infinity, which Python writes, are read; where they may stand is
for the caller to say.
"""

import json
from typing import Any

from substrate.errors import DataError

__all__ = ["LARGEST_DEPTH", "LARGEST_INTEGER", "read_json"]

#: How deep lists and mappings may lie in each other.
LARGEST_DEPTH = 256
#: The largest integer, and with a minus sign nearly the smallest.
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
    # by the length first: Python takes long over long numbers, and refuses them in its own words
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
