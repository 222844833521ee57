"""The log of a durable node as its past: read step by step, without changing it, even while the node runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from middleware.broker.log.log_records import DetectorCode, LocalBlock, ReceivedPayload, Record, decode_record
from middleware.link.codec import BlockHead, Drops, EventCodec
from middleware.model.change import Delta
from middleware.model.errors import StateError
from middleware.model.event import EventTypes
from middleware.provenance.known_past import NodeStep
from middleware.runtime.storage.integrity import chained_records

FILE = "log.sqlite"


class LoggedPast:
    """The log in a node's state folder. Raises StateError if there is none, or if it cannot be read.

    ``node``
        the node it belongs to. ``first``: number of the first record that is kept; the log began with record 1.
    ``damaged``
        number of the first record that could not be read, once ``steps`` has come there.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self.damaged: int | None = None
        if not self.file.is_file():
            raise StateError(f'{folder} has no {FILE}: give the state folder of a node with durability = "disk"')
        with self._reading() as database:
            self.node = str((database.execute("SELECT name FROM owner").fetchone() or ("",))[0])
            self.first, self._began = database.execute(
                "SELECT coalesce(min(number), 0), coalesce(min(at), 0) FROM log"
            ).fetchone()

    def steps(self, types: EventTypes, names: Collection[str]) -> Iterator[NodeStep]:
        """The steps, with the changes of the ``names`` types. O(bytes of the log); one record is in memory at a time."""
        codec, drops, number, code = EventCodec(types), Drops(), self.first - 1, dict[str, str]()
        with self._reading() as database:
            for stored in chained_records(database, "number > ?", 0):
                if not stored.is_intact() or stored.position.number != number + 1:
                    self.damaged = number + 1
                    return
                number = stored.position.number
                arrived, published = list[Delta](), list[Delta]()
                record = decode_record(stored.data)
                code = next((entry.units for entry in record.entries if type(entry) is DetectorCode), code)
                for goes_to, head, block in _blocks(record, arrived, published):
                    if head.type in names:
                        goes_to.append(codec.decode(head, block, drops))
                if arrived or published:
                    yield NodeStep(number, arrived, published, self.node, stored.position.at - self._began, code=code)
        if drops:
            raise StateError(f"{self.file} holds events that these types cannot read: {dict(drops)}; is it the right scenario?")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(f"{self.file.resolve().as_uri()}?mode=ro", uri=True, timeout=10)) as database:
                yield database
        except sqlite3.Error as error:
            raise StateError(f"{self.file} cannot be read: {error}") from None


def _blocks(record: Record, arrived: list[Delta], published: list[Delta]) -> Iterator[tuple[list[Delta], BlockHead, bytes]]:
    """Each block with the list that it belongs to."""
    for entry in record.entries:
        if type(entry) is ReceivedPayload:
            for head, block in zip(entry.changes.blocks, entry.blocks, strict=True):
                yield arrived, head, block
        elif type(entry) is LocalBlock:
            yield published, entry.head, entry.block
