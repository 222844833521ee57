"""Parts of a run in this process: its input as columns, its results, and how they are shown."""
