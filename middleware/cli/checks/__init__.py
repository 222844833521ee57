"""Commands that check: an installation, a detector, a flow, speed, and Slackline itself."""
