"""Prepares traces from recordings."""
