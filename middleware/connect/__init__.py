"""What other systems have, as events, and results for them: each kind in a folder of its own."""
