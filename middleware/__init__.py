"""Slackline: complex event processing middleware for event streams that arrive out of order.

Users import ``slackline``, which exports the public names. Each room here has its own folder (docs/architecture.md).
"""

from middleware import native  # noqa: F401  # required: where it is missing, the import of anything says so in one line

__version__ = "0.1.0"
