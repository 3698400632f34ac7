"""The commands of the program as functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

from . import _program, _schemas
from ._error import Error
from ._flags import Sizes, dtype_name, flag, repeated, size_flags
from ._report import Report
from ._source import Source, Wish, source_of

Mode = Literal["inference", "train", "decode"]


def flags_of(
    source: Source,
    gpu: Optional[str],
    mode: Mode,
    dtype: Any,
    sizes: list[str],
) -> list[str]:
    """What every command takes. A capture states mode, precision and sizes itself."""
    flags = flag("gpu-file" if gpu is not None and gpu.endswith(".json") else "gpu", gpu)
    if source.was_captured:
        if sizes:
            raise Error("a captured model has the sizes of its inputs: leave out batch, seq, past, dims and shapes")
        return flags
    return flags + flag("dtype", dtype_name(dtype)) + flag("mode", None if mode == "inference" else mode) + sizes


def check(
    target: Any,
    inputs: Any = None,
    *,
    gpu: Optional[str] = None,
    mode: Mode = "inference",
    dtype: Any = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    past: Optional[int] = None,
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    loss: Any = None,
    optimizer: Any = None,
    kwargs: Optional[Mapping[str, Any]] = None,
    select: Union[str, Iterable[str], None] = None,
    ignore: Union[str, Iterable[str], None] = None,
    baseline: Optional[str] = None,
    settings: bool = True,
) -> Report:
    """Finds what limits a network on a GPU and what to change; needs no GPU.

    target: a path (ONNX model, Hugging Face config.json or folder, trace, script or folder of scripts), a list
        of paths (the ranks of a job, a script and its trace), a line of workload text, an ``onnx.ModelProto``,
        a ``torch.nn.Module``, a ``torch.export.ExportedProgram`` or a function of tensors.
    inputs: of a module or function: a tensor, a shape, a `rooftile.Input`, or a tuple or dict of those. Only
        shapes and element types matter.
    gpu: a name as in ``rooftile gpus``, ``"auto"`` for this machine's, or the path of a device file (.json).
        Traces and scripts go without.
    mode: ``"train"`` adds the backward pass and the optimizer, ``"decode"`` is one step with a cache.
    dtype: runs floating-point operations in it, as autocast does: ``"bf16"``, ``torch.bfloat16``.
    batch, seq, past: batch size, tokens, and positions in the cache when decoding.
    dims, shapes: sizes of symbolic dimensions, and shapes of inputs, by name.
    loss, optimizer: of a captured training step; the sum of the outputs and none unless given.
    kwargs: keyword arguments of a captured model.
    select, ignore: rules to run or to skip, as ``"gemm/*"``.
    baseline: a file of known findings that are not listed.
    settings: whether rooftile.toml and pyproject.toml beside the input count.

    Raises `rooftile.Error` with the program's line for bad input.
    """
    source = source_of(target, Wish(inputs, mode, dtype_name(dtype), loss, optimizer, kwargs))
    flags = flags_of(source, gpu, mode, dtype, size_flags(batch, seq, past, dims, shapes))
    chosen = repeated("select", select) + repeated("ignore", ignore) + flag("baseline", baseline)
    return Report.of(source, flags, chosen + ([] if settings else ["--no-config"]))


def sweep(
    target: Any,
    inputs: Any = None,
    *,
    gpu: Optional[str] = None,
    batch: Optional[Sizes] = None,
    seq: Optional[Sizes] = None,
    past: Optional[Sizes] = None,
    mode: Mode = "inference",
    dtype: Any = None,
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    loss: Any = None,
    optimizer: Any = None,
    kwargs: Optional[Mapping[str, Any]] = None,
) -> _schemas.Sweep:
    """Time and memory over the batch: where more samples stop paying, and what fits.

    target: a path, workload text, or anything of torch that `check` takes. A module is recorded once, with a
        batch of two or more in its inputs; the sizes that hold this batch as a factor grow with it.
    batch: ``(1, 512)`` or ``"1:512"`` in powers of two, or ``"1,3,8"``; ``"1:256"`` unless given. The same for
        seq and past.

    The rest as for `check`. Raises `rooftile.Error` with the program's line for bad input.
    """
    source = source_of(target, Wish(inputs, mode, dtype_name(dtype), loss, optimizer, kwargs))
    flags = flags_of(source, gpu, mode, dtype, size_flags(None, seq, past, dims, shapes))
    flags += size_flags(batch, None, None, None, None)
    return _schemas.Sweep.from_json(json.loads(_program.run(["sweep", *source.words, *flags, "--format=json"])))


def compare(
    before: Any,
    after: Any,
    *,
    gpu: Optional[str] = None,
    inputs: Any = None,
    mode: Mode = "inference",
    dtype: Any = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    past: Optional[int] = None,
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
) -> _schemas.Comparison:
    """Which of two models is faster, and where the difference comes from.

    before, after: each as target of `check`; modules and functions take the same inputs.
    ``saving_s`` is the time that the second saves, below 0 where it takes longer.

    The rest as for `check`. Raises `rooftile.Error` with the program's line for bad input.
    """
    wish = Wish(inputs, mode, dtype_name(dtype))
    first, second = source_of(before, wish), source_of(after, wish)
    if len(first.words) != 1 or len(second.words) != 1:
        raise Error("compare takes two inputs, each a single one")
    captured = first if first.was_captured else second
    flags = flags_of(captured, gpu, mode, dtype, size_flags(batch, seq, past, dims, shapes))
    words = ["compare", *first.words, *second.words, *flags, "--format=json"]
    return _schemas.Comparison.from_json(json.loads(_program.run(words)))
