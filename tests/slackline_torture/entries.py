"""The commands that try to break real nodes, as ``slackline`` lists them."""

from middleware.cli.command import CommandEntry

TORTURE = CommandEntry(
    "slackline_torture.torture_command:torture", "Real nodes under kill, cut, stall, full disks, lies and junk."
)
SOAK = CommandEntry("slackline_torture.soak_command:soak", "More than nodes can take, for long: memory flat, nothing dropped.")
