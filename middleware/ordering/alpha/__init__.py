"""How alpha is steered: Algorithm 3 of DEBS'13, what speculation gains, and what it costs."""
