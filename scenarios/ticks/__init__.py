"""Stock ticks of three exchanges."""
