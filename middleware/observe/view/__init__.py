"""The live page: what a mesh is doing, drawn in a browser. Read-only, and a subscriber like any other."""
