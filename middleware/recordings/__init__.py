"""Recordings: their formats, mappings and traces, and tables of events. Needs neither Spark nor a server."""
