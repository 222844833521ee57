"""Messages of servers: what a source is, how its messages become events, and numbers for those that have none."""
