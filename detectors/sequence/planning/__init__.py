"""From a syntax tree to a plan: the names, types, equalities, conditions and results of a query."""
