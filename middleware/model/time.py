"""Units of time. Times are whole nanoseconds, passed as arguments: only ``runtime``, ``spark`` and ``cli`` read clocks."""

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
