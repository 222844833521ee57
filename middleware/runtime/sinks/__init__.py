"""Sinks: where final events go, each once."""
