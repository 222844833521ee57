"""A real match as optical tracking saw it, against what people wrote down of it."""
