"""The commands of the query languages, as ``slackline`` lists them; their code is imported when they are called."""

from middleware.cli.command import CommandEntry

SQL = CommandEntry("detectors.cql.shell.sql_command:sql", "Continuous queries in a language like SQL.")
QUERY = CommandEntry("detectors.sequence.query_command:query", "Run a sequence query over a trace, a scenario, or a node.")
