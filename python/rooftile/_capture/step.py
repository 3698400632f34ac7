"""Runs the pass to be recorded: on fake tensors, or on real ones where values decide."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import functools
import gc
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import CellType, FunctionType
from typing import Any, Callable, Optional

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from .._input import Input
from . import CaptureError
from .autocast import cuda_lists
from .device import OnThisDevice, insists_on_gpu, without_gpu
from .inputs import make, torch_dtype
from .optimizers import describe
from .recorder import BACKWARD, LOSS, Call, ModuleStack, Recorder, Recording, outermost
from .refusals import place_of, without_logs
from .sharded import whole
from .values import CopyWithValues, can_be_kept, constant, followed
from .whole import kept_whole
from .writer import Capture

_MODES = ("inference", "train")
_HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_DICTS = (dict, collections.OrderedDict)
_OF_MODULES = ("_parameters", "_buffers", "_modules")
_LOOKUPS = ("aten::embedding", "aten::_embedding_bag")
# What a pass on real values may take in memory.
_MOST_REAL_BYTES = 8 << 30


def capture_step(model: Any, inputs: Any, mode: str, dtype: Optional[str], loss: Optional[Callable[[Any], Any]],
                 optimizer: Any, kwargs: Optional[Mapping[str, Any]]) -> Capture:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, found {type(model).__name__}")
    if mode not in _MODES:
        raise ValueError(f"mode: expected 'inference' or 'train', found {mode!r}")
    if dtype not in (None, "fp32", *_HALVES):
        raise ValueError(f"dtype: expected None, 'fp32', 'bf16' or 'fp16', found {dtype!r}")
    notes: list[str] = []
    if any(map(is_lazy, [*model.parameters(), *model.buffers()])):
        raise CaptureError("weights of lazy modules have no shapes yet: call the module once before")
    pass_ = _Pass(unwrapped(model, notes), inputs, dict(kwargs or {}), mode, dtype, loss)
    with whole(pass_.model, notes), _gradients_kept(pass_.model):
        kind = type(pass_.model).__name__
        try:
            recorder, facts = pass_.on_fake()
        except Exception as error:  # any: what needs values fails in many ways
            reason = _first_line(error)
            recorder, facts = pass_.on_real(reason)
            notes.append(f"ran on real CPU tensors, because fake ones failed: {reason}")
    notes += recorder.recording.notes
    if mode == "train" and loss is None:
        notes.append(facts.loss_note)
    step = None
    if mode == "train":
        step = describe(optimizer, facts.trainable)
        step.untouched = facts.untouched
        if step.note:
            notes.append(step.note)
    recording = recorder.recording
    return Capture(
        model=kind, mode=mode, parameters=facts.parameters, trainable=facts.trainable,
        weight_bytes=facts.weight_bytes, weight_dtype=facts.weight_dtype, input_bytes=facts.input_bytes,
        batch=facts.batch, events=recording.events, optimizer=step, notes=notes,
        host_reads=recording.host_reads, real_values=facts.real, torch=str(torch.__version__),
        allow_tf32=_allows_tf32())


def _allows_tf32() -> bool:
    matmul: Any = torch.backends.cuda.matmul
    return bool(matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def unwrapped(model: Any, notes: list[str]) -> Any:
    """The module inside what compiles or distributes it."""
    while True:
        name = type(model).__name__
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
            notes.append("torch.compile is left out: the operators are those of eager PyTorch")
        elif name in ("DistributedDataParallel", "DataParallel") and hasattr(model, "module"):
            model = model.module
            notes.append(f"{name} is left out: its communication is not recorded")
        elif any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
            raise CaptureError("FullyShardedDataParallel has split the weights: capture the module before")
        else:
            return model


class _Facts:
    def __init__(self, model: Any, given: Sequence[torch.Tensor], real: bool) -> None:
        parameters = list(model.parameters())  # each once, also shared ones
        self.parameters = sum(p.numel() for p in parameters)
        self.trainable = sum(p.numel() for p in parameters if p.requires_grad)
        self.weight_bytes = sum(t.numel() * t.element_size() for t in parameters + list(model.buffers()))
        kinds: dict[Any, int] = {}
        for parameter in parameters:
            kinds[parameter.dtype] = kinds.get(parameter.dtype, 0) + parameter.numel()
        self.weight_dtype = str(max(kinds, key=lambda kind: kinds[kind])).replace("torch.", "") if kinds else ""
        self.input_bytes = sum(t.numel() * t.element_size() for t in given)
        sizes = [int(t.shape[0]) for t in given if t.dim() > 0]
        self.batch = sizes[0] if sizes and all(size == sizes[0] for size in sizes) else None
        self.real = real
        self.loss_note = ""
        self.untouched = 0

    def count_untouched(self, model: Any, recording: Recording) -> None:
        """After the backward pass: what weights with a sparse gradient have in rows that were not looked up."""
        sparse = [tuple(p.shape) for p in model.parameters() if p.grad is not None and p.grad.is_sparse]
        for rows, width in set(sparse):
            read = sum(math.prod(call.dims[1]) for call in recording.events
                       if isinstance(call, Call) and call.name in _LOOKUPS and call.dims[0] == [rows, width])
            self.untouched += max(rows * sparse.count((rows, width)) - read, 0) * width


class _Pass:
    def __init__(self, model: Any, inputs: Any, kwargs: dict[str, Any], mode: str, dtype: Optional[str],
                 loss: Optional[Callable[[Any], Any]]) -> None:
        self.model, self.inputs, self.kwargs = model, inputs, kwargs
        self.mode, self.dtype, self.loss = mode, dtype, loss

    # The two ways to run.

    def on_fake(self) -> tuple[Recorder, _Facts]:
        def run(seen_as_gpu: bool) -> tuple[Recorder, _Facts]:
            return self.on_copy(*_faked(self.model), seen_as_gpu)

        with torch.random.fork_rng(devices=[]), _without_collections():
            try:
                return _as_it_insists(run)
            finally:
                _forget_fake()

    def on_copy(self, model: Any, fake_mode: Any, seen_as_gpu: bool = False,
                forward_alone: bool = False) -> tuple[Recorder, _Facts]:
        torch.manual_seed(0)
        with fake_mode, followed(), _without_collections():
            args, kwargs = self._given(lambda tensor: _as_fake(tensor, fake_mode))
            return self._run(model, args, kwargs, False, seen_as_gpu, forward_alone)

    def on_real(self, reason: str) -> tuple[Recorder, _Facts]:
        size = sum(t.numel() * t.element_size() for t in self.model.parameters())
        if any(t.is_meta or isinstance(t, FakeTensor) for t in self.model.parameters()):
            raise CaptureError(f"the pass needs values, and the module has none: {reason}")
        given = sum(4 * math.prod(value.shape) for value in tree_leaves((self.inputs, self.kwargs))
                    if isinstance(value, Input))
        if 3 * size + given > _MOST_REAL_BYTES:
            raise CaptureError(f"the pass needs values, and the module or its input is too large to run here: {reason}")
        def run(seen_as_gpu: bool) -> tuple[Recorder, _Facts]:
            try:
                model = _copied(self.model).cpu()
            except Exception as error:  # any: modules may forbid copies
                raise CaptureError(f"the module cannot be copied: {_first_line(error)}") from error
            torch.manual_seed(0)
            args, kwargs = self._given(_as_real)
            return self._run(model, args, kwargs, True, seen_as_gpu)

        with torch.random.fork_rng(devices=[]):
            try:
                return _as_it_insists(run)
            except CaptureError:
                raise
            except Exception as error:
                real = _first_line(error)
                other = "" if real.partition(":")[0] == reason.partition(":")[0] else f"; on shapes alone {reason}"
                raise CaptureError(f"the module does not run{place_of(error)}: {real}{other}") from error

    def _given(self, take: Callable[[Any], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def made(value: Any) -> Any:
            if isinstance(value, Input):
                dtype = torch_dtype(value.dtype)
                if dtype.is_floating_point or dtype.is_complex:
                    return make(value.shape, dtype)
                with unset_fake_temporarily():
                    drawn = make(value.shape, dtype, value.high)
                return take(drawn)
            if isinstance(value, torch.Tensor):
                if value.is_meta:
                    value = make(tuple(value.shape), value.dtype)
                return take(value)
            if isinstance(value, tuple) and hasattr(value, "_fields"):
                return type(value)(*map(made, value))
            if isinstance(value, (list, tuple)):
                return type(value)(map(made, value))
            if isinstance(value, dict):
                return {key: made(item) for key, item in value.items()}
            return _with_tensors(value, take)

        kwargs = made(self.kwargs)
        if self.inputs is None:
            return (), kwargs
        if isinstance(self.inputs, collections.abc.Mapping):
            return (), {**made(dict(self.inputs)), **kwargs}
        if isinstance(self.inputs, (tuple, list)) and not hasattr(self.inputs, "_fields"):
            return tuple(made(value) for value in self.inputs), kwargs
        return (made(self.inputs),), kwargs

    # The pass.

    @outermost
    def _run(self, model: Any, args: Any, kwargs: Any, real: bool, seen_as_gpu: bool,
             forward_alone: bool = False) -> tuple[Recorder, _Facts]:
        trains = self.mode == "train"
        _set_training(model, trains)
        autocast: Any = contextlib.nullcontext()
        if self.dtype in _HALVES and trains:
            autocast = torch.autocast("cpu", _HALVES[self.dtype])
        elif self.dtype is not None:
            wanted = _HALVES.get(self.dtype, torch.float32)
            _convert(model, wanted)
            args, kwargs = _converted(args, wanted), _converted(kwargs, wanted)
        given = list(_tensors_in((args, kwargs)))
        if given and not any(tensor.numel() for tensor in given):
            raise CaptureError(f"the input is empty: its shape is {tuple(given[0].shape)}")
        facts = _Facts(model, given, real)
        modules = ModuleStack(model)
        recorder = Recorder(modules)
        for tensor in list(model.parameters()) + list(model.buffers()):
            recorder.know(tensor, is_weight=True)
        for tensor in given:
            recorder.know(tensor)
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(without_logs())
            stack.enter_context(_types_of_the_program())
            stack.enter_context(_converted_in_the_pass())
            stack.enter_context(torch.compiler.set_stance("force_eager")
                                if hasattr(torch.compiler, "set_stance") else contextlib.nullcontext())
            stack.enter_context(kept_whole(recorder))
            stack.enter_context(cuda_lists())
            stack.enter_context(OnThisDevice(seen_as_gpu))
            stack.enter_context(without_gpu(seen_as_gpu))
            stack.enter_context(torch.set_grad_enabled(trains))
            stack.enter_context(modules)
            stack.enter_context(recorder)
            with autocast:
                out = model(*args, **kwargs)
                if trains and not forward_alone:
                    recorder.phase = LOSS
                    loss = self._loss_of(out, facts)
            if trains and not forward_alone:
                del out
                recorder.phase = BACKWARD
                loss.backward()
                del loss
                facts.count_untouched(model, recorder.recording)
            recorder.close()
        return recorder, facts

    def _loss_of(self, out: Any, facts: _Facts) -> torch.Tensor:
        if self.loss is not None:
            value = self.loss(out)
        else:
            value = getattr(out, "loss", None)
            if value is None and isinstance(out, dict):
                value = out.get("loss")
            facts.loss_note = "no loss given: the output's own is taken"
            if value is None:
                facts.loss_note = "no loss given: the sum of all outputs stands for it"
                parts = [t.sum() for t in _tensors_in(out) if t.requires_grad and t.is_floating_point()]
                value = sum(parts[1:], parts[0]) if parts else None
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            raise CaptureError("the module's output has no gradient: give a loss that has one")
        return value if value.dim() == 0 else value.sum()


def _set_training(model: Any, trains: bool) -> None:
    """As `Module.train`, also where a program gave that name to something else."""
    try:
        model.train(trains)
    except TypeError:
        for module in model.modules():
            module.training = trains


class Trials:
    """Forward passes over one copy of a module, on fake tensors: whether it runs with this input or that one."""

    def __init__(self, model: Any, mode: str, dtype: Optional[str]) -> None:
        self._pass = _Pass(unwrapped(model, []), None, {}, mode, dtype, None)
        self._copy = _faked(self._pass.model)

    def run(self, kwargs: Mapping[str, Any]) -> None:
        """Raises what the module raises."""
        self._pass.kwargs = dict(kwargs)
        with torch.random.fork_rng(devices=[]):
            self._pass.on_copy(*self._copy, forward_alone=True)

    def close(self) -> None:
        """Nothing keeps what was tried."""
        _forget_fake()


def _as_it_insists(run: Callable[[bool], tuple[Recorder, _Facts]]) -> tuple[Recorder, _Facts]:
    """Runs a pass; once more, with tensors that say that they are on a GPU, where a program may have refused because
    they are not.
    """
    try:
        return run(False)
    except Exception as error:
        if not insists_on_gpu(error):
            raise
        try:
            return run(True)
        except Exception:
            raise error from None


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Garbage in cycles stays until the end: fake tensors have no memory, and each search walks through all that the
    imported libraries hold.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _holds_fake(value: object, depth: int = 0) -> bool:
    if isinstance(value, FakeTensor):
        return True
    if depth < 3 and isinstance(value, (list, tuple)):
        return any(_holds_fake(item, depth + 1) for item in value)
    return depth < 3 and isinstance(value, dict) and any(_holds_fake(v, depth + 1) for v in value.values())


def _forget_fake() -> None:
    """Empties the caches of functions that kept a fake tensor: the program would meet it again."""
    for cached in gc.get_objects():
        if type(cached) is not functools._lru_cache_wrapper or cached.cache_info().currsize == 0:
            continue
        # The results of a bounded cache, the table of one without bounds.
        if any(map(_holds_fake, gc.get_referents(cached))):
            cached.cache_clear()


def _faked(model: Any) -> tuple[Any, Any]:
    """A copy in fake tensors, and their mode."""
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    with CopyWithValues(fake_mode):
        model = _copied(model)
    _off_meta(model, fake_mode)
    return model, fake_mode


def _copied(model: Any) -> Any:
    """With the hooks of its weights, which copies leave out, and functions that call the copied modules."""
    memo: dict[int, Any] = {}
    try:
        new = copy.deepcopy(model, memo)
    except Exception:  # any: objects refuse copies in many ways
        memo = _without_copies(model)
        with _as_other_modules(model, memo):
            new = copy.deepcopy(model, memo)
    for module in new.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType):
                setattr(module, name, _rebound(value, memo))
            elif type(value) in _DICTS:
                for key, item in value.items():
                    if isinstance(item, FunctionType) and (rebound := _rebound(item, memo)) is not item:
                        value[key] = rebound
    for old, copied in zip(model.parameters(), new.parameters()):
        for hook in (old._backward_hooks or {}).values():
            copied.register_hook(hook)
    return new


def _without_copies(model: Any) -> dict[int, Any]:
    """What a copy of the module has in common with it, because it cannot be copied: locks, files, generators. A
    tensor that was computed is taken without its history. By identity, as copy.deepcopy takes it.
    """
    common: dict[int, Any] = {}
    seen: set[int] = set()

    def visit(value: Any) -> None:
        if id(value) in seen or isinstance(value, torch.nn.Module):
            return
        seen.add(id(value))
        if type(value) in (*_DICTS, list, tuple, set):
            for item in value.values() if isinstance(value, dict) else value:
                visit(item)
            return
        try:
            copy.deepcopy(value, dict(common))
        except Exception:  # any
            is_tensor = isinstance(value, torch.Tensor)
            common[id(value)] = value.detach().requires_grad_(value.requires_grad) if is_tensor else value

    for module in model.modules():
        for name, value in vars(module).items():
            if name not in _OF_MODULES:
                visit(value)
    return common


@contextlib.contextmanager
def _as_other_modules(model: Any, common: Mapping[int, Any]) -> Iterator[None]:
    """Modules whose own `__deepcopy__` refuses are copied as all others, by what they hold."""
    def by_parts(module: Any) -> Callable[[dict[int, Any]], Any]:
        def copied(memo: dict[int, Any]) -> Any:
            kind: Any = type(module)
            new = memo[id(module)] = kind.__new__(kind)
            for name, value in vars(module).items():
                if name != "__deepcopy__":
                    vars(new)[name] = copy.deepcopy(value, memo)
            return new
        return copied

    refusing = []
    for module in model.modules():
        if hasattr(type(module), "__deepcopy__"):
            try:
                copy.deepcopy(module, dict(common))
            except Exception:  # any
                refusing.append(module)
                vars(module)["__deepcopy__"] = by_parts(module)
    try:
        yield
    finally:
        for module in refusing:
            del vars(module)["__deepcopy__"]


def _rebound(function: FunctionType, memo: Mapping[int, Any]) -> FunctionType:
    """The function with copies in the place of what it closes over: copying leaves functions as they are."""
    old = function.__closure__ or ()
    try:
        cells = [CellType(memo.get(id(cell.cell_contents), cell.cell_contents)) for cell in old]
    except ValueError:  # a name that has no value yet
        return function
    if all(new.cell_contents is cell.cell_contents for new, cell in zip(cells, old)):
        return function
    new = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__,
                       tuple(cells))
    new.__kwdefaults__ = function.__kwdefaults__
    return new


@contextlib.contextmanager
def _gradients_kept(model: Any) -> Iterator[None]:
    """A pass that reaches the given module leaves its gradients as they were."""
    before = [(parameter, parameter.grad) for parameter in model.parameters()]
    try:
        yield
    finally:
        for parameter, gradient in before:
            if parameter.grad is not gradient:
                parameter.grad = gradient


def _as_fake(tensor: torch.Tensor, fake_mode: Any) -> torch.Tensor:
    if isinstance(tensor, FakeTensor):
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    if type(tensor) is not torch.nn.Parameter and not is_traceable_wrapper_subclass(tensor):
        tensor = tensor.as_subclass(torch.Tensor)  # types that only name what a tensor holds
    if not tensor.is_floating_point() and can_be_kept(tensor):
        return constant(tensor, fake_mode)
    return fake_mode.from_tensor(tensor.detach().cpu()).requires_grad_(tensor.requires_grad)


@contextlib.contextmanager
def _types_of_the_program() -> Iterator[None]:
    """Subclasses of tensors that the program makes by their class are made outside of the modes that record, which
    would hand their constructor a tensor of another type.
    """
    def make_tensor(kind: Any, *args: Any, **kwargs: Any) -> Any:
        inside = kind in (torch.Tensor, torch.nn.Parameter)
        with contextlib.nullcontext() if inside else _disable_current_modes():
            return torch._C.TensorBase.__new__(kind, *args, **kwargs)

    if "__new__" in vars(torch.Tensor):
        yield
        return
    torch.Tensor.__new__ = make_tensor  # type: ignore[method-assign, assignment, unused-ignore]
    try:
        yield
    finally:
        del torch.Tensor.__new__


@contextlib.contextmanager
def _converted_in_the_pass() -> Iterator[None]:
    """`Module.to` within the pass gives fake weights other content: PyTorch would exchange tensors, which it cannot
    where something refers to them.
    """
    swap = getattr(torch.utils, "swap_tensors", None)  # since PyTorch 2.3
    if swap is None:
        yield
        return

    def exchange(old: torch.Tensor, new: torch.Tensor) -> None:
        if isinstance(old, FakeTensor):
            old.data = new.data
        else:
            swap(old, new)

    torch.utils.swap_tensors = exchange
    try:
        yield
    finally:
        torch.utils.swap_tensors = swap


class _Copying(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Copies of tensors are what `take` makes of them."""

    def __init__(self, take: Callable[[Any], Any]) -> None:
        super().__init__()
        self._take = take

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.__deepcopy__:
            return func(*args, **(kwargs or {}))
        tensor, memo = args
        if id(tensor) not in memo:
            memo[id(tensor)] = self._take(tensor)
        return memo[id(tensor)]


def _with_tensors(value: Any, take: Callable[[Any], Any]) -> Any:
    """An object of the program, as a batch of a data loader, with other tensors; itself where it holds none, or cannot
    be copied.
    """
    if next(_tensors_in(value), None) is None:
        return copy.copy(value) if hasattr(value, "to") else value
    try:
        with _Copying(take):
            return copy.deepcopy(value)
    except Exception:  # any: objects refuse copies in many ways
        return value


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _replace_tensors(model: Any, change: Callable[[Any], Any]) -> None:
    """Parameters and buffers by what `change` makes of them; shared ones stay shared."""
    made: dict[int, tuple[Any, Any]] = {}
    for module in list(model.modules()):
        for name, tensor in list(module._parameters.items()) + list(module._buffers.items()):
            if tensor is None:
                continue
            if id(tensor) not in made:
                new = change(tensor)
                if new is not tensor and isinstance(tensor, torch.nn.Parameter):
                    hooks = tensor._backward_hooks
                    new = torch.nn.Parameter(new, requires_grad=tensor.requires_grad)
                    for hook in (hooks or {}).values():
                        new.register_hook(hook)
                made[id(tensor)] = (new, tensor)  # the old one lives, or its id may come again
            new = made[id(tensor)][0]
            if new is not tensor:
                setattr(module, name, new)  # modules may keep lists of their own, as nn.LSTM does


def _off_meta(model: Any, fake_mode: Any) -> None:
    """Tensors of a module that was built on the meta device become ones of the recording."""
    def here(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu":
            return tensor
        with fake_mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")

    _replace_tensors(model, here)
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if name not in _OF_MODULES and any(tensor.is_meta for tensor in _tensors_in(value)):
                setattr(module, name, _mapped(value, here))


def _convert(model: Any, dtype: torch.dtype) -> None:
    """As Module.to(dtype), which cannot exchange fake tensors."""
    with torch.no_grad():
        _replace_tensors(model, lambda tensor: tensor.detach().to(dtype)
                         if tensor.is_floating_point() and tensor.dtype is not dtype else tensor)


def _converted(value: Any, dtype: torch.dtype) -> Any:
    return _mapped(value, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with other tensors."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(item, change) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value


def _tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth > 8:
        return
    elif isinstance(value, collections.abc.Mapping):
        for item in value.values():
            yield from _tensors_in(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item, depth + 1)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module, FunctionType)):
        yield from _tensors_in(vars(value), depth + 1)
