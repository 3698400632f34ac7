"""CUDA's casts under torch.autocast, for CPU tensors.

Without a GPU torch.autocast("cuda") is off, and torch.autocast("cpu") has other lists: it leaves
layer norms and softmax in 16 bits. For the time of a capture, "cuda" stands for the CPU's autocast,
and that one follows CUDA's lists. Source: AT_FORALL_* in ATen/autocast_mode.h; which operators have
a rule at all is asked of the running PyTorch.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, Callable

import torch

_LOWER = {
    "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "convolution", "prelu", "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv",
    "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot",
    "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell",
    "rnn_relu_cell", "_scaled_dot_product_flash_attention", "scaled_dot_product_attention",
}
# The result is asked for in fp32, where no type is.
_SET_TYPE = {"prod", "softmax", "log_softmax", "cumprod", "cumsum", "linalg_vector_norm",
             "linalg_matrix_norm", "sum"}
_WIDEST = {"addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put",
           "tensordot", "scatter_add"}
_NONE = {"binary_cross_entropy", "cudnn_convolution", "cudnn_convolution_transpose", "norm"}

Change = Callable[[Any], Any]
_HALVES = (torch.float16, torch.bfloat16)


def _registered(key: str) -> set[str]:
    return set(torch._C._dispatch_get_registrations_for_dispatch_key(key))


def _overload(name: str) -> tuple[str, Any]:
    operator, _, overload = name.partition("::")[2].partition(".")
    found = getattr(torch.ops.aten, operator, None)
    return operator, None if found is None else getattr(found, overload or "default", None)


def _map(change: Change, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map(change, item) for item in value)
    return value


def _to(dtype: torch.dtype) -> Change:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        eligible = tensor.is_floating_point() and tensor.dtype is not torch.float64
        return tensor.to(dtype) if eligible and tensor.dtype is not dtype else tensor
    return change


def _all_tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _all_tensors(item)


def _kernel(operator: str, overload: Any) -> Callable[..., Any]:
    names = [argument.name for argument in overload._schema.arguments]

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if operator in _LOWER:
            change = _to(torch.get_autocast_dtype("cpu"))
        elif operator in _WIDEST:
            is_wide = any(t.dtype is torch.float32 for t in _all_tensors(list(args) + list(kwargs.values())))
            change = _to(torch.float32) if is_wide else lambda tensor: tensor
        elif operator in _SET_TYPE:
            is_half = isinstance(args[0], torch.Tensor) and args[0].dtype in _HALVES
            given = dict(zip(names, args))
            given.update(kwargs)
            if is_half and given.get("dtype") is None and "dtype" in names:
                at = names.index("dtype")
                if at < len(args):
                    args = (*args[:at], torch.float32, *args[at + 1:])
                else:
                    kwargs = {**kwargs, "dtype": torch.float32}
            return args, kwargs
        else:
            change = _to(torch.float32)
        return _map(change, tuple(args)), {key: _map(change, value) for key, value in kwargs.items()}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        # Casts are recorded; the operator's own parts are not cast again.
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            args, kwargs = arguments(args, kwargs)
            return overload(*args, **kwargs)

    return kernel


def _set_lists(library: Any) -> None:
    cuda, cpu = _registered("AutocastCUDA"), _registered("AutocastCPU")
    for name in sorted(cuda | cpu):
        operator, overload = _overload(name)
        if overload is None or (name in cuda and name in cpu and operator in _LOWER):
            continue
        short = name.partition("::")[2]
        if name not in cuda and operator not in ("cat", "stack", "index_copy"):
            if operator in _LOWER:  # another overload of one that is cast
                continue
            library.impl(short, torch.library.fallthrough_kernel, "AutocastCPU")
        elif name in cuda and operator not in _NONE:
            library.impl(short, _kernel(operator, overload), "AutocastCPU")


# What programs ask of autocast: of CUDA's, unless they name another device.
_ASKED = {"is_autocast_enabled": "is_autocast_enabled", "get_autocast_dtype": "get_autocast_dtype",
          "get_autocast_gpu_dtype": "get_autocast_dtype"}


def _of_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    known = getattr(torch, _ASKED[function.__name__])

    def asked(device_type: Any = "cuda") -> Any:
        return known("cpu" if str(device_type).startswith("cuda") else device_type)

    return asked


@contextlib.contextmanager
def cuda_lists() -> Iterator[None]:
    """torch.autocast, for "cuda" or "cpu", casts as CUDA does."""
    library = torch.library.Library("aten", "IMPL")
    autocast = torch.amp.autocast_mode.autocast
    begin = autocast.__init__
    asked = {name: getattr(torch, name) for name in _ASKED if hasattr(torch, name)}

    def init(self: Any, device_type: Any, *args: Any, **kwargs: Any) -> None:
        if str(device_type).startswith("cuda"):
            device_type = "cpu"
            dtype = args[0] if args else kwargs.get("dtype")
            if dtype is None:  # of CUDA; the CPU's is bf16
                kwargs["dtype"], args = torch.float16, ()
        begin(self, device_type, *args, **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _set_lists(library)
        autocast.__init__ = init
        for name, function in asked.items():
            setattr(torch, name, _of_cpu(function))
        try:
            yield
        finally:
            for name, function in asked.items():
                setattr(torch, name, function)
            autocast.__init__ = begin
            library._destroy()
