"""The ``slackline`` command: one module a sub-command, in rooms by what they are for."""
