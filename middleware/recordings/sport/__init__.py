"""Matches as sports data providers deliver them: what players and ball did, and what people saw."""
