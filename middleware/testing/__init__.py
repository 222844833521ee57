"""Conformance checks, oracles and fault injection, for detector authors and for our own tests."""
