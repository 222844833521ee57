"""The passes: which there were, where they went, what players made of them, and offside."""
