"""From a trace to a node, on time."""
