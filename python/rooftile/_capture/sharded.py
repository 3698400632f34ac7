"""Modules that fully_shard has changed, as they were before, for the time of a capture."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_OF_MODULES = ("_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks")
_NOTE = "fully_shard is left out: weights are whole, in their own precision, and its communication is not recorded"


def _is_sharded(module: Any) -> bool:
    return any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__)


def _class_before(kind: type) -> type:
    """fully_shard makes a class of FSDPModule and the module's own."""
    after = [base.__name__ for base in kind.__mro__].index("FSDPModule") + 1
    return kind.__mro__[after]


def _is_of_fsdp(value: Any) -> bool:
    """Of a hook, or a table of states."""
    if isinstance(value, dict):
        return any(map(_is_of_fsdp, value.values()))
    return str(getattr(value, "__module__", "")).startswith("torch.distributed.")


@contextlib.contextmanager
def whole(model: Any, notes: list[str]) -> Iterator[None]:
    """Weights are whole and without memory, classes and hooks the module's own; all is put back at the end."""
    modules = list(model.modules())
    sharded = [(module, type(module)) for module in modules if _is_sharded(module)]
    if not sharded:
        yield
        return
    notes.append(_NOTE)
    weights: dict[int, torch.nn.Parameter] = {}
    kept: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
    for module in modules:
        for held in (vars(module), module._forward_pre_hooks, module._forward_hooks):
            kept.append((held, dict(held)))
            for key in [key for key, value in held.items() if key not in _OF_MODULES and _is_of_fsdp(value)]:
                del held[key]
        kept.append((module._parameters, dict(module._parameters)))
        for name, weight in module._parameters.items():
            if hasattr(weight, "full_tensor"):
                whole_one = torch.empty(weight.shape, dtype=weight.dtype, device="meta")
                module._parameters[name] = weights.setdefault(
                    id(weight), torch.nn.Parameter(whole_one, requires_grad=weight.requires_grad))
    for module, kind in sharded:
        module.__class__ = _class_before(kind)
    try:
        yield
    finally:
        for module, kind in sharded:
            module.__class__ = kind
        for held, before in kept:
            held.clear()
            held.update(before)
