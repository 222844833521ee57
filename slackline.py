"""The entry point of the ``slackline`` command, outside the packages: they take a tenth of a second to import.

Nothing is open yet at that time, so that Ctrl-C may simply end the process, as it ends programs that take no notice of it.
"""

import signal


def main() -> None:
    """Import the command, and run it."""
    ended_by_interrupt = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored
    if ended_by_interrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from middleware.cli.main import main as command

    if ended_by_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


if __name__ == "__main__":
    main()
