"""Broken rows: each is found by its cells and reported, and costs no other row."""
