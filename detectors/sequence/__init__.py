"""Sequence queries (SASE) over streams that arrive out of order, with negation: an incremental operator.

>>> from middleware.model.event import Event
>>> class Shelf(Event):
...     tag: int
>>> class Exit(Event):
...     tag: int
>>> SequenceQuery("EVENT SEQ(Shelf s, Exit e) WHERE s.tag = e.tag WITHIN 1 hour", [Shelf, Exit]).name
'Match'
"""

from detectors.language.query_errors import QueryError
from detectors.sequence.sequence_builder import call, one, same, seq, some
from detectors.sequence.sequence_operator import SequenceQuery

__all__ = ["QueryError", "SequenceQuery", "call", "one", "same", "seq", "some"]
