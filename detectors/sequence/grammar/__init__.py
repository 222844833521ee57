"""From the text of a sequence query to its syntax tree."""
