"""The broker of a node: what each peer may send, what each gets, and which watermarks hold. Pure."""
