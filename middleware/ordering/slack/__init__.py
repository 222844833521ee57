"""How K is learnt from the delays of events."""
