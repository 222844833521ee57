"""The attacks: from winning the ball to shots, goals and set pieces."""
