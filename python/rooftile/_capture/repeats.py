"""Writes a call that stands for equal ones as often as the loop makes it.

A copy has values, memory and sequence numbers of its own. It reads what copies of the same number of other calls
wrote, and what the copy before it wrote in the place of what the captured one reads of an equal call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Optional, Union

from .recorder import BACKWARD, Call, Caller, MemoryChange

Event = Union[Call, MemoryChange]


def count_of(events: Sequence[Event]) -> int:
    """Operators that `unrolled` writes."""
    return sum(times_of(event.caller) for event in events if isinstance(event, Call))


def unrolled(events: Sequence[Event]) -> list[Event]:
    """All calls, each with the operators of the one that stands for it."""
    if all(times_of(event.caller) == 1 for event in events if isinstance(event, Call)):
        return list(events)
    copies = _Copies(events)
    return [copy for caller, part in parts(events) for copy in copies.of(caller, part)]


def times_of(caller: Optional[Caller]) -> int:
    return 1 if caller is None else caller.times


def parts(events: Sequence[Event]) -> Iterator[tuple[Optional[Caller], list[Event]]]:
    """Stretches of one caller. Memory is allocated for the operator that follows, and released by the one before."""
    found: list[Event] = []
    waiting: list[Event] = []  # memory between two operators
    current: Optional[Caller] = None
    for event in events:
        if isinstance(event, MemoryChange):
            (waiting if waiting or event.bytes > 0 else found).append(event)
            continue
        if event.caller is not current and found:
            yield current, found
            found = []
        current = event.caller
        found += [*waiting, event]
        waiting = []
    yield current, found + waiting


class _Copies:
    def __init__(self, events: Sequence[Event]) -> None:
        calls = [event for event in events if isinstance(event, Call)]
        changes = [event for event in events if isinstance(event, MemoryChange)]
        self._sequences = 1 + max(call.sequence for call in calls)
        self._next = 1 + max((event.address for event in changes), default=0)
        self._released = {event.address for event in changes if event.bytes < 0}
        self._alive: dict[int, dict[int, int]] = {}  # addresses of the copies by the first one's
        self._by_place = {place: value for value, place in written_at(calls)}
        self._places = dict(written_at(calls))

    def of(self, caller: Optional[Caller], part: Sequence[Event]) -> Iterator[Event]:
        times = times_of(caller)
        is_backward = any(isinstance(event, Call) and event.phase == BACKWARD for event in part)
        for copy in range(times):
            for event in part:
                if isinstance(event, MemoryChange):
                    yield from self._memory(event, copy, copy == times - 1)
                else:
                    yield self._copied(event, copy)
            if copy > 0 and is_backward:
                yield from self._handed_over(part, copy - 1)

    def _before(self, value: str, caller: Optional[Caller]) -> str:
        """What this call wrote in the place of a value that an equal one wrote; empty where none did."""
        other, place = self._places.get(value, (None, None))
        if caller is None or other is None or other is caller or other.kind != caller.kind:
            return ""
        return self._by_place.get((caller, place), "")

    def _copied(self, call: Call, copy: int) -> Call:
        if copy == 0:
            return call

        def read(value: str) -> str:
            before = self._before(value, call.caller)
            if not before:
                return f"{value}~{copy}"
            return f"{before}~{copy - 1}" if copy > 1 else before

        sequence = call.sequence if call.sequence < 0 else call.sequence + copy * self._sequences
        return replace(call, reads=[*map(read, call.reads)], writes=[f"{value}~{copy}" for value in call.writes],
                       sequence=sequence)

    def _handed_over(self, part: Sequence[Event], copy: int) -> Iterator[MemoryChange]:
        """Gradients of values, which the next copy used."""
        for event in part:
            if isinstance(event, MemoryChange) and event.bytes > 0 and event.address in self._released:
                address = self._alive[event.address].pop(copy, None)
                if address is not None:
                    yield MemoryChange(address, -event.bytes)

    def _memory(self, change: MemoryChange, copy: int, is_last: bool) -> Iterator[MemoryChange]:
        """The copy's own; what other parts of the pass release is gone for all copies."""
        if change.bytes > 0:
            addresses = self._alive.setdefault(change.address, {})
            addresses[copy] = change.address if copy == 0 else self._next
            self._next += copy > 0
            yield MemoryChange(addresses[copy], change.bytes)
            return
        addresses = self._alive.get(change.address, {0: change.address})
        for key in [key for key in addresses if key == copy or is_last]:
            yield MemoryChange(addresses.pop(key), change.bytes)


def written_at(calls: Sequence[Call]) -> Iterator[tuple[str, tuple[Optional[Caller], Hashable]]]:
    """Values by the call that wrote them, and the place there: of all operators that make the same the how manieth."""
    count: Counter[Hashable] = Counter()
    for call in calls:
        for value in call.writes:
            kind = (call.phase, call.name, str(call.out_dims))
            count[call.caller, kind] += 1
            yield value, (call.caller, (kind, count[call.caller, kind]))
