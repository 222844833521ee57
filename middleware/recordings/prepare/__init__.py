"""Prepares a trace from a recording: the model of its delays, and what it holds."""
