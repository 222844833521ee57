"""Sockets, and access control for them."""
