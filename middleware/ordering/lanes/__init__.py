"""Lanes: each runs a detector or an operator over its events in order, and keeps its results and snapshots."""
