"""The log of a node as its broker sees it, and the readers that it is kept for."""
