"""Brokers and links: who may say what, who gets what, and what is promised. Pure."""
