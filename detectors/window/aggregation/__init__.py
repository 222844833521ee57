"""The aggregates of windows: monoids, and the tree that keeps them as events come and go out of order."""
