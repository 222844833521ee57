"""The ``slackline`` command, one module a sub-command."""
