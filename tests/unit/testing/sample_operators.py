"""Operators for the tests of the conformance suite: one that keeps the contract, and one for each way to break it."""

from typing import Annotated

from msgspec import Meta
from slackline import Delta, Event

from middleware.model.operator import Operation, Operator, Origin


class Reading(Event):
    device: Annotated[int, Meta(ge=0, le=3)]
    value: int


class High(Event):
    device: int
    value: int


class Good(Operator):
    """Publishes each reading above a limit."""

    subscribes, publishes, name = (Reading,), (High,), "Good"
    operation: type["GoodOperation"]

    def __init__(self, limit: int = 1) -> None:
        self.limit = limit

    def start(self, name: str, level: int) -> "GoodOperation":
        return self.operation(self.limit, Origin(name, level))


class GoodOperation(Operation):
    def __init__(self, limit: int, origin: Origin) -> None:
        super().__init__()
        self.limit, self.origin = limit, origin
        self.there: dict[int, High] = {}

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        before = {number: self.there.pop(number, None) for number in map(self.result_id, delta.retracts)}
        for event in delta.inserts:
            if event.value > self.limit:
                number = self.result_id(event)
                self.there[number] = self.result(event, number)
                before.setdefault(number, None)
        out = Delta()
        for number, was in before.items():
            now = self.there.get(number)
            if was and now and was != now:
                out.revises.append((was, now))
            elif was and not now:
                out.retracts.append(was)
            elif now and not was:
                out.inserts.append(now)
        self.there = {number: event for number, event in self.there.items() if event.ts > final}
        return out

    def result_id(self, event: Event) -> int:
        return self.origin.of_match([event])

    def result(self, event: Event, number: int) -> High:
        return High(event.device, event.value, ts=event.ts, id=number, source=self.origin.source, level=self.origin.level)

    def snapshot(self) -> dict[int, High]:
        return dict(self.there)

    def restore(self, state: dict[int, High]) -> None:
        self.there = dict(state)


Good.operation = GoodOperation


class DeafOperation(GoodOperation):
    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        return super().apply(Delta(delta.inserts), emitted, final)


class CountingOperation(GoodOperation):
    count = 0

    def result_id(self, event: Event) -> int:
        self.count += 1
        return self.count


class UnstampedOperation(GoodOperation):
    def result(self, event: Event, number: int) -> High:
        return High(event.device, event.value, ts=event.ts, id=number)


class ForgetfulOperation(GoodOperation):
    def snapshot(self) -> dict[int, High]:
        return {}


class SharingOperation(GoodOperation):
    """Goes on changing what it gave."""

    def snapshot(self) -> dict[int, High]:
        return self.there


class RaisingOperation(GoodOperation):
    def result(self, event: Event, number: int) -> High:
        return High(1 // event.device, event.value, ts=event.ts, id=number, source=self.origin.source, level=self.origin.level)


def broken(kind: type[GoodOperation]) -> Good:
    operator = Good()
    operator.operation = kind
    return operator
