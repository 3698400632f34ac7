"""Keyword arguments as flags of the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

Sizes = Union[int, str]
# Names of torch and NumPy that the program calls otherwise.
SHORT_DTYPES = {
    "float32": "fp32", "float": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float64": "fp64",
    "double": "fp64", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}


def short_dtype(dtype: Any) -> Optional[str]:
    """A dtype as the program names it: torch.bfloat16, "bfloat16" and "bf16" are bf16."""
    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.")
    return SHORT_DTYPES.get(name, name)


def flag(name: str, value: Optional[object]) -> list[str]:
    """One flag, or nothing for None."""
    return [] if value is None else [f"--{name}={value}"]


def repeated(name: str, values: Union[str, Iterable[str], None]) -> list[str]:
    """A flag for each value."""
    if values is None:
        return []
    return [f"--{name}={value}" for value in ([values] if isinstance(values, str) else values)]


def size_flags(
    batch: Optional[Sizes],
    seq: Optional[Sizes],
    past: Optional[Sizes],
    dims: Optional[Mapping[str, int]],
    shapes: Optional[Mapping[str, Sequence[int]]],
) -> list[str]:
    """What fixes sizes of the input."""
    flags = flag("batch", batch) + flag("seq", seq) + flag("past", past)
    flags += repeated("dim", [f"{name}={size}" for name, size in (dims or {}).items()])
    return flags + repeated(
        "shape", [f"{name}={'x'.join(map(str, shape))}" for name, shape in (shapes or {}).items()]
    )
