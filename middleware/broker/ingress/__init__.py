"""Ingress: which events of publishers are admitted, within which times, and which are repeats."""
