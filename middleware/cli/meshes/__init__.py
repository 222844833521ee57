"""Commands for running nodes: start, connect, publish, subscribe, watch."""
