"""The duality gap as a certificate row."""

from collections.abc import Sequence

from substrate.certificates.rows import Row

__all__ = ["gap_row"]


def gap_row(primal: Sequence[float], dual: Sequence[float], tolerance: float, data: float = 0.0) -> Row:
    """Primal minus dual objective, each given by its terms, against the sum of the terms' sizes.

    Measured against the terms, not against the difference: an optimum near zero between large terms is as well
    solved as any other. ``data`` is what a trivial point costs; a solver's noise is small against that even where every
    term of the optimum vanishes.
    """
    scale = float(sum(abs(term) for term in (*primal, *dual))) + data
    return Row("duality gap", float(sum(primal)) - float(sum(dual)), scale, tolerance, "primal - dual objective")
