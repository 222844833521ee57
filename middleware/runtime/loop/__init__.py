"""What keeps a node's one thread going: its steps' ends, its pauses, what wakes it."""
