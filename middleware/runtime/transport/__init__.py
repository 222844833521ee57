"""Sockets, and whom they let in."""
