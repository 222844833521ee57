"""Recordings: their formats, mappings and traces, and tables of events. Spark is imported only where it numbers rows."""
