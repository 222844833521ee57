"""``python -m slackline_benchmarks.screenshots [FOLDER]``: the pictures of the live page that the docs show.

Runs the generated match for a while, at its own pace and out of order, and takes the page in three sizes.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path

from slackline_benchmarks.browser import chromium, lacking, sized

from middleware.cli.meshes.view import following
from middleware.model.event import Event
from middleware.model.time import MILLISECOND, SECOND
from middleware.observe.view.server import Page
from middleware.runtime.clients import Publisher
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import load_scenario
from scenarios.soccer.match import events

SIZES = {"wide": (1440, 1250, False), "dark": (1024, 1350, True), "phone": (390, 1500, False)}
_SECONDS = 25.0
_SLICE = 50 * MILLISECOND
_LATEST = 250 * MILLISECOND


def disordered(seconds: float, seed: int = 7) -> Iterator[list[Event]]:
    """The match in slices of 50 ms in the order of arrival; one event in ten comes up to a quarter of a second late."""
    chance = random.Random(seed)
    arrivals = sorted(
        ((event.ts + (chance.randrange(_LATEST) if chance.random() < 0.1 else 0), event) for event in events(seed, seconds)),
        key=lambda arrival: arrival[0],
    )
    for _, group in groupby(arrivals, key=lambda arrival: arrival[0] // _SLICE):
        yield [event for _, event in group]


def main(folder: Path) -> None:
    """Take the pictures."""
    if why := lacking():
        sys.exit(why)
    folder.mkdir(parents=True, exist_ok=True)
    with Cluster(load_scenario("soccer")) as cluster, closing(Page("127.0.0.1:0")) as page, chromium() as driver:
        page.start()
        with Publisher(cluster.addresses["field"], name="match") as publisher, following(page, cluster, "live"):
            feeder = threading.Thread(target=_feed, args=[publisher], daemon=True)
            driver.get(page.url)
            feeder.start()
            feeder.join(_SECONDS - 5)
            for name, (width, height, dark) in SIZES.items():
                sized(driver, width, height, dark=dark)
                time.sleep(1)  # a person looks, too, before the shutter falls
                driver.save_screenshot(str(folder / f"view-{name}.png"))
                print(folder / f"view-{name}.png")


def _feed(publisher: Publisher) -> None:
    began = time.monotonic()
    for number, slice_ in enumerate(disordered(_SECONDS)):
        time.sleep(max(0.0, began + number * _SLICE / SECOND - time.monotonic()))
        publisher.publish(slice_)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
