"""What refused a pass: the layer, the statement, and the sizes that it names."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Optional


class LayerWatch:
    """Within it, follows which modules run; `inside` is the innermost one that an error left, with what it took."""

    def __init__(self) -> None:
        self.entered = 0  # modules
        self._running: list[tuple[Any, Any]] = []
        self._handles: list[Any] = []

    def __enter__(self) -> LayerWatch:
        from torch.nn.modules import module as modules

        def enter(module: Any, given: Any) -> None:
            self.entered += 1
            first = next((value for value in given if hasattr(value, "shape")), None)
            self._running.append((module, None if first is None else tuple(first.shape)))

        def leave(_module: Any, _given: Any, _result: Any) -> None:  # not after an error
            if self._running:
                self._running.pop()

        self._handles = [modules.register_module_forward_pre_hook(enter), modules.register_module_forward_hook(leave)]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def inside(self) -> Optional[tuple[Any, Any]]:
        """The module and the shape of its first tensor."""
        return self._running[-1] if self._running else None


@dataclass
class Refusal:
    """An error of a pass, and where it came from.

    came: how far: modules entered, and the line of the outermost forward.
    layer: the innermost module with the shape of its first tensor.
    """

    error: BaseException
    came: tuple[int, int]
    layer: Optional[tuple[Any, Any]]
    statement: Optional[ast.stmt]
    names: dict[str, Any]  # of the frame of the statement
    around: list[dict[str, Any]]  # names, with their values, of the statements that led to it, the nearest first

    @classmethod
    def of(cls, error: BaseException, watch: LayerWatch, package: str) -> Refusal:
        """The refusal that an error is, within the code of a package."""
        frames = [(frame, line) for frame, line in frames_of(error.__traceback__) if package_of(frame) == package]
        outermost = next((line for frame, line in frames if frame.f_code.co_name == "forward"), 0)
        frame, line = frames[-1] if frames else (None, 0)
        around = [named_in(statement(*before), before[0].f_locals) for before in reversed(frames[:-1])]
        return cls(error, (watch.entered, outermost), watch.inside(), None if frame is None else statement(frame, line),
                   {} if frame is None else dict(frame.f_locals), around)

    @property
    def message(self) -> str:
        """Class and text of the error."""
        return f"{type(self.error).__name__}: {self.error}"

    @property
    def is_stated(self) -> bool:
        """Whether the model checks for it."""
        return isinstance(self.statement, ast.Raise)

    @property
    def is_about_axes(self) -> bool:
        """Whether the message is about how many axes a tensor has."""
        return bool(re.search(r"[Nn]umber of dim|have dimension|dims?\(|\d-?D\b|unpack|spatial dim", self.message))

    def sizes(self) -> list[int]:
        """Whole numbers of the message, each once."""
        return list(dict.fromkeys(int(found) for found in re.findall(r"(?<![\w.])\d+(?![\w.]*\.\d)", str(self.error))))

    def words(self) -> str:
        """The message without its numbers."""
        return re.sub(r"\d+", "", self.message)

    def numbers(self) -> list[tuple[int, int]]:
        """Numbers of the message, and behind the sizes of a shape their product, each with the place of its shape."""
        found: list[tuple[int, int]] = []
        for place, (shape, number) in enumerate(re.findall(r"\[(\d+(?:, \d+)+)\]|(\d+)", self.message)):
            sizes = [int(size) for size in (number or shape).split(",")]
            found += [(place, size) for size in (sizes if number else [*sizes, math.prod(sizes)])]
        return found

    def unpacked(self) -> Optional[tuple[str, Any, list[str]]]:
        """The tensor whose sizes the statement takes apart, its name first, and the names of these sizes:
        `b, c, h, w = x.shape`.
        """
        found = self.statement
        if not isinstance(found, ast.Assign) or not isinstance(found.targets[0], ast.Tuple):
            return None
        tensor = sized(found.value)
        names = [target.id if isinstance(target, ast.Name) else "" for target in found.targets[0].elts]
        value = self.names.get(tensor) if tensor is not None else None
        return (tensor, value, names) if tensor is not None and hasattr(value, "shape") else None

    def used(self) -> dict[str, Any]:
        """The names in the statement with their values."""
        return named_in(self.statement, self.names)

    def absent(self) -> list[str]:
        """Names in the statement that are None, and where it is about one, in those that led to it."""
        found = [name for name, value in self.used().items() if value is None]
        if found or "NoneType" in self.message:
            found += [name for names in self.around for name, value in names.items() if value is None]
        return list(dict.fromkeys(found))

    def shapes(self) -> set[tuple[int, ...]]:
        """Of what the statement uses, and of what the layer was given."""
        found = {tuple(value.shape) for value in self.used().values() if hasattr(value, "shape")}
        return found | ({self.layer[1]} if self.layer is not None and self.layer[1] is not None else set())


def named_in(found: Optional[ast.stmt], values: Mapping[str, Any]) -> dict[str, Any]:
    """The names in a statement with their values."""
    nodes = [] if found is None else [node.id for node in ast.walk(found) if isinstance(node, ast.Name)]
    return {name: values[name] for name in nodes if name in values}


def frames_of(trace: Optional[TracebackType]) -> Iterator[tuple[FrameType, int]]:
    """Frames that an error left, the outermost first."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def package_of(frame: FrameType) -> str:
    """The package that its code is from."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


@functools.lru_cache(maxsize=64)
def statements(code: Any) -> Sequence[ast.stmt]:
    """Statements of a function, with the lines of its file; none where its source is not there."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ()
    ast.increment_lineno(tree, first - 1)
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def statement(frame: FrameType, line: int) -> Optional[ast.stmt]:
    """The smallest statement that holds a line."""
    holding = [node for node in statements(frame.f_code) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return min(holding, key=lambda node: (node.end_lineno or node.lineno) - node.lineno, default=None)


def sized(value: ast.expr) -> Optional[str]:
    """The name of x in `x.shape` and `x.size()`."""
    if isinstance(value, ast.Call) and not value.args:
        value = value.func
    if isinstance(value, ast.Attribute) and value.attr in ("shape", "size") and isinstance(value.value, ast.Name):
        return value.value.id
    return None


def size_taken(layer: Any, shape: Sequence[int]) -> Optional[tuple[int, int, int]]:
    """The size that it was given, the one that it takes, and along which axis."""
    axes = spatial_axes(layer)
    if axes is not None:
        batched = len(shape) == axes + 2
        return (shape[1], layer.in_channels, 1) if batched else None
    wide = getattr(layer, "in_features", None) or (getattr(layer, "normalized_shape", None) or (None,))[-1]
    return (shape[-1], wide, -1) if isinstance(wide, int) and shape else None


def as_patches(layer: Any, shape: Sequence[int]) -> Optional[tuple[int, ...]]:
    """Rows of flat patches, as patches: of a convolution whose kernel is a patch."""
    axes = spatial_axes(layer)
    if axes is None or len(shape) != 2 or layer.kernel_size != layer.stride:
        return None
    patch = (layer.in_channels, *layer.kernel_size)
    size = 1
    for part in patch:
        size *= part
    return (shape[0], *patch) if size == shape[1] else None


def spatial_axes(layer: Any) -> Optional[int]:
    """How many axes a convolution slides along; None for other layers."""
    return len(layer.kernel_size) if hasattr(layer, "in_channels") and isinstance(
        getattr(layer, "kernel_size", None), tuple) else None
