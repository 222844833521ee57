"""Keeps a node's state private: only its own user (and root) may write it.

A checkpoint is a pickle: anyone who can write or replace it runs code as the node. So state folders are 0700 and files in them
0600 from the moment they are made, whatever the umask; and a file that another user owns, or may write, is refused unread.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from middleware.model.errors import StateError


def private_folder(folder: Path) -> None:
    """Make the folder for this user alone, if there is none, and check it. Raises StateError, OSError.

    An existing folder may be readable by others, if its owner wants that; files made in it are not.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check(folder, os.stat(folder), "go-w")


def private_database(file: Path) -> None:
    """Make an empty file, if there is none; check it, and SQLite's files beside it. Raises StateError, OSError.

    SQLite gives the files that it makes beside a database the database's mode. An existing one is not opened: closing it
    would release the locks that SQLite has on it in this process.
    """
    make_private(file)
    for each in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm", "-journal"))):
        with suppress(FileNotFoundError):
            _keep_private(each, each, os.stat(each))


def make_private(file: Path) -> None:
    """Make an empty file that others cannot read, if there is none. Raises OSError."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def open_private(file: Path, flags: int) -> int:
    """A descriptor of the file, which is made if there is none, and checked. Raises StateError, OSError."""
    descriptor = os.open(file, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _keep_private(file, descriptor, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _keep_private(path: Path, handle: Path | int, found: os.stat_result) -> None:
    _check(path, found, "600")
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():  # made by a program, or a version, that let others read it
        os.chmod(handle, 0o600)


def _check(path: Path, found: os.stat_result, mode: str) -> None:
    """Refuse a file that anyone but this user and root owns or may write."""
    here = os.geteuid()
    if found.st_uid not in (0, here):
        raise StateError(
            f"{path} belongs to user {found.st_uid}, and this process runs as user {here}: whoever owns stored state can run "
            f"code as the node that reads it; if it is this node's, 'chown -R {here} {path}', else take another state folder"
        )
    if found.st_mode & 0o022:
        raise StateError(
            f"others may write {path} (mode {stat.S_IMODE(found.st_mode):04o}), and so run code as the node that reads it; if "
            f"nobody has, 'chmod {mode} {path}', else take another state folder"
        )
