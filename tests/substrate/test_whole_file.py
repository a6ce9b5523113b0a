"""A file is whole or absent, and writing it replaces nothing but a regular file."""

import os
import socket
import stat

import pytest

from substrate.errors import DataError
from substrate.whole_file import written_whole


def write(path, data=b"new", meanwhile=lambda: None):
    with written_whole(path) as stream:
        stream.write(data)
        meanwhile()


def entries(folder):
    """Every name in a folder with what it is, so that a replaced pipe or link shows."""
    return {entry.name: stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode) for entry in os.scandir(folder)}


def make_socket(path):
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.close()


def make_device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("device nodes are made by root only")


SPECIAL = {
    "a named pipe": os.mkfifo,
    "a socket": make_socket,
    "a device": make_device,
    "a folder": os.mkdir,
}


@pytest.mark.parametrize("through", ["itself", "a link", "a link to a link"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_regular_file_is_refused_and_stays(tmp_path, monkeypatch, kind, through):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    SPECIAL[kind]("special")
    os.symlink("special", "link")
    os.symlink("link", "link2")
    before = entries(tmp_path)
    path = {"itself": "special", "a link": "link", "a link to a link": "link2"}[through]
    with pytest.raises(DataError, match=f"{path} is a folder, a pipe or a device; name a file"):
        write(path)
    assert entries(tmp_path) == before


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    (tmp_path / "again").symlink_to("link")
    for path in (link, tmp_path / "again"):
        write(path, str(path).encode())
        assert target.read_bytes() == str(path).encode()
        assert not target.is_symlink()
    assert os.readlink(link) == str(target)
    assert os.listdir(tmp_path / "folder") == ["target"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent/file", "the folder of .* does not exist; make it first"),
        ("file/inside", "the folder of .* does not exist"),
        ("a\0b", "cannot be written"),
        ("x" * 300, "cannot be written"),
    ],
)
def test_names_that_cannot_be_written(tmp_path, path, message):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(DataError, match=message):
        write(os.path.join(tmp_path, path))
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_permissions_of_an_existing_file_are_kept(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_a_write_protected_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o400)
    if os.access(path, os.W_OK):
        pytest.skip("root may write to every file")
    with pytest.raises(DataError, match="write-protected"):
        write(path)
    assert path.read_bytes() == b"old"


def test_what_is_written_can_be_read_before_it_has_its_name(tmp_path):
    with written_whole(tmp_path / "file") as stream:
        stream.write(b"new")
        stream.seek(0)
        assert stream.read() == b"new"
        assert not (tmp_path / "file").exists()
    assert (tmp_path / "file").read_bytes() == b"new"
