"""A stream that continues on another replica. The tokens of a request are a function of model, prompt, parameters and
seed, and the program sends an event for each token. So the other replica answers the whole request again, the events
that the client has are compared and dropped, and the rest goes out under the first answer's names."""
import json
from typing import Any, Optional

# Names and figures of an answer that are not its content.
NAMES = {"id", "item_id", "call_id", "response_id", "tool_use_id", "request_id"}
FIGURES = {"created", "created_at", "completed_at", "usage", "timings", "speculation"}


class Different(Exception):
    """The second answer is another one: never mixed with the first."""


def data_of(event: bytes) -> Optional[Any]:
    lines = (line[5:] for line in event.split(b"\n") if line.startswith(b"data:") and line != b"data: [DONE]")
    return next(map(json.loads, lines), None)


def pair(old: Any, new: Any, names: dict[str, str], key: str = "") -> None:
    """Maps each name of `new` to its name in `old`; raises Different if the contents differ."""
    if key in NAMES and isinstance(new, str):
        names[new] = old
    elif isinstance(old, dict) and isinstance(new, dict) and old.keys() - FIGURES == new.keys() - FIGURES:
        for name in new.keys() - FIGURES:
            pair(old[name], new[name], names, name)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new):
            pair(one, other, names)
    elif old != new:
        raise Different(f"{key}: {old!r} became {new!r}")


class Replay:
    """The events that a client has, and what remains of another answer to the same request."""

    def __init__(self) -> None:
        self._sent: list[bytes] = []
        self.again()

    def again(self) -> None:
        self._names: dict[str, str] = {}
        self._at = 0  # events of this attempt

    def next(self, event: bytes) -> Optional[bytes]:
        """The event to send for the next one of an attempt, or None if the client has it."""
        self._at += 1
        if self._at <= len(self._sent):
            return pair(data_of(self._sent[self._at - 1]), data_of(event), self._names)
        for new, old in self._names.items():
            event = event.replace(json.dumps(new).encode(), json.dumps(old).encode())
        self._sent.append(event)
        return event
