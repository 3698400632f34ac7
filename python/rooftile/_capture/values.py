"""Values of tensors that no weight decides: positions, lengths, masks.

Fake tensors have none, and programs ask for some: `.tolist()` of lengths, `mask.all()`, a boolean mask as an index.
PyTorch's fake tensors follow constants of one element through all operators; for the time of a capture they follow
larger ones, and what fills a tensor, also with random numbers, makes a constant. What depends on weights or on
floating-point inputs stays unknown, but for one thing: it is finite.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensor,
    unset_fake_temporarily,
)
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves, tree_map_only

# Elements of a tensor whose values are kept.
_MOST = 1 << 20

# Take from a tensor no more than its shape or its type.
_LIKE = {f"aten::{name}_like" for name in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")}
_NEW = {f"aten::new_{name}" for name in ("zeros", "ones", "full", "empty")}
# PyTorch ends the process where it computes these with values.
_WITHOUT_VALUES = ("_embedding_bag", "_sparse_")
_FINITE = {"aten::isinf", "aten::isnan"}
_CONSTANTS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default)  # of the program's text
_UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException)


@contextlib.contextmanager
def followed() -> Iterator[None]:
    """Fake tensors keep the values of constants."""
    kept = fake_tensor.CONSTANT_NUMEL_LIMIT
    fake_tensor.CONSTANT_NUMEL_LIMIT = _MOST
    try:
        yield
    finally:
        fake_tensor.CONSTANT_NUMEL_LIMIT = kept


def can_be_kept(tensor: torch.Tensor) -> bool:
    """Whether a tensor has values, and few enough of them."""
    return type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout is torch.strided and \
        not (tensor.requires_grad or tensor.is_quantized) and tensor.numel() <= _MOST


def constant(tensor: torch.Tensor, mode: Any) -> Any:
    """A fake tensor that has these values."""
    with unset_fake_temporarily():
        return mode.fake_tensor_converter.from_real_tensor(mode, tensor.detach().clone(), make_constant=True)


class CopyWithValues(FakeCopyMode):  # type: ignore[misc, unused-ignore]
    """Copies of tensors are fake; those that are no weights keep their values."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__deepcopy__ and can_be_kept(args[0]):
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = constant(tensor, self.fake_mode)
            return memo[id(tensor)]
        if torch.fx.Proxy in types:  # a graph is copied by tracing it
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


class WeightsOnMeta(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Modules that are built meanwhile have weights without memory, as under torch.device("meta"), and integers with
    values.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            made = func(*args, **{**kwargs, "device": torch.device("meta")})
            if made.is_floating_point() or made.is_complex() or made.numel() > _MOST:
                return made
        return func(*args, **kwargs)


def computed(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operator, with its values where they are known."""
    if any(name in str(func) for name in _WITHOUT_VALUES):
        with _forgotten(args, kwargs):
            return func(*args, **kwargs)
    known = _drawn(func, args, kwargs)
    if known is not None:
        return known
    try:
        out = func(*args, **kwargs)
    except _UNKNOWN:
        found = _by_known_values(func, args, kwargs)
        if found is None:
            raise
        return found
    except NotImplementedError as error:
        if "Sparse" not in str(error):  # tensors whose values PyTorch does not keep
            raise
        with _forgotten(args, kwargs):
            return func(*args, **kwargs)
    if func not in _CONSTANTS and not _all_known(args, kwargs):
        unknown(out, args)
    is_known = not isinstance(out, FakeTensor) or out.constant is not None
    if is_known or out.numel() > _MOST or not isinstance(func, torch._ops.OpOverload):
        return out
    with unset_fake_temporarily():
        if func._schema.name in _FINITE:
            return constant(torch.zeros(out.shape, dtype=torch.bool), out.fake_mode)
        if _fills(func, args, kwargs):
            filled = func(*tree_map_only(torch.Tensor, _empty_as(func), args), **kwargs)
            return constant(filled.zero_() if "empty" in func._schema.name else filled, out.fake_mode)
    return out


def _all_known(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return all(isinstance(value, FakeTensor) and value.constant is not None
               for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor))


def unknown(results: Any, args: Sequence[Any] = ()) -> Any:
    """Results of an operator for which only a shape was computed. PyTorch's shape functions make them by `new_empty` of
    an argument, which has values where the argument has some.
    """
    given = {id(value) for value in tree_leaves(args)}
    for tensor in tree_leaves(results):
        if isinstance(tensor, FakeTensor) and id(tensor) not in given:
            tensor.constant = None
    return results


def _drawn(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operator that draws at random, from known values or in their place: PyTorch's fake tensors
    forget it. None for others.
    """
    if not isinstance(func, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in func.tags:
        return None
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    if not tensors or not _all_known(args, kwargs):
        return None
    with unset_fake_temporarily():
        real = func(*tree_map_only(FakeTensor, lambda t: t.constant, args),
                    **tree_map_only(FakeTensor, lambda t: t.constant, kwargs))
        if func._schema.is_mutable:
            return args[0]
        return tree_map_only(torch.Tensor, lambda t: constant(t, tensors[0].fake_mode), real)


@contextlib.contextmanager
def _forgotten(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[None]:
    """Arguments have no values."""
    kept = [(value, value.constant) for value in tree_leaves((args, kwargs)) if isinstance(value, FakeTensor)]
    for tensor, _ in kept:
        tensor.constant = None
    try:
        yield
    finally:
        for tensor, values in kept:
            tensor.constant = values


def _fills(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether its result depends on no tensor's values."""
    name = func._schema.name
    if name in _LIKE or name in _NEW:
        return True
    return name.startswith("aten::") and not func._schema.is_mutable and \
        not any(isinstance(value, torch.Tensor) for value in tree_leaves((args, kwargs)))


def _empty_as(func: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def empty(tensor: torch.Tensor) -> torch.Tensor:
        if func._schema.name in _NEW:
            return torch.empty(0, dtype=tensor.dtype)
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return empty


def _by_known_values(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operator whose shape depends on values, where integers alone decide it: it runs on zeros in the
    place of the others. None where it cannot be known.
    """
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, FakeTensor)]
    deciding = [tensor for tensor in tensors if not tensor.is_floating_point()]
    if not deciding or any(tensor.constant is None for tensor in deciding) or func._schema.is_mutable:
        return None
    mode = deciding[0].fake_mode

    def real(tensor: Any) -> torch.Tensor:
        return tensor.constant if tensor.constant is not None else \
            torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)

    def fake(tensor: torch.Tensor) -> Any:
        if not tensor.is_floating_point() and can_be_kept(tensor):
            return constant(tensor, mode)
        with mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)

    with unset_fake_temporarily():
        found = func(*tree_map_only(FakeTensor, real, args), **tree_map_only(FakeTensor, real, kwargs))
        return tree_map_only(torch.Tensor, fake, found)


def with_numbers(data: Any) -> Any:
    """A list of numbers for `torch.tensor`, with those of tensors whose values are known in their place."""
    if isinstance(data, (list, tuple)):
        return type(data)(map(with_numbers, data)) if type(data) in (list, tuple) else data
    if isinstance(data, FakeTensor) and data.constant is not None:
        with unset_fake_temporarily():
            return data.constant.tolist()
    return data


def as_python(func: Any, args: Sequence[Any]) -> Any:
    """What `numpy` and `tolist` of a tensor give where its values are known; else NotImplemented."""
    if func in (torch.Tensor.numpy, torch.Tensor.tolist) and isinstance(args[0], FakeTensor):
        known = args[0].constant
        if known is not None:
            with unset_fake_temporarily():
                return func(known.clone())
    return NotImplemented
