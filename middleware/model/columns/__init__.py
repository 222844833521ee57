"""Events as columns, and as rows of them."""
