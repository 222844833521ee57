"""``python -m slackline`` is the command ``slackline``."""

from middleware.cli.main import main

if __name__ == "__main__":
    main()
