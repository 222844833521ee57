"""Simulated worlds, for those who change Slackline: real cores on failing networks, disks and clocks, drawn from one seed."""
