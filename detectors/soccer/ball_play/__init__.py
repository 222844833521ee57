"""The ball and the players at it: hits, flights, touches, kicks, and who has the ball."""
