"""Simulated worlds: real cores, failing networks, disks and clocks, one seed."""
