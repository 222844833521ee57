"""K-slack: learns K from the delays of events."""
