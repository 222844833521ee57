"""Sinks: each takes every final event once."""
