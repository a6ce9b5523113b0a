"""Files written whole or not at all: a temporary name in the same folder, renamed at the end.

Renaming replaces any file of that name, also a pipe, a device or a link. Therefore only a regular file, or a name that
does not exist yet, is written to: symbolic links are followed, which keeps the link and replaces its target, and
everything else is refused before any work. An existing file keeps its permissions.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from substrate.errors import DataError

__all__ = ["refuse_inputs", "writable_file", "written_whole"]

_Path = str | os.PathLike[str]

#: Kinds of files that are refused.
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def writable_file(path: _Path) -> Path:
    """Return the file that writing to ``path`` makes or replaces, links followed; refused unless it is regular or
    absent.
    """
    try:
        target = Path(os.path.realpath(path, strict=False))
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return _new_file(Path(path), target)
    except NotADirectoryError as error:
        raise DataError(f"the folder of {path} is a file; name a file in a folder") from error
    except (OSError, ValueError) as error:  # a cycle of links, a name that is too long, a null character
        raise DataError(f"{os.fspath(path)!r} cannot be written: {error}; name another file") from error
    if not stat.S_ISREG(mode):
        kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "no regular file")
        raise DataError(f"{path} is {kind}; name a file")
    if not os.access(target, os.W_OK):
        raise DataError(f"{path} is write-protected; name another file, or allow writing to this one")
    return target


def _new_file(path: Path, target: Path) -> Path:
    if not target.parent.is_dir():
        if path.is_symlink():
            raise DataError(f"{path} is a link to {target}, whose folder does not exist; make it first")
        raise DataError(f"the folder of {path} does not exist; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise DataError(f"the folder of {path} is write-protected; name a file in another one")
    return target


def refuse_inputs(path: _Path, *read: object) -> None:
    """Refuse a file that is one of the inputs, or lies in a folder of them: writing it would destroy its contents.

    Only inputs that are paths are compared; a link and its target are the same file.
    """
    target = Path(os.path.realpath(path))
    for input_path in read:
        if not isinstance(input_path, (str, os.PathLike)):
            continue
        source = Path(os.path.realpath(input_path))
        within = target.exists() and source.is_dir() and target.is_relative_to(source)
        if source == target or within or _same(source, target):
            raise DataError(f"{path} is named twice; writing it would destroy what it holds")


def _same(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


@contextmanager
def written_whole(path: _Path) -> Iterator[BinaryIO]:
    """Open a stream for a file; an existing one is replaced only when the block ends without an error.

    The stream can also be read, so that the contents can be checked before the file is renamed.
    """
    target = writable_file(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.", suffix=".part")
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
        if writable_file(path) != target:  # changed in the meantime
            raise DataError(f"{path} became another file while it was written; nothing was replaced")
        _adopt_permissions(temporary, target)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _adopt_permissions(temporary: str, target: Path) -> None:
    """Adopt the permissions of the file that is replaced, or of any new file; a temporary file is private."""
    try:
        old = target.stat()
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        return
    new = os.stat(temporary)
    if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(PermissionError):  # only root may change the owner; the permissions below are kept in any case
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode) & 0o777)
