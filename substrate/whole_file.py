"""Files written whole or not at all: a temporary name in the same folder, renamed at the end.

Renaming replaces any file of that name, also a pipe, a device or a link. Therefore only a regular file, or a name that
does not exist yet, is written to: symbolic links are followed, which keeps the link and replaces its target, and
everything else is refused before any work. An existing file keeps its permissions.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from substrate.errors import DataError

__all__ = ["refuse_inputs", "writable_file", "written_whole"]

_Path = str | os.PathLike[str]


def writable_file(path: _Path) -> Path:
    """Return the file that writing to ``path`` makes or replaces, links followed; refused unless it is regular or
    absent.
    """
    try:
        target = Path(os.path.realpath(path))
        exists = target.exists()
        is_file = target.is_file()
    except (OSError, ValueError) as error:  # a name that is too long, a null character
        raise DataError(f"{os.fspath(path)!r} cannot be written: {error}; name another file") from error
    if exists and not is_file:
        raise DataError(f"{path} is a folder, a pipe or a device; name a file")
    if not target.parent.is_dir():
        raise DataError(f"the folder of {path} does not exist; make it first")
    if target.is_symlink() or not os.access(target if exists else target.parent, os.W_OK):
        raise DataError(f"{path} is write-protected, or a link to itself; name another file")
    return target


def refuse_inputs(path: _Path, *read: object) -> None:
    """Refuse a file that is one of the inputs, or lies in a folder of them: writing it would destroy its contents.

    Only inputs that are paths are compared; a link and its target are the same file.
    """
    target = Path(os.path.realpath(path))
    for source in (Path(os.path.realpath(each)) for each in read if isinstance(each, (str, os.PathLike))):
        is_linked = target.exists() and source.exists() and target.samefile(source)
        within = target.exists() and source.is_dir() and target.is_relative_to(source)
        if source == target or is_linked or within:
            raise DataError(f"{path} is named twice; writing it would destroy what it holds")


@contextmanager
def written_whole(path: _Path) -> Iterator[BinaryIO]:
    """Open a stream for a file; an existing one is replaced only when the block ends without an error.

    The stream can also be read, so that the contents can be checked before the file is renamed.
    """
    target = writable_file(path)
    temporary = target.with_name(f".{target.name[:50]}.{uuid4().hex}.part")
    try:
        with temporary.open("x+b") as stream:
            yield stream
        if writable_file(path) != target:  # changed in the meantime
            raise DataError(f"{path} became another file while it was written; nothing was replaced")
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
