"""Writes down what the dispatcher runs: operators, values and memory, in order."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, Callable, Optional, TypeVar, Union, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type

from .._lines import line_of_caller
from .refusals import require_one_type

# C++ names of types, as the profiler writes them.
TYPE_NAMES = {
    torch.float32: "float", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16",
    torch.float64: "double", torch.int64: "long int", torch.int32: "int", torch.int16: "short int",
    torch.int8: "signed char", torch.uint8: "unsigned char", torch.bool: "bool",
    torch.complex64: "c10::complex<float>", torch.complex128: "c10::complex<double>",
}
for _name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
    if hasattr(torch, _name):
        TYPE_NAMES[getattr(torch, _name)] = "c10::F" + _name[1:]

# c10::ScalarType, which has no public way from a dtype.
TYPE_NUMBERS = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
    torch.float32: 6, torch.float64: 7, torch.complex64: 9, torch.complex128: 10, torch.bool: 11,
    torch.bfloat16: 15,
}

# Make memory and fill nothing.
_EMPTY = ("aten::empty", "aten::new_empty")
# Move a constant of the program, or only its description.
_FREE = {"aten::lift_fresh", "aten::lift_fresh_copy", "aten::lift", "aten::detach", "aten::alias",
         "aten::set_", "aten::resize_", "aten::as_strided_", "aten::squeeze_", "aten::unsqueeze_",
         "aten::transpose_", "aten::t_"}

_Function = TypeVar("_Function", bound=Callable[..., Any])

FORWARD, LOSS, BACKWARD, RECOMPUTE = "forward", "loss", "backward", "recompute"


def type_name(dtype: torch.dtype) -> str:
    return TYPE_NAMES.get(dtype, str(dtype))


@dataclass(frozen=True, eq=False)
class Caller:
    """Where a loop calls what is captured, for how many equal calls the captured one stands, and which calls are equal:
    those of the same number.
    """

    line: str
    times: int = 1
    kind: int = -1


@dataclass
class Call:
    """One operator: its arguments as the profiler describes them, and what it reads and writes."""

    name: str
    dims: list[Any]
    strides: list[Any]
    types: list[str]
    values: list[str]
    out_dims: list[list[int]]
    out_strides: list[Any]
    out_types: list[str]
    phase: str
    module: str
    source: str
    sequence: int  # joins a forward operator and its gradient; -1 = none
    reads: list[str]
    writes: list[str]
    weights: list[int]  # positions of arguments that are weights
    caller: Optional[Caller] = None


@dataclass
class MemoryChange:
    """An allocation, or a release where `bytes` is negative."""

    address: int
    bytes: int


@dataclass
class Place:
    module: str
    source: str
    caller: Optional[Caller] = None


@dataclass
class _Storage:
    number: int
    bytes: int
    version: int = 0
    is_weight: bool = False  # a weight, or one in another type
    is_given: bool = False  # was there before the pass
    watch: Optional[weakref.ref[Any]] = None


@dataclass
class Recording:
    events: list[Union[Call, MemoryChange]] = field(default_factory=list)
    views: int = 0
    host_reads: dict[str, int] = field(default_factory=dict)  # where the program waits for a value
    notes: list[str] = field(default_factory=list)


class ModuleStack:
    """The modules that are running, by the names that the root gives them."""

    def __init__(self, root: Any) -> None:
        self._names = {id(module): name for name, module in root.named_modules()}
        self._stack: list[str] = []
        self._handles: list[Any] = []

    def path(self) -> str:
        return self._stack[-1] if self._stack else ""

    def running(self) -> bool:
        return bool(self._stack)

    def __enter__(self) -> ModuleStack:
        from torch.nn.modules import module as modules

        def enter(module: Any, _: Any) -> None:
            name = self._names.get(id(module))
            if name is None:  # made during the pass
                name = f"{self.path()}.{type(module).__name__}".lstrip(".")
            self._stack.append(name)

        def leave(module: Any, _: Any, __: Any) -> None:
            if self._stack:
                self._stack.pop()

        self._handles = [modules.register_module_forward_pre_hook(enter),
                         modules.register_module_forward_hook(leave, always_call=True)]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()


_OUTERMOST: set[CodeType] = set()
_callers: list[Caller] = []  # of a loop, whose calls are captured after it


def outermost(function: _Function) -> _Function:
    """What calls this function is not the program that is captured."""
    _OUTERMOST.add(cast(FunctionType, function).__code__)
    return function


@contextlib.contextmanager
def called_at(caller: Caller) -> Iterator[None]:
    """What runs meanwhile was called there."""
    _callers.append(caller)
    try:
        yield
    finally:
        _callers.pop()


def source_line() -> str:
    return line_of_caller(_OUTERMOST) or (_callers[-1].line if _callers else "")


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item)


def _text(value: Any) -> str:
    """A value as in "Concrete Inputs"."""
    if value is None:
        return ""
    if isinstance(value, torch.dtype):
        return str(TYPE_NUMBERS.get(value, ""))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return str(value)
    return ""


@functools.lru_cache(maxsize=256)
def _is_wrapper(kind: type) -> bool:
    return kind is not FakeTensor and is_traceable_wrapper_subclass_type(kind)


@functools.lru_cache(maxsize=4096)
def _is_composite(func: Any) -> bool:
    """Whether an operator is only made of others."""
    return isinstance(func, torch._ops.OpOverload) and func.namespace == "aten" and \
        torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


_ATEN = torch.ops.aten
# Operators that every device runs as others, below autograd.
_IN_PARTS = (_ATEN.binary_cross_entropy_with_logits.default, _ATEN._euclidean_dist.default, _ATEN._trilinear.default)
_PARTS = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def _parts_of(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Calls the others of which an operator is made; NotImplemented for one that is its own kernel."""
    if _is_composite(func):  # met whole below autograd: in inference mode, inside of wrappers
        return func.decompose(*args, **kwargs)
    for key in _PARTS:
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key):
            return func._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)
    return NotImplemented


def _as_it_is(func: Any) -> Any:
    """PyTorch's own operators meet the tensors' own devices, whatever a mode around them tells the program."""
    return torch._C.DisableTorchFunction() if func.namespace == "aten" else contextlib.nullcontext()


def _shape(tensor: torch.Tensor) -> list[int]:
    return [int(size) for size in tensor.shape]


def _strides(tensor: torch.Tensor) -> list[int]:
    try:
        return [int(stride) for stride in tensor.stride()]
    except RuntimeError:  # sparse tensors have none
        return []


def _arguments(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """All arguments in the order of the schema, defaults too."""
    values = list(args)
    for argument in func._schema.arguments[len(values):]:
        values.append(kwargs.get(argument.name, argument.default_value))
    return values


class Recorder(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    def __init__(self, modules: ModuleStack) -> None:
        super().__init__()
        self.recording = Recording()
        self.phase = FORWARD
        self.modules = modules
        self.paused = 0
        self._storages: dict[int, _Storage] = {}
        self._count = 0
        self._places: dict[int, Place] = {}  # by sequence number
        self._last = Place("", "")

    def close(self) -> None:
        """Ends the recording: what is still held then is released later, by the program."""
        self.paused += 1

    # Memory and values.

    def _storage_of(self, tensor: torch.Tensor) -> tuple[Any, Optional[_Storage]]:
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return None, None
        return storage, self._storages.get(storage._cdata)

    def know(self, tensor: torch.Tensor, is_weight: bool = False) -> None:
        """A tensor from before the pass."""
        storage, known = self._storage_of(tensor)
        if storage is None or known is not None:
            return
        entry = self._add(storage)
        entry.is_given, entry.is_weight = True, is_weight

    def _add(self, storage: Any) -> _Storage:
        self._count += 1
        entry = _Storage(self._count, int(storage.nbytes()))
        key = storage._cdata

        def released(_: Any, key: Any = key, entry: _Storage = entry) -> None:
            if self._storages.get(key) is entry:
                del self._storages[key]
                if not (entry.is_given or self.paused):
                    self.recording.events.append(MemoryChange(entry.number, -entry.bytes))

        entry.watch = weakref.ref(storage, released)
        self._storages[key] = entry
        return entry

    def _allocate(self, tensor: torch.Tensor) -> bool:
        storage, known = self._storage_of(tensor)
        if storage is None or known is not None:
            return False
        entry = self._add(storage)
        self.recording.events.append(MemoryChange(entry.number, entry.bytes))
        return True

    def _is_weight(self, tensor: torch.Tensor) -> bool:
        _, known = self._storage_of(tensor)
        return known is not None and known.is_weight

    def _value(self, tensor: torch.Tensor) -> str:
        """The name of what is in the tensor's memory now; empty for weights."""
        _, known = self._storage_of(tensor)
        if known is None or known.is_weight:
            return ""
        return f"v{known.number}" if known.version == 0 else f"v{known.number}.{known.version}"

    def _values(self, tensors: Iterable[torch.Tensor]) -> list[str]:
        names = (self._value(tensor) for tensor in tensors)
        return list(dict.fromkeys(name for name in names if name))

    def came_from(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """What was given is read as if the program had made it of a result."""
        _, given = self._storage_of(tensor)
        _, made = self._storage_of(result)
        if given is not None and made is not None and given.is_given and not given.is_weight:
            given.number, given.version = made.number, made.version

    # Places.

    def _place(self) -> tuple[Place, int, str]:
        """Module and source line, sequence number, and the phase that the operator runs in."""
        if self.phase == BACKWARD:
            if self.modules.running():  # checkpoints run their part of the forward pass again
                return self._forward_place()[0], -1, RECOMPUTE
            node = torch._C._current_autograd_node()
            number = node._sequence_nr() if node is not None else -1
            # Gradients that are added up have no node of their own.
            self._last = self._places.get(number, self._last)
            return self._last, number, BACKWARD
        place, number = self._forward_place()
        return place, number, self.phase

    def _forward_place(self) -> tuple[Place, int]:
        """Of the operator whose gradient has the number that autograd gave out last; -1 where it
        is another operator's.
        """
        caller = _callers[-1] if _callers else self._last.caller if self.phase == BACKWARD else None
        place = Place(self.modules.path(), source_line(), caller)
        number = torch._C._autograd._get_sequence_nr() - 1
        if number in self._places:
            return place, -1
        self._places[number] = place
        return place, number

    # Operators.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        if any(map(_is_wrapper, types)):
            return NotImplemented  # made of tensors, whose operators come here then
        if _is_composite(func) or func in _IN_PARTS:
            with self:
                out = _parts_of(func, args, kwargs)
            if out is not NotImplemented:
                return out
        from .whole import compute

        require_one_type(func, args)
        reads = self._values(_tensors_in(list(args) + list(kwargs.values())))
        with _as_it_is(func):
            out = compute(func, args, kwargs)
        self.add(func, args, kwargs, out, reads)
        return out

    def add(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, reads: list[str]) -> None:
        schema = getattr(func, "_schema", None)
        if schema is None:
            return
        values = _arguments(func, args, kwargs)
        results = list(_tensors_in(out))
        is_new = [self._allocate(tensor) for tensor in results]
        if schema.name == "aten::_to_copy" and self._is_weight(args[0]):
            _, copied = self._storage_of(out)
            if copied is not None:
                copied.is_weight = True
        written = self._written(schema, values)
        if not results and not written:
            if schema.name in ("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"):
                line, times = source_line(), _callers[-1].times if _callers else 1
                self.recording.host_reads[line] = self.recording.host_reads.get(line, 0) + times
            return
        if schema.name.startswith(_EMPTY) or schema.name in _FREE:
            return
        if not any(is_new) and not written:
            self.recording.views += 1
            if self.phase != BACKWARD:
                self._forward_place()  # a view's gradient may be a copy
            return
        self.add_call(schema.name, values, results, reads, written)

    def _written(self, schema: Any, values: Sequence[Any]) -> list[torch.Tensor]:
        """Arguments that the operator writes; their content becomes another value."""
        written: list[torch.Tensor] = []
        for argument, value in zip(schema.arguments, values):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.extend(_tensors_in(value))
        for tensor in written:
            _, known = self._storage_of(tensor)
            if known is not None:
                known.version += 1
        return written

    def add_call(self, name: str, values: Sequence[Any], results: Sequence[torch.Tensor], reads: list[str],
                 written: Sequence[torch.Tensor] = ()) -> None:
        place, sequence, phase = self._place()
        dims: list[Any] = []
        strides: list[Any] = []
        types: list[str] = []
        texts: list[str] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                dims.append(_shape(value))
                strides.append(_strides(value))
                types.append(type_name(value.dtype))
                texts.append("")
                continue
            items = list(_tensors_in(value)) if isinstance(value, (list, tuple)) else []
            if items:
                dims.append([_shape(item) if isinstance(item, torch.Tensor) else [] for item in value])
                strides.append([_strides(item) if isinstance(item, torch.Tensor) else [] for item in value])
                types.append(f"TensorList<{type_name(items[0].dtype)}>")
                texts.append("")
                continue
            dims.append([])
            strides.append([])
            types.append("" if value is None else "ScalarList" if isinstance(value, (list, tuple)) else "Scalar")
            texts.append(_text(value))
        self.recording.events.append(Call(
            name, dims, strides, types, texts,
            [_shape(tensor) for tensor in results], [_strides(tensor) for tensor in results],
            [type_name(tensor.dtype) for tensor in results],
            phase, place.module, place.source, sequence, reads,
            self._values(list(results) + list(written)),
            [at for at, value in enumerate(values) if isinstance(value, torch.Tensor) and self._is_weight(value)],
            place.caller))

    # What the functions that are kept whole need.

    def reads_of(self, values: Iterable[Any]) -> list[str]:
        return self._values(_tensors_in(list(values)))

    def allocated(self, results: Iterable[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        for tensor in results:
            self._allocate(tensor)
        return tuple(results)
