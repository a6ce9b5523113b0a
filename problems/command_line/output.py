"""Where a command writes to: refused before any work where something else would be destroyed, and written whole."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from substrate.whole_file import refuse_taken, writable_file, written_whole

__all__ = ["printed_warnings", "refuse_unwritable", "write"]


def refuse_unwritable(path: str | None, *taken: str | None) -> None:
    """Before any long work: ``path`` is a regular file or absent, in a folder that is there, and none of ``taken``."""
    if path is None:
        return
    writable_file(path)
    refuse_taken(path, *taken)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Warnings of the block, each once, as lines of this command on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for said in dict.fromkeys(f"{one.category.__name__}: {one.message}" for one in caught):
        print(f"substrate: {said}", file=sys.stderr)


def write(path: str | None, text: str) -> None:
    """To standard output, or to a file that is whole or absent."""
    if path is None:
        sys.stdout.write(text)
        return
    with written_whole(path) as stream:
        stream.write(text.encode("utf-8"))
