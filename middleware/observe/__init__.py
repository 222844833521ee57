"""Observes a running mesh and its results: status, metrics, a live page, and explanations."""
