"""Recordings in files: cut into pieces, read, and normalised by a mapping. Without Spark."""
