"""Connectors: events from other systems, and results for them."""
