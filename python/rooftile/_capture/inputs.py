"""Tensors for inputs that are known by shape and type alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    import torch

# Spellings of types to torch's names.
DTYPES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "float": "float32", "half": "float16", "double": "float64",
    "int": "int32", "long": "int64",
}


def torch_dtype(name: str) -> torch.dtype:
    """The torch.dtype of a name as "fp32" or "int64"; ValueError for others."""
    import torch

    found = getattr(torch, DTYPES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"rooftile.Input: unknown dtype {name!r}; expected one as 'fp32' or 'int64'")
    return found


def make(shape: Sequence[int], dtype: torch.dtype, high: Optional[int] = None) -> torch.Tensor:
    """A tensor on the CPU; under a fake mode it has no memory.

    Integers are drawn below `high`; without it they are 0, or all 1 for a mask of type bool.
    """
    import torch

    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape).to(dtype)
    if high is not None:
        return torch.randint(0, high, shape, dtype=dtype)
    return torch.ones(shape, dtype=dtype) if dtype is torch.bool else torch.zeros(shape, dtype=dtype)
