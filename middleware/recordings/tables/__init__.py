"""Tables (pandas, polars, pyarrow) as events, and events as tables."""
