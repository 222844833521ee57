"""``slackline sql``: statements from a prompt or a file, run over files, hosts, scenarios or a live mesh."""
