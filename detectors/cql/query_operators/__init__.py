"""The operators that run plans: of tuples, joins, lookups, patterns and windows."""
