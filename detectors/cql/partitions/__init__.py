"""The state of one partition of a windowed query: its tuples in order, where windows end, and shared aggregates."""
