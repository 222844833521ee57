"""Conformance, oracles and fault injection: shipped for detector authors, and for our own tests."""
