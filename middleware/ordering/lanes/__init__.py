"""What runs a detector or an operator: its events in order, its results, and snapshots to go back to."""
