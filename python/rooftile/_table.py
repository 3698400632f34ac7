"""Sequences of records that become data frames; what the generated records are read with."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, overload

if TYPE_CHECKING:
    import pandas
    import pyarrow

Record = TypeVar("Record", covariant=True)
Value = TypeVar("Value")


def optional(read: Callable[[Any], Value]) -> Callable[[Any], Optional[Value]]:
    """A reader that lets None through."""
    return lambda value: None if value is None else read(value)


def table(read: Callable[[Any], Value]) -> Callable[[Iterable[Any]], Table[Value]]:
    """A reader of lists."""
    return lambda values: Table(read(value) for value in values)


class Table(Sequence[Record]):
    """Records of one kind, in the program's order; shown as a table in notebooks."""

    __slots__ = ("_records",)

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = tuple(records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Table[Record]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Record, Table[Record]]:
        if isinstance(index, slice):
            return Table(self._records[index])
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._records == other._records

    def __hash__(self) -> int:
        return hash(self._records)

    def __repr__(self) -> str:
        return f"Table({list(self._records)!r})"

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary a record.

        A range gives three columns, as in the program's CSV: ``time_s`` the expected value, ``time_low_s``
        and ``time_high_s``. Other records give ``outer_inner``.
        """
        return [flat(record) for record in self._records]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame of `rows`. Raises ModuleNotFoundError without pandas."""
        import pandas

        return pandas.DataFrame(self.rows())

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow table of `rows`. Raises ModuleNotFoundError without pyarrow."""
        import pyarrow

        return pyarrow.Table.from_pylist(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        if not rows:
            return "<p>none</p>"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell(value))}</td>" for value in row.values()) + "</tr>"
            for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def cell(value: object) -> str:
    """A value in a table: numbers with four digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def flat(record: Any) -> dict[str, Any]:
    """A record as one row."""
    row: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value, name = getattr(record, field.name), field.name.rstrip("_")
        if is_range(value):
            stem, unit = with_unit_apart(name)
            row[name] = value.expected
            row[f"{stem}_low{unit}"], row[f"{stem}_high{unit}"] = value.low, value.high
        elif dataclasses.is_dataclass(value):
            row.update((f"{name}_{inner}", part) for inner, part in flat(value).items())
        elif isinstance(value, Table):
            row[name] = value.rows()
        elif isinstance(value, (tuple, Mapping)):
            row[name] = list(value) if isinstance(value, tuple) else dict(value)
        else:
            row[name] = value
    return row


def is_range(value: object) -> bool:
    """Whether low, expected and high are all there is."""
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    return names == ["low", "expected", "high"]


def with_unit_apart(name: str) -> tuple[str, str]:
    """``time_s`` as ``time`` and ``_s``."""
    for unit in ("_s", "_bytes"):
        if name.endswith(unit):
            return name[: -len(unit)], unit
    return name, ""
