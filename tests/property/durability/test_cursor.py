"""A subscriber that dies at any moment and reads the log again from its cursor delivers each final once, in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.delivery.barrier import Barrier
from middleware.delivery.cursor import Cursor
from middleware.model.change import Batch, Delta
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event

LINE = 7


class Ping(Event):
    text: int = 0


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Batch], list[Event]]:
    """A log of consistent changes with promises, one batch an offset, and the finals that it comes to."""
    present: dict[tuple[str, int], Event] = {}
    watermark, batches, number = NEVER, [], 0
    for _ in range(draw(st.integers(1, 25))):
        delta = Delta()
        for event in (
            draw(st.lists(st.sampled_from(sorted(present.values(), key=ORDER)), unique_by=ORDER, max_size=3)) if present else []
        ):
            if event.ts <= watermark:
                continue
            if draw(st.booleans()):
                delta.retracts.append(present.pop(IDENTITY(event)))
            else:
                new = Ping(event.text + 1, ts=max(watermark + 1, event.ts + draw(st.integers(-2, 2))), id=event.id, source="s")  # type: ignore[attr-defined]
                delta.revises.append((event, new))
                present[IDENTITY(event)] = new
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            new = Ping(ts=max(watermark + 1, draw(st.integers(0, 30))), id=number, source="s")
            delta.inserts.append(new)
            present[IDENTITY(new)] = new
        watermark = max(watermark, draw(st.integers(-1, 30)) if draw(st.booleans()) else watermark)
        batches.append(Batch({"Ping": delta}, {"Ping": watermark}))
    batches.append(Batch({}, {"Ping": END}))
    return batches, sorted(present.values(), key=ORDER)


@settings(max_examples=200, deadline=None)
@given(log=logs(), deaths=st.lists(st.integers(1, 8), max_size=6), chunks=st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_each_final_is_delivered_once(log: tuple[list[Batch], list[Event]], deaths: list[int], chunks: list[int]) -> None:
    batches, finals = log
    delivered: list[Event] = []
    offset, position = 0, None
    for life in [*deaths, None]:
        barrier, cursor, at, steps = Barrier(["Ping"]), Cursor(position), offset, 0
        cursor.log_offset = (LINE, offset)
        while at < len(batches) and (life is None or steps < life):
            came = batches[at : at + chunks[steps % len(chunks)]]
            at, steps = at + len(came), steps + 1
            released = []
            for place, batch in enumerate(came, at - len(came) + 1):
                free = barrier.take(batch)
                cursor.moved((LINE, place), batch.deltas.values(), free, barrier)
                released += free
            assert not barrier.violations
            fresh = cursor.fresh(released)
            if life is not None and steps == life:
                break  # it dies with these in its hands: they were never taken
            delivered += fresh
            offset, position = cursor.offset, cursor.position
    assert delivered == finals
