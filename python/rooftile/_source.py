"""What a user hands over, as arguments of the program: paths as they are, objects written to files."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

from ._error import Error
from ._input import Input

MODEL_FILE, CAPTURE_FILE = "model.onnx", "model.rooftile.json"
# As a capture names the precisions that it can run a model in.
PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
NEEDS_INPUTS = (
    "a model needs its inputs: rooftile.check(model, x), where x is a tensor, a shape or a rooftile.Input, "
    "or a tuple or dict of those"
)


@dataclass(frozen=True)
class Wish:
    """How a model is to be captured.

    inputs: tensors, shapes, `Input`s, or tuples and dicts of them.
    mode: "inference" or "train".
    dtype: of autocast; None runs the model as it is.
    loss: makes the model's output a number to differentiate.
    optimizer: class or instance, whose step belongs to a training step.
    kwargs: keyword arguments of the model.
    """

    inputs: Any = None
    mode: str = "inference"
    dtype: Optional[str] = None
    loss: Any = None
    optimizer: Any = None
    kwargs: Optional[Mapping[str, Any]] = None


class Source:
    """Arguments that name the input; files that had to be written live as long as this object.

    was_captured: the program gets a file that states mode, precision and sizes itself.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Optional[tempfile.TemporaryDirectory[str]] = None,
        was_captured: bool = False,
    ) -> None:
        self.words, self._folder, self.was_captured = tuple(words), folder, was_captured


def source_of(target: Any, wish: Wish) -> Source:
    """The source of a path, several paths, inline text, an ONNX model, or anything of torch that can be called.

    Raises Error for other objects, and for models without inputs.
    """
    if isinstance(target, (str, os.PathLike)):
        return Source([os.fspath(target)])
    if isinstance(target, (list, tuple)) and target and all(isinstance(t, (str, os.PathLike)) for t in target):
        return Source([os.fspath(path) for path in target])
    if is_onnx(target):
        return from_onnx(target)
    if is_exported(target):
        return from_exported(target, wish)
    if isinstance(target, type):
        name = target.__qualname__
        raise Error(f"expected a model, found the class {name}: make one first, {name}(...)")
    if callable(target):
        return from_callable(target, wish)
    raise Error(
        "expected a path, an ONNX model, a torch module, an exported program or a function, "
        f"found {type(target).__module__}.{type(target).__qualname__}"
    )


def is_onnx(target: Any) -> bool:
    """An onnx.ModelProto; told by what it has, because onnx need not be imported for it."""
    return hasattr(target, "SerializeToString") and hasattr(target, "graph") and hasattr(target, "opset_import")


def is_exported(target: Any) -> bool:
    """A torch.export.ExportedProgram. Where torch was not imported, there is none."""
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(target, export.ExportedProgram)


def from_onnx(model: Any) -> Source:
    folder = tempfile.TemporaryDirectory(prefix="rooftile-")
    path = Path(folder.name) / MODEL_FILE
    try:
        path.write_bytes(model.SerializeToString())
    except ValueError as error:  # protobuf ends at 2 GiB
        problem = f"the model cannot be serialised ({error})"
        raise Error(f"{problem}: save it with external data, and check the path") from error
    return Source([str(path)], folder)


def from_exported(program: Any, wish: Wish) -> Source:
    inputs, kwargs = wish.inputs, wish.kwargs
    if inputs is None:
        if program.example_inputs is None:
            raise Error("the exported program has no example inputs: give inputs=")
        inputs, kwargs = program.example_inputs
    return from_callable(program.module(), Wish(inputs, wish.mode, wish.dtype, wish.loss, wish.optimizer, kwargs))


def from_callable(model: Any, wish: Wish) -> Source:
    if (wish.inputs is None and not wish.kwargs) or isinstance(wish.inputs, str):
        raise Error(NEEDS_INPUTS)
    require_one_argument(wish.loss)
    module = import_module("._capture", __package__)
    try:
        captured = module.capture(
            as_module(model),
            as_inputs(wish.inputs),
            mode=wish.mode,
            dtype=PRECISIONS.get(wish.dtype or "", wish.dtype),
            loss=wish.loss,
            optimizer=wish.optimizer,
            kwargs=as_inputs(wish.kwargs),
        )
    except (module.CaptureError, ValueError) as error:  # a ValueError names an argument
        raise Error(str(error)) from error
    folder = tempfile.TemporaryDirectory(prefix="rooftile-")
    path = Path(folder.name) / CAPTURE_FILE
    captured.save(str(path), in_memory=True)
    return Source([str(path)], folder, was_captured=True)


def require_one_argument(loss: Any) -> None:
    """A loss that needs a target as well is named before the model runs."""
    if loss is None:
        return
    try:
        inspect.signature(getattr(loss, "forward", loss)).bind(None)
    except TypeError as error:
        raise Error("loss gets the model's output alone: loss=lambda y: criterion(y, target), with a target of the "
                    "right shape and type") from error
    except ValueError:  # of a function in C nobody knows
        return


def as_module(model: Any) -> Any:
    """A function as a module without parameters; modules as they are."""
    import torch

    if isinstance(model, torch.nn.Module):
        return model

    class Function(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.function = model

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.function(*args, **kwargs)

    Function.__name__ = Function.__qualname__ = getattr(model, "__name__", type(model).__name__)
    return Function()


def as_inputs(value: Any) -> Any:
    """Shapes as `Input`s, however they are nested; everything else as it is."""
    if isinstance(value, Mapping):
        return {name: as_inputs(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        if value and all(type(size) is int for size in value):
            return Input(tuple(value))
        return type(value)(as_inputs(part) for part in value) if type(value) in (tuple, list) else value
    return value
