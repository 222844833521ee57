"""The loop of a node's one thread: the ends of its steps, its pauses, and its wake-ups."""
