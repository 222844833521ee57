"""Commands that answer why: a result came, a stream waits, an event was not taken."""
