"""Programs that name a GPU run on the device of the recording."""

import torch
from torch.overrides import TorchFunctionMode


def _is_gpu(value):
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _here(value):
    return torch.device("cpu") if _is_gpu(value) else value


class OnThisDevice(TorchFunctionMode):
    """"cuda" as an argument, .cuda() and .to("cuda") give tensors of the recording."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.pin_memory:
            return args[0]
        if any(map(_is_gpu, args)):
            args = tuple(map(_here, args))
        if any(map(_is_gpu, kwargs.values())):
            kwargs = {name: _here(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)
