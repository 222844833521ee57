"""Recordings: Spark prepares, delays and feeds them."""
