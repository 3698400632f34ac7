"""Programs that name a GPU run on the device of the recording."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .values import as_python, with_numbers


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _here(value: Any) -> Any:
    return torch.device("cpu") if _is_gpu(value) else value


def _is_number(value: Any) -> bool:
    """Of a GPU, where a device is expected."""
    return type(value) is int


class OnThisDevice(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """"cuda" as an argument, .cuda() and .to("cuda") give tensors of the recording.

    seen_as_gpu: tensors say that they are on a GPU, for programs that refuse to run elsewhere.
    """

    def __init__(self, seen_as_gpu: bool) -> None:
        super().__init__()
        self._seen_as_gpu = seen_as_gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func is torch.device and any(_is_gpu(of) or _is_number(of) for of in (*args[:1], kwargs.get("type"))):
            return torch.device("cpu")  # without the number of a GPU
        if func is torch.Tensor.type and isinstance(args[1] if len(args) > 1 else None, str):
            args = (args[0], args[1].replace("torch.cuda.", "torch."), *args[2:])
        if _is_number(kwargs.get("device")):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        if func is torch.Tensor.to and _is_number(args[1] if len(args) > 1 else None):
            args = (args[0], torch.device("cpu"), *args[2:])
        if func is torch.tensor and args and isinstance(args[0], (list, tuple)):
            args = (with_numbers(args[0]), *args[1:])
        known = as_python(func, args)
        if known is not NotImplemented:
            return known
        if self._seen_as_gpu:
            if func == torch.Tensor.is_cuda.__get__:
                return True
            if func == torch.Tensor.device.__get__:
                return torch.device("cuda", 0)
            if func == torch.Tensor.get_device:
                return 0
        if any(map(_is_gpu, args)):
            args = tuple(map(_here, args))
        if any(map(_is_gpu, kwargs.values())):
            kwargs = {name: _here(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)


def insists_on_gpu(error: BaseException) -> bool:
    """Whether a program may have ended because it saw no GPU."""
    words = str(error).lower()
    return isinstance(error, AssertionError) or any(word in words for word in ("cuda", "gpu", "cpu"))


class _Queue:
    """A stream or an event: nothing waits for it."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> _Queue:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self) -> bool:
        """All is done."""
        return True

    def elapsed_time(self, _: object) -> float:
        """No time passes."""
        return 0.0

    def record_event(self, *_: object) -> _Queue:
        """An event."""
        return self

    def _nothing(self, *_: object) -> None:
        pass

    record = wait = synchronize = wait_event = wait_stream = _nothing


def _nothing(*_: object, **__: object) -> None:
    return None


def _context(*_: object, **__: object) -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


def _zero(*_: object, **__: object) -> int:
    return 0


# Of which GPU a program is told, where it asks: an A100, whose features all later ones have.
_MEMORY = 80 << 30
_PROPERTIES = SimpleNamespace(name="NVIDIA A100-SXM4-80GB", major=8, minor=0, total_memory=_MEMORY,
                              multi_processor_count=108, warp_size=32, max_threads_per_multi_processor=2048,
                              shared_memory_per_block=48 << 10, L2_cache_size=40 << 20)

# What torch.cuda does to a GPU that is not there, and what it returns then.
_WITHOUT_GPU: dict[str, Any] = {
    **dict.fromkeys(("synchronize", "set_device", "empty_cache", "ipc_collect", "set_stream", "set_rng_state",
                     "reset_peak_memory_stats", "reset_max_memory_allocated", "set_per_process_memory_fraction"),
                    _nothing),
    **dict.fromkeys(("device", "device_of", "stream"), _context),
    **dict.fromkeys(("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved",
                     "max_memory_reserved"), _zero),
    **dict.fromkeys(("Stream", "Event", "current_stream", "default_stream"), _Queue),
    "get_device_properties": lambda *_: _PROPERTIES, "get_device_name": lambda *_: _PROPERTIES.name,
    "get_device_capability": lambda *_: (_PROPERTIES.major, _PROPERTIES.minor),
    "mem_get_info": lambda *_: (_MEMORY, _MEMORY), "is_bf16_supported": lambda *_, **__: True,
    "get_rng_state": lambda *_: torch.get_rng_state(),
}
_SEEN_AS_GPU = {"is_available": lambda: True, "device_count": lambda: 1, "is_initialized": lambda: True}
# Constructors of old programs: torch.cuda.FloatTensor(3, 4).
_TYPES = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")
_NVTX_WITHOUT_GPU = {"range_push": _nothing, "range_pop": _nothing, "mark": _nothing, "range": _context}


@contextlib.contextmanager
def without_gpu(seen_as_gpu: bool) -> Iterator[None]:
    """Calls of torch.cuda that only steer or describe the GPU do nothing where there is none; its types are those of
    the recording's tensors.
    """
    kept = []
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (torch.cuda, {f"{kind}Tensor": getattr(torch, f"{kind}Tensor") for kind in _TYPES})]
    if not torch.cuda.is_available():
        replaced += [(torch.cuda, {**_WITHOUT_GPU, **(_SEEN_AS_GPU if seen_as_gpu else {})}),
                     (torch.cuda.nvtx, _NVTX_WITHOUT_GPU), (torch.Tensor, {"record_stream": _nothing})]
    for module, functions in replaced:
        for name, instead in functions.items():
            kept.append((module, name, getattr(module, name)))
            setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name, function in kept:
            setattr(module, name, function)
