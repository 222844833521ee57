"""Where publishers' events come in: which are admitted, within which times, and which came before."""
