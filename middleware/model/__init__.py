"""The vocabulary: events, changes, detectors and operators. Pure."""
