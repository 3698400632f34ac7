"""Inputs of a model, without their values."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Optional, Union


@dataclass(frozen=True)
class Input:
    """A tensor that a model takes: its shape and its element type.

    shape: sizes, whole numbers from 0; a scalar is ``()``.
    dtype: a name as torch has it, with or without ``torch.``: ``"float32"``, ``"int64"``, ``"bfloat16"``.
        A ``torch.dtype`` is accepted too and becomes its name.
    high: integers are below it, as token ids are below the size of the vocabulary, where a pass needs values;
        they are 0 unless given.

    Raises ValueError for negative sizes and TypeError for sizes that are not whole numbers.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    high: Optional[int] = None

    def __init__(self, shape: Union[int, Any], dtype: Any = "float32", high: Optional[int] = None) -> None:
        sizes = tuple(operator.index(size) for size in (shape if hasattr(shape, "__iter__") else (shape,)))
        if any(size < 0 for size in sizes):
            raise ValueError(f"rooftile.Input: sizes are 0 or more, found {sizes}")
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "dtype", str(dtype).removeprefix("torch."))
        object.__setattr__(self, "high", high)
