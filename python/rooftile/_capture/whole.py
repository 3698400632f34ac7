"""Operators that a GPU runs whole and a CPU in parts: fused attention, dropout, RMS norm, cuDNN's
recurrent layers.

The dispatcher of CPU tensors is given CUDA's choice for the time of a capture, so that calls from
Python and from C++ take the same way.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from .values import computed, unknown

if TYPE_CHECKING:
    from .recorder import Recorder

_HALVES = (torch.float16, torch.bfloat16)
_FLASH_HEAD_SIZE = 256  # the largest that FlashAttention 2 takes

_running: list[Recorder] = []  # recorders of the captures that are running, the innermost last


def _current() -> Recorder:
    return _running[-1]


def came_from(given: Iterable[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
    """What the program gives to a call it made of the results of another one."""
    for tensor in given if results else ():
        _current().came_from(tensor, results[0])


def _is_fake(values: Sequence[Any]) -> bool:
    return any(isinstance(v, FakeTensor) or (isinstance(v, (list, tuple)) and _is_fake(v)) for v in values)


def _below_autograd() -> Any:
    return torch._C._AutoDispatchBelowAutograd()


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    recorder = _current()
    recorder.paused += 1
    try:
        yield
    finally:
        recorder.paused -= 1


# Attention. The operators of CUDA have no kernel for CPU tensors: on fake ones their shape functions
# run, on real ones the sum of products gives the values.


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None,
               dropout_p: float = 0.0, is_causal: bool = False, *, scale: Optional[float] = None,
               enable_gqa: bool = False) -> torch.Tensor:
    ops = torch.ops.aten
    same_heads = query.dim() == 4 and query.shape[1] == key.shape[1] == value.shape[1]
    fits = query.dim() == key.dim() == value.dim() == 4 and query.dtype == key.dtype == value.dtype \
        and query.shape[0] == key.shape[0] and query.dtype in (*_HALVES, torch.float32) \
        and key.shape[2] > 0 and query.shape[2] > 0
    if fits and attn_mask is None and query.dtype in _HALVES and query.shape[-1] == value.shape[-1] \
            and query.shape[-1] <= _FLASH_HEAD_SIZE and (same_heads or enable_gqa):
        return ops._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False,
                                                       scale=scale)[0]
    if fits and same_heads:
        bias = attn_mask
        if bias is not None:
            if bias.dtype is torch.bool:
                bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill_(bias.logical_not(), float("-inf"))
            bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        return ops._scaled_dot_product_efficient_attention(query, key, value, bias, needs_gradient,
                                                           dropout_p, is_causal, scale=scale)[0]
    return ops._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal,
                                                  None, scale=scale, enable_gqa=enable_gqa)[0]


# flex_attention, which a GPU runs as one kernel where it is compiled. What its functions of scores and masks compute is
# a part of the kernel.

_UNSEEN = "flex_attention is counted as attention over all positions: its mask is not known"
_SAMPLES = 64  # positions along a side at which a mask is asked


def _flex_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, _score_mod: Any, block_mask: Any,
                    scale: Optional[float], *_: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    is_causal = _is_causal(block_mask[-1], query.shape[-2], key.shape[-2])
    if is_causal is None:
        recorder = _current()
        recorder.recording.notes = [*dict.fromkeys([*recorder.recording.notes, _UNSEEN])]
    groups = query.shape[1] // key.shape[1]
    if groups > 1 and query.dtype not in _HALVES:
        key, value = (t.repeat_interleave(groups, 1) for t in (key, value))
    out = _attention(query, key, value, None, 0.0, bool(is_causal), scale=scale, enable_gqa=groups > 1)
    with _unrecorded():
        rows = torch.zeros(query.shape[:-1], dtype=torch.float32)
    return out, rows, rows


def _is_causal(mask: Callable[..., Any], queries: int, keys: int) -> Optional[bool]:
    """False for a mask that lets all see all, None for another one, or one whose function needs more values."""
    with _unrecorded(), unset_fake_temporarily():
        zero = torch.tensor(0)
        rows, columns = (torch.arange(min(count, _SAMPLES)) * max(1, count // _SAMPLES) for count in (queries, keys))
        try:
            seen = torch.tensor([[bool(mask(zero, zero, row, column)) for column in columns] for row in rows])
        except Exception:  # any: masks are functions of the program
            return None
        if seen.all():
            return False
        return True if torch.equal(seen, rows[:, None] >= columns) else None


_CUDA_ONLY = {
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_backward.default,
    torch.ops.aten._scaled_dot_product_efficient_attention_backward.default,
}


_GROUPED = torch.ops.aten._grouped_mm.default if hasattr(torch.ops.aten, "_grouped_mm") else None


def _grouped_shape(x: torch.Tensor, w: torch.Tensor, offs: Optional[torch.Tensor] = None, bias: Any = None,
                   out_dtype: Optional[torch.dtype] = None) -> torch.Tensor:
    """PyTorch's own shape function takes bf16 alone."""
    if offs is not None and x.dim() == 2 and w.dim() == 2:
        shape = [offs.shape[0], x.shape[0], w.shape[1]]
    elif x.dim() == 3 and w.dim() == 2:
        shape = [x.shape[1], w.shape[1]]
    else:
        shape = [*list(x.shape[:-1]), w.shape[-1]]
    return torch.empty(shape, dtype=out_dtype or x.dtype)


def _like_meta(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Zeros of the shapes that the operator writes."""
    def to_meta(v: Any) -> Any:
        return v.to("meta") if isinstance(v, torch.Tensor) else v
    out = func(*[to_meta(v) for v in args], **{k: to_meta(v) for k, v in kwargs.items()})
    return tuple(torch.zeros_like(v, device="cpu") if isinstance(v, torch.Tensor) else v for v in out)


def _batch_norm_shape(x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, train: bool,
                      *_: Any) -> tuple[torch.Tensor, ...]:
    """PyTorch's own shape functions compute a batch norm and its gradients in a dozen parts."""
    for written in (mean, var) if train else ():
        if isinstance(written, FakeTensor) and written.constant is not None:
            written.fake_mode.fake_tensor_converter.invalidate_constant_aliases(written.constant)
    dtype = torch.float32 if train and x.dtype in _HALVES else x.dtype
    kept = [torch.empty(x.shape[1] if train else 0, dtype=dtype) for _ in ("mean", "deviation")]
    return torch.empty_like(x), *kept


def _batch_norm_gradient_shape(grad: torch.Tensor, x: torch.Tensor, weight: Any, mean: Any, var: Any, kept: Any,
                               deviation: Any, train: bool, eps: float, mask: Sequence[bool]) -> tuple[Any, ...]:
    like_weight = x.new_empty(x.shape[1]) if weight is None else weight
    return tuple(torch.empty_like(t) if asked else None for t, asked in zip((x, like_weight, like_weight), mask))


_BATCH_NORM: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.native_batch_norm.default: _batch_norm_shape,
    torch.ops.aten.native_batch_norm_backward.default: _batch_norm_gradient_shape,
}


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of an operator, also of those that only CUDA has."""
    if func is _GROUPED and _is_fake(args):
        return unknown(_grouped_shape(*args, **kwargs))
    if func in _BATCH_NORM and _is_fake(args):
        return unknown(_BATCH_NORM[func](*args, **kwargs))
    if func not in _CUDA_ONLY or _is_fake(args):
        return computed(func, args, kwargs)
    with _unrecorded():
        out = _like_meta(func, args, kwargs)
        if func._schema.name.endswith("backward"):
            return out
        is_flash = "flash" in func._schema.name
        query, key, value = args[:3]
        mask = None if is_flash else args[3]
        causal = args[4] if is_flash and len(args) > 4 else args[6] if not is_flash and len(args) > 6 else False
        gqa = query.shape[1] != key.shape[1]
        out[0].copy_(torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, mask, 0.0, causal, None, scale=kwargs.get("scale"), enable_gqa=gqa)[0])
        return out


def _dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not train or p == 0 or input.numel() == 0:
        return input
    return torch.ops.aten.native_dropout(input, p, True)[0]


class _RmsNorm(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: Any, shape: Sequence[int], eps: Optional[float]) -> torch.Tensor:
        recorder = _current()
        reads = recorder.reads_of([x])
        with _unrecorded(), _below_autograd():
            out = torch.empty_like(x) if _is_fake([x]) else torch.ops.aten.rms_norm(x, shape, weight, eps)
            rows = list(x.shape[:x.dim() - len(shape)]) + [1] * len(shape)
            root = torch.empty(rows, dtype=torch.float32)
        recorder.allocated([out, root])
        recorder.add_call("aten::_fused_rms_norm", [x, list(shape), weight, eps], [out, root], reads)
        ctx.shape = list(shape)
        ctx.save_for_backward(x, weight, root)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        recorder = _current()
        x, weight, root = ctx.saved_tensors
        reads = recorder.reads_of([grad, x])
        with _unrecorded():
            grads = [torch.zeros_like(x), None if weight is None else torch.zeros_like(weight)]
        results = [g for g in grads if g is not None]
        recorder.allocated(results)
        recorder.add_call("aten::_fused_rms_norm_backward",
                          [grad, x, ctx.shape, root, weight, [True, weight is not None]], results, reads)
        return grads[0], grads[1], None, None


def _rms_norm(input: torch.Tensor, normalized_shape: Sequence[int], weight: Any = None,
              eps: Optional[float] = None) -> torch.Tensor:
    return _RmsNorm.apply(input, weight, normalized_shape, eps)


# Recurrent layers.

_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


class _Recurrent(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """`settings` holds what is no tensor; hidden states and weights follow the input."""

    @staticmethod
    def forward(ctx: Any, settings: _Layers, x: Any, hx: Any, cx: Any, *weights: Any) -> tuple[Any, ...]:
        recorder = _current()
        reads = recorder.reads_of([x, hx] + ([cx] if cx is not None else []))
        with _unrecorded(), _below_autograd():
            outs = settings.run(x, hx, cx, weights)
            reserve = torch.empty(settings.reserve_bytes(x) if settings.train else 0, dtype=torch.uint8)
        results = [*list(outs), reserve]
        recorder.allocated(results)
        recorder.add_call("aten::_cudnn_rnn", settings.arguments(x, hx, cx, weights), results, reads)
        ctx.settings = settings
        ctx.has_cell = cx is not None
        ctx.save_for_backward(x, hx, *([cx] if cx is not None else []), outs[0], reserve, *weights)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        recorder, settings = _current(), ctx.settings
        saved = list(ctx.saved_tensors)
        x, hx = saved[:2]
        cx = saved[2] if ctx.has_cell else None
        out, reserve = saved[2 + ctx.has_cell:4 + ctx.has_cell]
        weights = saved[4 + ctx.has_cell:]
        needs = ctx.needs_input_grad
        reads = recorder.reads_of([g for g in grads if g is not None] + [x, out])
        with _unrecorded():
            results = [torch.zeros_like(t) if t is not None else None for t in [x, hx, cx, *weights]]
        mask = [needs[1], needs[2], bool(ctx.has_cell and needs[3]), any(needs[4:])]
        recorder.allocated([t for t in results if t is not None])
        forward = settings.arguments(x, hx, cx, weights)
        grad_cell = grads[2] if ctx.has_cell else None
        recorder.add_call("aten::_cudnn_rnn_backward",
                          [*forward[:6], out, grads[0], grads[1], grad_cell, *forward[6:], reserve, mask],
                          [t for t in results if t is not None], reads)
        return (None, *results)


class _Layers:
    """An `aten::lstm` or its like, as cuDNN takes it."""

    def __init__(self, cell: str, op: Any, has_biases: bool, layers: int, dropout: float, train: bool,
                 bidirectional: bool, batch_first: bool, batch_sizes: Optional[torch.Tensor] = None) -> None:
        self.cell, self.op, self.has_biases, self.layers = cell, op, has_biases, layers
        self.dropout, self.train, self.bidirectional = dropout, train, bidirectional
        self.batch_first, self.batch_sizes = batch_first, batch_sizes

    def hidden(self, weights: Sequence[Any]) -> int:
        return int(weights[0].shape[0]) // _GATES[self.cell]

    def projection(self, hx: Any, weights: Sequence[Any]) -> int:
        size = int(hx.shape[-1])
        return 0 if size == self.hidden(weights) else size

    def arguments(self, x: Any, hx: Any, cx: Any, weights: Sequence[Any]) -> list[Any]:
        hidden, projection = self.hidden(weights), self.projection(hx, weights)
        per_layer = (4 if self.has_biases else 2) + (1 if projection else 0)
        sizes = [] if self.batch_sizes is None else [int(n) for n in self.batch_sizes.tolist()]
        return [x, list(weights), per_layer, None, hx, cx, _MODES[self.cell], hidden, projection, self.layers,
                self.batch_first, self.dropout, self.train, self.bidirectional, sizes, None]

    def reserve_bytes(self, x: Any) -> int:
        # What the gradient needs of each step: the gates and the states before and after them.
        rows = x.numel() // int(x.shape[-1])
        width = self.layers * (2 if self.bidirectional else 1) * self.hidden_size
        return int(rows * width * (_GATES[self.cell] + 2) * x.element_size())

    def run(self, x: Any, hx: Any, cx: Any, weights: Sequence[Any]) -> list[Any]:
        self.hidden_size = self.hidden(weights)
        states = [hx] if cx is None else [hx, cx]
        if _is_fake([x]):
            width = int(hx.shape[-1]) * (2 if self.bidirectional else 1)
            return [x.new_empty([*list(x.shape[:-1]), width])] + [torch.empty_like(s) for s in states]
        first = states if cx is not None else hx
        rest = [list(weights), self.has_biases, self.layers, self.dropout, self.train, self.bidirectional]
        if self.batch_sizes is None:
            return list(self.op(x, first, *rest, self.batch_first))
        return list(self.op(x, self.batch_sizes, first, *rest))


def _in_autocast(tensors: Sequence[Any]) -> Sequence[Any]:
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return [t.to(dtype) if t is not None and t.is_floating_point() else t for t in tensors]


def _recurrent(cell: str, packed: bool) -> Callable[..., Any]:
    op = getattr(getattr(torch.ops.aten, cell), "data" if packed else "input")

    def split(hx: Any) -> tuple[Any, Any]:
        return (hx[0], hx[1]) if cell == "lstm" else (hx, None)

    def whole(x: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
              bidirectional: bool, batch_first: bool) -> Any:
        layers = _Layers(cell, op, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        return _Recurrent.apply(layers, *_in_autocast([x, *split(hx), *params]))

    def whole_packed(data: Any, batch_sizes: Any, hx: Any, params: Any, has_biases: bool, num_layers: int,
                     dropout: float, train: bool, bidirectional: bool) -> Any:
        layers = _Layers(cell, op, has_biases, num_layers, dropout, train, bidirectional, False, batch_sizes)
        return _Recurrent.apply(layers, *_in_autocast([data, *split(hx), *params]))

    return whole_packed if packed else whole


def _branch(chosen: Any, on_true: Callable[..., Any], on_false: Callable[..., Any], operands: Sequence[Any]) -> Any:
    return (on_true if chosen else on_false)(*operands)


def _loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any], more: Sequence[Any]) -> Any:
    while condition(*carried, *more):
        carried = body(*carried, *more)
    return tuple(carried)


# Operators that call functions, by the modules that hold them.
_OF_FUNCTIONS: dict[str, dict[str, Any]] = {
    "torch.nn.attention.flex_attention": {
        "flex_attention_hop": _flex_attention,
        "_validate_device": lambda *_: None,  # it refuses gradients on a CPU
        "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,
    },
    "torch._higher_order_ops.cond": {"cond_op": _branch},
    "torch._higher_order_ops.while_loop": {"while_loop_op": _loop},
}


@contextlib.contextmanager
def _functions_called() -> Iterator[None]:
    """Attention by a function of scores is one operator; branches and loops run as Python's. In modules that the
    program has imported.
    """
    kept = []
    for module, instead in _OF_FUNCTIONS.items():
        imported = sys.modules.get(module)
        for name, value in instead.items():
            if hasattr(imported, name):
                kept.append((imported, name, getattr(imported, name)))
                setattr(imported, name, value)
    try:
        yield
    finally:
        for imported, name, value in kept:
            setattr(imported, name, value)


@contextlib.contextmanager
def kept_whole(recorder: Recorder) -> Iterator[None]:
    """CPU tensors take CUDA's operators for the time of the block."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", _attention, "AutogradCPU")
    library.impl("dropout", _dropout, "AutogradCPU")
    if hasattr(torch.ops.aten, "_fused_rms_norm"):  # before PyTorch 2.9 CUDA ran it in parts, too
        library.impl("rms_norm", _rms_norm, "AutogradCPU")
    for cell in _MODES:
        library.impl(f"{cell}.input", _recurrent(cell, False), "AutogradCPU")
        library.impl(f"{cell}.data", _recurrent(cell, True), "AutogradCPU")
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    _running.append(recorder)
    try:
        with _functions_called():
            yield
    finally:
        _running.pop()
        torch.backends.mha.set_fastpath_enabled(fast_path)
        library._destroy()
