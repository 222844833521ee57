"""Soccer: events, a hierarchy of detectors over position sensors, and a generated match to run them on.

The event types that everything rests on are in ``events``; all others stand beside the detectors that derive them. All keep
to the same units: lengths in m, speeds in m/s, accelerations in m/s2, times and durations in ns. Player 0 and team "" are
nobody; ``player`` is whom an event is about, and ``team`` is his.
"""
