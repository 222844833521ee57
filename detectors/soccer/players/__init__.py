"""The players and teams: how they run, duel, stand and press."""
