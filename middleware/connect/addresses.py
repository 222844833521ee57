"""Host and port of an address."""

from __future__ import annotations

from urllib.parse import urlsplit

from middleware.model.errors import SlacklineError
from middleware.model.words import redacted


def host_and_port(address: str, port: int, host: str = "") -> tuple[str, int]:
    """Those of an address, or these where it names none. Raises SlacklineError if its port is none."""
    parts = urlsplit(address)
    try:
        return parts.hostname or host, parts.port or port
    except ValueError as error:
        raise SlacklineError(redacted(f"{parts.scheme}://{parts.hostname}: {error}", address)) from None
