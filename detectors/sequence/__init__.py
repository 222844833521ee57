"""Sequence queries (SASE) over streams that arrive out of order, with negation: an incremental operator."""
