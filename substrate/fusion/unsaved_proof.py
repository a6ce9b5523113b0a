"""What stands in the place of a proof that cannot be written to a file: it says why, and what can be."""

import os
from dataclasses import dataclass
from typing import NoReturn

from substrate.errors import DeclarationError

__all__ = ["NO_PROOF", "UnsavedProof"]


@dataclass(frozen=True, slots=True)
class UnsavedProof:
    """The reason why there is nothing that another person could check; false in a condition."""

    reason: str

    def __bool__(self) -> bool:
        return False

    def in_units(self, square: float) -> "UnsavedProof":
        """Return the same: what is not there has no units."""
        return self

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Refuse to write a file, with the reason."""
        raise DeclarationError(f"no proof is written to {os.fspath(path)}: {self.reason}")

    def check(self) -> NoReturn:
        """Refuse a check, with the reason."""
        raise DeclarationError(f"there is no proof to check: {self.reason}")

    def prove(self, bits: int = 160) -> NoReturn:
        """Refuse a proof in balls, with the reason."""
        raise DeclarationError(f"there is no proof to repeat in balls of {bits} bits: {self.reason}")


#: What stands where a fusion was made without the numbers behind its bound.
NO_PROOF = UnsavedProof("this fusion was made without the numbers behind its bound")
