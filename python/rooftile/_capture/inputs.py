"""Inputs by shape and type, without values."""

from dataclasses import dataclass
from typing import Optional, Tuple

# Spellings of types to torch's names.
DTYPES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "float": "float32", "half": "float16", "double": "float64",
    "int": "int32", "long": "int64",
}


@dataclass(frozen=True)
class Input:
    """Shape and type of an input: `Input((8, 1024), "int64", high=50257)`.

    Integers are drawn below `high` where a pass needs values; without it they are 0, or all 1
    for a mask of type bool.
    """

    shape: Tuple[int, ...]
    dtype: object = "fp32"
    high: Optional[int] = None

    def torch_dtype(self):
        import torch

        if isinstance(self.dtype, torch.dtype):
            return self.dtype
        name = str(self.dtype).replace("torch.", "")
        found = getattr(torch, DTYPES.get(name, name), None)
        if not isinstance(found, torch.dtype):
            raise ValueError(f"Input: unknown dtype {self.dtype!r}; expected one as 'fp32' or 'int64'")
        return found

    def make(self):
        """A tensor on the CPU; under a fake mode it has no memory."""
        import torch

        dtype = self.torch_dtype()
        shape = tuple(int(size) for size in self.shape)
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape).to(dtype)
        if self.high is not None:
            return torch.randint(0, self.high, shape, dtype=dtype)
        return torch.ones(shape, dtype=dtype) if dtype is torch.bool else torch.zeros(shape, dtype=dtype)
