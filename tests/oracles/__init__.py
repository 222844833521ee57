"""Readable models in Python that property tests hold the Rust core against."""
