"""CURVE keys: key files, the allow-list, and the settings of sockets.

A key file belongs to one node or client and holds its key pair; only its owner can read it. The allow-list has one line for
each key that is let in: ``KEY NAME [FLAG ...] [RIGHT ...]``. A ``#`` at the start of a line or a word begins a comment.
The only flag is ``deploy``. It is reserved for keys that may send code; as yet no key can, so it has no effect. A right is
one word, ``publish=TYPES``, ``source=NAME``, ``read=TYPES`` or ``history=TIME``, and may occur several times; without any of
a kind, there is no limit of that kind. See ``Rights``.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import zmq
from zmq.utils import z85

from middleware.broker.peers.rights import EVERYTHING, Rights
from middleware.broker.routing import check_pattern
from middleware.model.errors import KeyFileError, SlacklineError
from middleware.model.quantities import format_duration, parse_duration

DEPLOY = "deploy"
"""The flag of keys that will be allowed to send code: reserved, without effect as yet."""

_FLAGS = frozenset({DEPLOY})

NOTHING = "nothing"
"""The word in place of a pattern in a right that covers no type."""

DOMAIN = "slackline"
"""The domain of ZeroMQ's authentication: one for all."""


class KeyPair(msgspec.Struct, frozen=True):
    """A named CURVE pair, in Z85 (40 characters each)."""

    name: str
    public: str
    secret: str

    def __repr__(self) -> str:
        return f"KeyPair(name={self.name!r}, public={self.public!r})"  # the secret stays out of logs


class AllowedKey(msgspec.Struct, frozen=True):
    """One line of an allow-list."""

    key: str
    name: str
    flags: frozenset[str] = frozenset()
    publish: frozenset[str] = EVERYTHING
    sources: frozenset[str] = frozenset()
    read: frozenset[str] = EVERYTHING
    history: int | None = None

    def line(self) -> str:
        """Its line in an allow-list, which ``entry_in`` reads back as the same entry."""
        rights = [f"publish={each}" for each in _named(self.publish)]
        rights += [f"source={each}" for each in sorted(self.sources)]
        rights += [f"read={each}" for each in _named(self.read)]
        if self.history is not None:
            short = format_duration(self.history)
            rights.append(f"history={short if parse_duration(short) == self.history else f'{self.history}ns'}")
        return " ".join([self.key, self.name, *sorted(self.flags), *rights])


def _named(patterns: frozenset[str]) -> list[str]:
    """The patterns as values of a right: none if there is no limit, and a word of its own if no type is covered."""
    return [] if patterns == EVERYTHING else sorted(patterns) or [NOTHING]


def check_name(name: str) -> str:
    """The name itself. Raises KeyFileError if no line of an allow-list could hold it as the name of a key."""
    if name.split() != [name] or name.startswith("#"):
        raise KeyFileError(f"{name!r} cannot be the name of a key: use one word")
    return name


def new_keys(name: str, path: Path) -> KeyPair:
    """Make a key pair and write it to a file that only its owner can read. Raises KeyFileError if the file exists."""
    check_name(name)
    public, secret = zmq.curve_keypair()
    pair = KeyPair(name, public.decode(), secret.decode())
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"# Slackline key of {name}: keep it secret\nname {name}\npublic {pair.public}\nsecret {pair.secret}\n")
    except FileExistsError:
        raise KeyFileError(f"{path} exists: remove it first if that key is to be replaced") from None
    except OSError as error:
        raise KeyFileError(f"cannot write {path}: {error.strerror}") from None
    return pair


def load_keys(path: Path) -> KeyPair:
    """The pair in a key file. Raises KeyFileError if it is no key file, or if others can read it."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"cannot read key file {path}: {error}; create one with 'slackline keys new NAME'") from None
    if mode & 0o077:
        raise KeyFileError(f"{path} can be read by others: 'chmod 600 {path}', and make a new pair if anyone may have seen it")
    values = dict(
        line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#") and " " in line
    )
    try:
        pair = KeyPair(values["name"].strip(), values["public"].strip(), values["secret"].strip())
        if zmq.curve_public(pair.secret.encode()).decode() != pair.public:
            raise ValueError("public and secret key do not belong together")
    except (KeyError, ValueError, zmq.ZMQError) as error:
        raise KeyFileError(f"{path} is no key file: {error}") from None
    return pair


def load_allowed(path: Path) -> list[AllowedKey]:
    """The lines of an allow-list. Raises KeyFileError with the number of a wrong line, or if others can change the file."""
    try:
        status, lines = path.stat(), path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"cannot read allow-list {path}: {error}") from None
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise KeyFileError(
            f"allow-list {path} can be changed by others, who could let themselves in: own it yourself, and 'chmod go-w {path}'"
        )
    allowed: list[AllowedKey] = []
    for number, line in enumerate(lines, 1):
        words = _without_comment(line.split())
        if not words:
            continue
        try:
            allowed.append(entry_in(words))
        except KeyFileError as error:
            raise KeyFileError(f"{path}:{number}: {error}") from None
    return allowed


def entry_in(words: list[str]) -> AllowedKey:
    """The entry that the words of a line make. Raises KeyFileError."""
    if len(words) < 2 or not _is_key(words[0]):
        raise KeyFileError("expected 'KEY NAME [FLAG ...]' with a key of 40 characters")
    key, name, *others = words
    flags = frozenset(word for word in others if "=" not in word)
    if unknown := flags - _FLAGS:
        names = ", ".join(sorted(map(repr, unknown)))
        raise KeyFileError(f"{names} is no flag: {', '.join(sorted(_FLAGS))} is all there is; '#' begins a comment")
    return AllowedKey(key, name, flags, **rights_in(word for word in others if "=" in word))


def put_entry(path: Path, entry: AllowedKey) -> None:
    """Write an entry into an allow-list, in place of the lines of its key; a list that is missing is made.

    Other lines and the comment behind the entry stay. A node that reads the list meanwhile finds the old one or the new one.
    Raises KeyFileError.
    """
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        before = target.read_text().splitlines() if target.exists() else []
        part.touch(0o644, exist_ok=False)
        try:
            if target.exists():
                shutil.copymode(target, part)
                with suppress(PermissionError):  # only root may give a file to the owner of the old one
                    os.chown(part, target.stat().st_uid, target.stat().st_gid)
            else:
                part.chmod(0o644)  # whatever the umask: a list that a group may change is refused
            part.write_text("".join(f"{line}\n" for line in _with_entry(before, entry)))
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except (OSError, UnicodeError) as error:
        raise KeyFileError(f"cannot write allow-list {path}: {error}") from None


def _with_entry(lines: list[str], entry: AllowedKey) -> list[str]:
    """The lines of a list with those of the key replaced by one: of several, nodes would follow the last."""
    kept, is_listed = list[str](), False
    for line in lines:
        words = line.split()
        if words[:1] != [entry.key]:
            kept.append(line)
        elif not is_listed:
            is_listed = True
            kept.append(" ".join([entry.line(), *words[len(_without_comment(words)) :]]))
    return kept if is_listed else [*kept, entry.line()]


def rights_in(words: Iterable[str]) -> dict[str, Any]:
    """The rights that the words of a line give, as fields of ``AllowedKey``. Raises KeyFileError."""
    found: dict[str, Any] = {}
    for word in words:
        kind, _, value = word.partition("=")
        try:
            if kind in ("publish", "read"):
                found[kind] = found.get(kind, frozenset()) | ({_one_word(check_pattern(value))} if value != NOTHING else set())
            elif kind == "source" and value and "*" not in value[:-1] and value.split() == [value]:
                found["sources"] = found.get("sources", frozenset()) | {value}
            elif kind == "history":
                found["history"] = _not_negative(parse_duration(value))
            else:
                raise ValueError("a right is publish=TYPES, source=NAME (or NAME*), read=TYPES or history=TIME")
        except (ValueError, SlacklineError) as error:
            raise KeyFileError(f"{word!r} is no right: {error}") from None
    return found


def _one_word(pattern: str) -> str:
    if pattern.split() != [pattern]:
        raise ValueError("a pattern is one word")
    return pattern


def _not_negative(duration: int) -> int:
    if duration < 0:
        raise ValueError("a history is no negative time")
    return duration


def _without_comment(words: list[str]) -> list[str]:
    """The words before one that begins with '#'. No key does: '#' is Z85's digit 84, and 84 * 85^4 exceeds 32 bits."""
    return list(takewhile(lambda word: not word.startswith("#"), words))


def check_key(key: str) -> str:
    """The public key itself. Raises KeyFileError if it is none."""
    if not _is_key(key):
        raise KeyFileError(f"{key!r} is no public key: a key is 40 characters, as 'slackline keys show FILE.key' prints them")
    return key


def _is_key(key: str) -> bool:
    try:
        return len(z85.decode(key)) == 32
    except (KeyError, ValueError, struct.error):  # a wrong length, a character, or a group of five that Z85 does not have
        return False


class Keys:
    """The CURVE keys of one process: its own pair, and the public keys of the peers it lets in and dials."""

    def __init__(self, own: KeyPair, allowed: list[AllowedKey], allow_list: Path | None = None) -> None:
        self.own = own
        self._allow_list = allow_list
        self._list(allowed)

    def _list(self, allowed: list[AllowedKey]) -> None:
        self._by_key = {entry.key: entry for entry in allowed}
        self._by_name = {entry.name: entry for entry in allowed}

    @classmethod
    def load(cls, key_file: Path | str, allow_list: Path | str) -> Keys:
        """From a key file and an allow-list."""
        return cls(load_keys(Path(key_file)), load_allowed(Path(allow_list)), Path(allow_list))

    def reload(self) -> None:
        """Read the allow-list again, if these keys came from files. Raises KeyFileError; then the old list stays in force.

        An empty list is refused: an editor that writes a file in place leaves one for a moment.
        """
        if self._allow_list is not None:
            if not (allowed := load_allowed(self._allow_list)):
                raise KeyFileError(f"{self._allow_list} lists nobody: is it being written? To shut all out, stop the node")
            self._list(allowed)

    @classmethod
    def given(cls, key_file: Path | None, allow_list: Path | None) -> Keys | None:
        """Like ``load``; None if neither is given. Raises KeyFileError if only one is."""
        if key_file is not None and allow_list is not None:
            return cls.load(key_file, allow_list)
        if key_file is None and allow_list is None:
            return None
        raise KeyFileError("--keys and --allow-list go together: one's own key, and those of the others")

    def entry(self, key: str) -> AllowedKey | None:
        """The line of a public key, or None if it is not let in. A process lets itself in."""
        return self._by_key.get(key) or (AllowedKey(key, self.own.name) if key == self.own.public else None)

    def rights(self, entry: AllowedKey) -> Rights:
        """What the holder of a listed key may do. O(lines)."""
        others = frozenset().union(*(each.sources for each in self._by_key.values() if each.name != entry.name))
        return Rights(entry.name, entry.publish, entry.read, entry.sources, others, entry.history)

    def of_itself(self) -> Keys:
        """The keys of a client in the process of its node."""
        return Keys(self.own, [AllowedKey(self.own.public, self.own.name)])

    def key_of(self, name: str | None) -> str:
        """The public key listed for a name; without a name, the only one listed. Raises KeyFileError."""
        if name is None and len(self._by_key) == 1:
            return next(iter(self._by_key))
        if name is None:
            raise KeyFileError("the list has several keys: name the node's (node=...)")
        try:
            return self._by_name[name].key
        except KeyError:
            raise KeyFileError(f"the allow-list has no key of node {name!r}: add a line 'KEY {name}'") from None

    def listed(self, name: str | None) -> str | None:
        """Like ``key_of``, but None if there is none."""
        try:
            return self.key_of(name)
        except KeyFileError:
            return None

    def secure_server(self, socket: zmq.Socket[bytes]) -> None:
        """Let only listed keys attach; a Gatekeeper must be running."""
        self._own(socket)
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt_string(zmq.ZAP_DOMAIN, DOMAIN)

    def secure_client(self, socket: zmq.Socket[bytes], node: str | None) -> None:
        """Talk only to the holder of that node's key."""
        self._own(socket)
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.key_of(node).encode())

    def _own(self, socket: zmq.Socket[bytes]) -> None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.own.public.encode())
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.own.secret.encode())
