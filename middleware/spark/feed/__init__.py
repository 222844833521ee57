"""Feeds a trace to a node, on time."""
