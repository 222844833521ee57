"""The reliable stream between two processes: frames, payloads, one end of a link. Pure."""
