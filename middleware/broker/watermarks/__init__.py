"""Watermarks: what each origin promises, and what streams wait for."""
