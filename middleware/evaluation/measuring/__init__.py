"""Measures of runs: accuracy, buffers, corrections, memory by part, and bytes on the wire."""
