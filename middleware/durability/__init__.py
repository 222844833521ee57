"""Checkpoints, and recovery from them after a crash. Pure."""
