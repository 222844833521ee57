"""Connectors: events from other systems, and results for them; each kind in a folder of its own."""
