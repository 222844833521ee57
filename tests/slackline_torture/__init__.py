"""Torture: real nodes, sockets and disks, and what breaks them."""
