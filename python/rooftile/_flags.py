"""Keyword arguments as flags of the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

Sizes = Union[int, str, tuple[int, int]]


def dtype_name(dtype: Any) -> Optional[str]:
    """A dtype by its name: torch.bfloat16 is bfloat16, which the program knows as it knows bf16."""
    return None if dtype is None else str(dtype).removeprefix("torch.")


def flag(name: str, value: Optional[object]) -> list[str]:
    """One flag, or nothing for None."""
    return [] if value is None else [f"--{name}={value}"]


def repeated(name: str, values: Union[str, Iterable[str], None]) -> list[str]:
    """A flag for each value."""
    if values is None:
        return []
    return [f"--{name}={value}" for value in ([values] if isinstance(values, str) else values)]


def sizes_text(sizes: Optional[Sizes]) -> Union[int, str, None]:
    """(1, 512) is "1:512", powers of two from the one to the other."""
    return f"{sizes[0]}:{sizes[1]}" if isinstance(sizes, tuple) else sizes


def size_flags(
    batch: Optional[Sizes],
    seq: Optional[Sizes],
    past: Optional[Sizes],
    dims: Optional[Mapping[str, int]],
    shapes: Optional[Mapping[str, Sequence[int]]],
) -> list[str]:
    """What fixes sizes of the input."""
    flags = flag("batch", sizes_text(batch)) + flag("seq", sizes_text(seq)) + flag("past", sizes_text(past))
    flags += repeated("dim", [f"{name}={size}" for name, size in (dims or {}).items()])
    return flags + repeated(
        "shape", [f"{name}={'x'.join(map(str, shape))}" for name, shape in (shapes or {}).items()]
    )
