"""Names and values in messages: a few of many, the likely one for a wrong name, and no more of a value than one can read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

_PASSWORD = re.compile(r"((?:^|//|[\s'\"(=])[^\s:/@'\"]*:)(?!//)(?!\d+(?:[/?#]|$))([^\s'\"]+)(?=@)")
"""USER:PASSWORD@: what stands between the colon and the last @. A port before a path is none."""

_NAMED_SECRET = re.compile(
    r"((?:^|[?&;\s'\"])[\w.-]*(?:pas|pwd|token|secret|key|auth|credential|sig)[\w.-]*=)('[^']*'|[^&\s'\"#;]+)", re.IGNORECASE
)
"""NAME=VALUE, in a query or as libpq has it, where the name says that the value is secret; "pas" also finds misspelled ones."""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, cut where they would be too many.

    >>> listed("abcd", 3)
    'a, b, c and 1 more'
    """
    each = list(names)
    return ", ".join(each[:most]) + (f" and {len(each) - most} more" if len(each) > most else "")


def counted(counts: Mapping[str, int]) -> str:
    """How many of what, for a message.

    >>> counted({"late": 1_200, "no source": 2})
    '1,200 x late, 2 x no source'
    """
    return ", ".join(f"{count:,} x {what}" for what, count in counts.items())


def redacted(text: str, address: str = "") -> str:
    """An address, or a message about one, without passwords and tokens.

    ``address``
        its secrets, and pieces of them, are hidden as well: libraries quote pieces that they take for a port or an option.

    >>> redacted("mqtt://plant:s3cret@10.0.0.5/hits?token=abc&qos=1")
    'mqtt://plant:***@10.0.0.5/hits?token=***&qos=1'
    >>> redacted("invalid port number 's3'", "postgresql://plant:s3/cret@10.0.0.5/db")
    "invalid port number '***'"
    """
    for secret in (found[2] for pattern in (_PASSWORD, _NAMED_SECRET) for found in pattern.finditer(address)):
        for piece in sorted({secret, *re.split(r"[/:?#@&%,]", secret)}, key=len, reverse=True):
            if len(piece) > 1:
                text = text.replace(piece, "***")
    return _NAMED_SECRET.sub(r"\1***", _PASSWORD.sub(r"\1***", text))


def shown(value: object, most: int = 200) -> str:
    """A value for a message, cut where it would be too long.

    >>> shown([1, 2, 3], 5)
    '[1, 2...'
    """
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def meant(name: str, known: Collection[str]) -> str:
    """The known name most like ``name``, compared in any case and without the namespace; "" if none is close.

    >>> meant("Plian", ["soccer.Plain", "Odd"]), meant("weather.odd", ["soccer.Plain", "Odd"]), meant("x", ["Odd"])
    ('soccer.Plain', 'Odd', '')
    """
    by_last: dict[str, list[str]] = {}
    for each in known:
        by_last.setdefault(each.rpartition(".")[2].lower(), []).append(each)
    near = get_close_matches(name.rpartition(".")[2].lower(), by_last, 1)
    return get_close_matches(name, by_last[near[0]], 1, 0.0)[0] if near else ""
