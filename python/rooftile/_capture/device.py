"""Programs that name a GPU run on the device of the recording."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _here(value: Any) -> Any:
    return torch.device("cpu") if _is_gpu(value) else value


class OnThisDevice(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """"cuda" as an argument, .cuda() and .to("cuda") give tensors of the recording."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func is torch.device and any(map(_is_gpu, (*args[:1], kwargs.get("type")))):
            return torch.device("cpu")  # without the number of a GPU
        if any(map(_is_gpu, args)):
            args = tuple(map(_here, args))
        if any(map(_is_gpu, kwargs.values())):
            kwargs = {name: _here(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)


def _nothing(*_: object, **__: object) -> None:
    return None


def _context(*_: object, **__: object) -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


# What torch.cuda does to a GPU that is not there, and what it returns then.
_WITHOUT_GPU = {
    "synchronize": _nothing, "set_device": _nothing, "empty_cache": _nothing, "ipc_collect": _nothing,
    "reset_peak_memory_stats": _nothing, "device": _context, "device_of": _context, "stream": _context,
    "current_device": lambda: 0,
}
_NVTX_WITHOUT_GPU = {"range_push": _nothing, "range_pop": _nothing, "mark": _nothing, "range": _context}


@contextlib.contextmanager
def without_gpu() -> Iterator[None]:
    """Calls of torch.cuda that only steer the GPU do nothing where there is none."""
    if torch.cuda.is_available():
        yield
        return
    kept = []
    for module, functions in ((torch.cuda, _WITHOUT_GPU), (torch.cuda.nvtx, _NVTX_WITHOUT_GPU)):
        for name, instead in functions.items():
            kept.append((module, name, getattr(module, name)))
            setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)
