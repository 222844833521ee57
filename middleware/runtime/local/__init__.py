"""What a run in this process needs beside the engine: its input as columns, its results, and how they are shown."""
