"""Reports what a reader of a mesh waits for, within two seconds, if no event comes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from middleware.broker.routing import is_subscribed
from middleware.broker.watermarks.waiting import NodeStatus
from middleware.cli.output import STANDARD_OUTPUT, console
from middleware.model.errors import NetworkError
from middleware.model.words import meant
from middleware.runtime.clients.inquiry import Inquiry
from middleware.runtime.clients.subscriber import Subscriber
from middleware.runtime.transport.keys import Keys

_AFTER = 1.0
"""Seconds without an event after which the node is asked who publishes the subscribed types."""

_PATIENCE = 5.0
_SHOWN = 5


@contextmanager
def report_missing_publishers(
    subscriber: Subscriber, patterns: Collection[str], keys: Keys | None = None, node: str | None = None
) -> Iterator[None]:
    """Meanwhile, if no event comes, report on standard error which types and patterns nobody publishes, once."""
    over = threading.Event()
    thread = threading.Thread(target=_report, args=(subscriber, patterns, keys, node, over), name="awaited", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _report(
    subscriber: Subscriber, patterns: Collection[str], keys: Keys | None, node: str | None, over: threading.Event
) -> None:
    while not over.wait(_AFTER):
        if subscriber.has_read:
            return
        if not subscriber.is_connected:
            continue  # the connection says so itself
        try:
            with Inquiry(subscriber.address, keys=keys, node=node, patience=_PATIENCE) as inquiry:
                status = inquiry.ask(_PATIENCE)
        except NetworkError:
            continue
        if not over.is_set() and not subscriber.has_read:
            for line in awaited(status, patterns):
                console(STANDARD_OUTPUT).print(line, markup=False, soft_wrap=True)
        return


def awaited(status: NodeStatus, patterns: Collection[str]) -> list[str]:
    """The causes for which these types and patterns wait at a node, line by line."""
    published = sorted(name for name, stream in status.streams.items() if stream.origins)
    unmatched = [pattern for pattern in patterns if not any(is_subscribed([pattern], name) for name in published)]
    gone = [pattern for pattern in unmatched if pattern in status.streams]
    lines = [f"no one publishes {each!r} any more: all who did have left" for each in gone]
    lines += [_unmatched(pattern, published) for pattern in unmatched if pattern not in gone]
    if status.missing:
        lines.append(f"node {status.node} itself waits for {', '.join(status.missing)}, and takes nothing until then")
    if not lines:
        lines.append(f"nothing has come yet of {', '.join(patterns)}")
    return [f"connected to node {status.node}: {line}" for line in lines]


def _unmatched(pattern: str, published: list[str]) -> str:
    if not published:
        return f"no one publishes {pattern!r} yet, nor anything else"
    if pattern.endswith("*"):
        some = ", ".join(published[:_SHOWN]) + (", ..." if len(published) > _SHOWN else "")
        if len(published) == 1:
            return f"pattern {pattern!r} does not match the one type known there: {some}"
        return f"pattern {pattern!r} matches none of the {len(published)} types known there: {some}"
    near = meant(pattern, published)
    return f"no one publishes {pattern!r}" + (f" (did you mean {near!r}?)" if near else " yet")
