"""From statements to plans: the names, types and windows of a query, resolved against the catalog."""
