"""Where publishers come in: what may be said, within which times, and what was said before."""
