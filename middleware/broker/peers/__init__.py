"""The peers of a broker: their rights, credits and subscriptions."""
