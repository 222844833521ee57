"""The control of alpha: Algorithm 3 of DEBS'13, what speculation gains, and what it costs."""
