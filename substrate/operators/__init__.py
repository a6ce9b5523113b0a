"""K as a linear map: dense, on a basis, in tiles or in passes over rows; its solve with a border, and its spectrum."""

from substrate.operators.gram import Gram

__all__ = ["Gram"]
