"""Recordings: prepared, delayed and fed by Spark."""
