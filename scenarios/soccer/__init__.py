"""The match: a generated one, or any that is recorded, and how well the detectors find what happens in it."""
