"""What mypy, strict, knows of a user's program that is written as the guides write theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import slackline as sl


class Reading(sl.Event):
    machine: str
    celsius: float = 0.0


class Hot(sl.Event):
    machine: str


class Hots(sl.Detector):
    subscribes, publishes, key = (Reading,), (Hot,), "machine"

    def on_event(self, event: Reading) -> Hot | None:
        return Hot(event.machine, ts=event.ts) if event.celsius > 90 else None


first = Reading("press", 95.0, ts=1, id=1, source="plc")
result = sl.run([first], [Hots(), sl.Windows(Reading, sl.Tumbling(sl.SECOND), {"mean": (sl.MEAN, "celsius")}, key="machine")])
reveal_type(first.ts)
reveal_type(result.of(Hot))
with sl.Subscriber("tcp://127.0.0.1:5701", Hot, consistency="final") as subscriber:
    for change in subscriber:
        if isinstance(change, sl.Insert):
            reveal_type(change.event)
some = sl.Subscriber("tcp://127.0.0.1:5701", ["yard.*"])
reveal_type(some.receive())


async def follow() -> None:
    async with sl.AsyncSubscriber("tcp://127.0.0.1:5701", [Hot], resume="desk") as hots:
        reveal_type(await hots.receive())


first.celsius = 3.0
Reading("press")
Reading(7, ts=1)
sl.AsyncSubscriber("tcp://127.0.0.1:5701", Hot, consistent="final")
"""

QUOTE = '"'

EXPECTED = """
note int
note list[Hot]
note Hot
note list[Insert[Event] | Revise[Event] | Retract[Event] | Watermark]
note list[Insert[Hot] | Revise[Hot] | Retract[Hot] | Watermark]
error Property "celsius" defined in "Reading" is read-only
error Missing named argument "ts" for "Reading"
error Argument 1 to "Reading" has incompatible type "int"; expected "str"
error Unexpected keyword argument "consistent" for "AsyncSubscriber"; did you mean "consistency"?
"""


def test_a_plain_program_is_fully_typed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    printed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    printed = re.sub(r"(?:[a-z_]+\.)+(?=[A-Z])", "", printed.replace("program.py", "program"))
    found = re.findall(r"^program:\d+: (note: Revealed type is|error:) (.*?)(?:  \[[\w-]+\])?$", printed, re.M)
    seen = [f"{kind.split(':')[0]} {text.strip(QUOTE) if text[0] == QUOTE else text}" for kind, text in found]
    assert seen == EXPECTED.split("\n")[1:-1], printed
