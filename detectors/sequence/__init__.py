"""Sequence queries (SASE) over streams that arrive out of order, with negation: an incremental operator.

>>> from middleware.model.event import Event
>>> class Shelf(Event):
...     tag: int
>>> class Exit(Event):
...     tag: int
>>> SequenceQuery("EVENT SEQ(Shelf s, Exit e) WHERE s.tag = e.tag WITHIN 1 hour", [Shelf, Exit]).name
'Match'
"""

from detectors.language.errors import QueryError
from detectors.sequence.builder import call, one, same, seq, some
from detectors.sequence.operator import SequenceQuery

__all__ = ["QueryError", "SequenceQuery", "call", "one", "same", "seq", "some"]
