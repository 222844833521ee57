"""The flow as a graph: operations and their inputs, what is checked of it, its stages, and its drawing."""
