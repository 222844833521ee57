"""Plans of simulated worlds, drawn from seeds: who publishes and reads, with which policies, and what goes wrong."""
