"""Exhaustive exploration of the promises between nodes: every interleaving of a small plan, with the brokers that ship."""
