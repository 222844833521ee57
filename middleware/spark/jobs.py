"""Work that waits for Spark, in a thread of its own: whoever is interrupted while waiting for it cancels it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

_AGAIN = 0.02
"""Seconds until the work is cancelled again: Spark cancels the jobs that run, and knows none that are still to come."""

_PATIENCE = 10.0
"""Seconds that cancelled work has to clean up; work that waits for nothing of Spark may take longer."""


def running_session() -> SparkSession | None:
    """The session of this process, whichever thread has started it; None if there is none."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def interruptible(work: Callable[[], Result]) -> Result:
    """Run ``work``, and wait for it. Ctrl-C and SIGTERM cancel what it does in Spark, and do not cut its link to Java."""
    with in_background(work) as job:
        return job.result()


@contextmanager
def in_background(work: Callable[[], Result]) -> Iterator[Future[Result]]:
    """Run ``work`` while the block runs; the block must wait for it, or tell it to end if it raises.

    If the block is interrupted, all jobs that Spark runs are cancelled, until ``work`` is over. It is waited for, for seconds
    at most, so that it can clean up.
    """
    job: Future[Result] = Future()
    Thread(target=_run, args=(work, job), name="spark-job", daemon=True).start()
    try:
        yield job
    except Exception:
        wait([job])
        raise
    except BaseException:
        logging.getLogger().addFilter(_is_of_others)
        # in a thread, with a link to Java of its own: a second Ctrl-C would cut that of this one
        Thread(target=_cancel, args=(job,), name="spark-cancel", daemon=True).start()
        wait([job], _PATIENCE)
        raise


def _is_of_others(record: logging.LogRecord) -> bool:
    """Whether it is not py4j that writes: its tracebacks say that Java has been ended, too, by the same signal."""
    return "py4j" not in record.pathname


def _run(work: Callable[[], Result], job: Future[Result]) -> None:
    try:
        result = work()
    except BaseException as error:
        job.set_exception(error)
    else:
        job.set_result(result)


def _cancel(job: Future[Result]) -> None:
    while not job.done():
        with suppress(Exception):  # it may have been stopped meanwhile, or Java have been ended, too
            if (session := running_session()) is None:
                return
            # The context cancels jobs of RDDs, too, as PySpark's own handler of Ctrl-C does; interruptAll would leave them
            # running (those of foreach, for one). Only a session of Spark Connect has no context.
            if (context := getattr(session, "sparkContext", None)) is None:
                session.interruptAll()
            else:
                context.cancelAllJobs()
        wait([job], _AGAIN)
