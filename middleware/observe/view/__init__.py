"""The live page: shows in a browser what a mesh is doing. It only reads, as a subscriber like any other."""
