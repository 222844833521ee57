"""The only I/O: nodes and clients over sockets, threads, time, disks and processes."""
