"""The flow at work: stages as operators, and what they run: maps, groupings, folds and cycles over items."""
