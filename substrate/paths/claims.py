"""What a lower bound over a parameter speaks of, in words: the values that were covered, and no others."""

import math

__all__ = ["claimed"]


def claimed(parameter: str, coverage: tuple[float, float], holes: tuple[tuple[float, float], ...] = ()) -> str:
    """The interval of a lower bound in words."""
    low, high = coverage
    interval = f"{parameter} >= {low:.4g}" if math.isinf(high) else f"{parameter} from {low:.4g} to {high:.4g}"
    return f"lower bound, {interval}" + "".join(f", not {start:.4g} to {stop:.4g}" for start, stop in holes)
