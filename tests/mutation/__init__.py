"""Mutation testing: one-line faults, drawn from a seed, that the tests must see."""
