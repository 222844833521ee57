"""For those who change Slackline: simulated worlds, real cores on failing networks, disks and clocks, drawn from one seed."""
