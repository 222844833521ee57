"""The broker of a node: who may say what, who gets what, and which watermarks hold. Pure."""
