"""Files: the log of a node and its checkpoints, the late ledger, spill files."""
