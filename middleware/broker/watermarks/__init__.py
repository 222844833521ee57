"""Watermarks: what is promised, by whom, and what is waited for."""
