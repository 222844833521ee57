"""From a recording to a trace."""
