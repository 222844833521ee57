"""Feeds a trace on time: its rows as events, in groups, by a clock."""
