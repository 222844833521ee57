"""Simulated worlds: real cores on failing networks, disks and clocks, drawn from one seed."""
