"""Inputs by trying: a pass that is refused says what it takes instead."""

from __future__ import annotations

import inspect
import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Optional

from ._documented import Forms, optional_arguments
from ._input import Input
from ._refused import LayerWatch, Refusal, as_patches, size_taken, spatial_axes

MOST_TRIES = 80
MOST_SECONDS = 15.0  # of the processor
MOST_STEPS = 12  # one after the other
MOST_ASIDE = 3  # that fail in another way, and no later
_LONGER = 64  # a list for layers, each of which takes one of it
_WIDEST = 1 << 16  # a size in a message that may be one of an input
_LONGEST = 1 << 20  # a size that may be meant
MOST_EQUAL = 2  # sizes that one message may mean for one axis

Kwargs = dict[str, Any]
Path = tuple[Any, ...]  # keys of a tensor in the arguments


@dataclass
class Found:
    """Arguments that a module runs with, or those that came furthest and why they were refused."""

    kwargs: Kwargs
    refusal: Optional[Refusal]


class Search:
    """Tries arguments with one change after another; what comes no further is left."""

    def __init__(self, model: Any, run: Any) -> None:
        self._model, self._run = model, run
        self._package = type(model).__module__.partition(".")[0]
        self._end = time.process_time() + MOST_SECONDS
        self._left = MOST_TRIES
        self._tried: dict[str, Optional[Refusal]] = {}
        self._followed: set[str] = set()

    def refusal(self, kwargs: Kwargs) -> Optional[Refusal]:
        """Why the module does not run with them; None where it does."""
        key = repr(kwargs)
        if key not in self._tried:
            self._left -= 1
            self._tried[key] = self._refusal(kwargs)
        return self._tried[key]

    def _refusal(self, kwargs: Kwargs) -> Optional[Refusal]:
        with LayerWatch() as watch:
            try:
                self._run(kwargs)
            except Exception as error:  # any: modules refuse in many ways
                return Refusal.of(error, watch, self._package)
        return None

    def found(self, choices: Sequence[tuple[Kwargs, Optional[Forms]]]) -> Found:
        """The first arguments that it runs with, from these on; the choice that comes furthest is changed first. Each
        has the forms of what it lacks.
        """
        begun: list[_Step] = []
        for kwargs, forms in choices:
            refusal = self.refusal(kwargs)
            if refusal is None:
                return Found(kwargs, None)
            begun.append(_Step(kwargs, refusal, forms, self._proposals(kwargs, refusal, forms)))
        begun.sort(key=lambda step: (step.refusal.came, len(step.kwargs)), reverse=True)
        results = []
        for step in begun:
            results.append(self._from(step, self._left // 2, (time.process_time() + self._end) / 2))
            if results[-1].refusal is None:
                return results[-1]
        return max(results, key=lambda one: one.refusal.came if one.refusal is not None else (0, 0))

    def _from(self, first: _Step, left: int, end: float) -> Found:
        """The first that it runs with, or those that came furthest, until so many tries are left and that time."""
        steps, best = [first], first
        while steps and self._left > left and time.process_time() < end:
            last = steps[-1]
            other = next(last.proposals, None)
            if other is None:
                steps.pop()
                steps[len(steps):] = [] if len(steps) > MOST_STEPS else last.aside[::-1]
            elif repr(other) not in self._followed:
                self._followed.add(repr(other))
                refusal = self.refusal(other)
                if refusal is None:
                    return Found(other, None)
                step = _Step(other, refusal, first.forms, self._proposals(other, refusal, first.forms))
                if refusal.came > last.refusal.came:
                    steps.append(step)
                    best = max(best, step, key=lambda one: one.refusal.came)
                elif refusal.message != last.refusal.message and \
                        (refusal.came == last.refusal.came or refusal.is_stated):
                    last.aside.append(step)
                    del last.aside[MOST_ASIDE:]
        return Found(best.kwargs, best.refusal)

    def _proposals(self, kwargs: Kwargs, refusal: Refusal, forms: Optional[Forms]) -> Iterator[Kwargs]:
        yield from of_layer(kwargs, refusal)
        yield from of_rank(kwargs, refusal, forms)
        yield from of_joined(kwargs, refusal)
        if forms is not None:
            yield from of_absence(self._model, kwargs, refusal, forms)
            yield from of_dicts(kwargs, refusal, forms)
        yield from of_type(kwargs, refusal)
        twice: list[Kwargs] = []
        sizes = (of_growth(kwargs, refusal, self.refusal, twice), of_sizes(kwargs, refusal), of_lists(kwargs, refusal))
        others = of_other_forms(kwargs, refusal, forms) if forms is not None else ()
        yield from itertools.chain(others, *sizes) if refusal.is_about_axes else itertools.chain(*sizes, others)
        yield from twice
        yield from without_one(self._model, kwargs)


@dataclass
class _Step:
    """What was tried, what it proposes, and what failed in another way than it."""

    kwargs: Kwargs
    refusal: Refusal
    forms: Optional[Forms]
    proposals: Iterator[Kwargs]
    aside: list[_Step] = field(default_factory=list)


# ---- tensors in the arguments


def tensors(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Tensors and inputs with their places."""
    if hasattr(value, "shape"):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from tensors(item, (*path, at))


def replaced(value: Any, path: Path, new: Any) -> Any:
    """The same with another value in this place."""
    if not path:
        return new
    if isinstance(value, Mapping):
        return {**value, path[0]: replaced(value[path[0]], path[1:], new)}
    return type(value)(replaced(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value))


def reshaped(value: Any, shape: Sequence[int]) -> Any:
    """An input of another shape; of tensors with values, masks that hide nothing."""
    if isinstance(value, Input):
        return Input(tuple(shape), value.dtype, value.high)
    import torch

    return torch.ones(tuple(shape), dtype=value.dtype) if bool((value == 1).all()) else None


def typed(value: Any, dtype: str, high: Optional[int] = None) -> Any:
    """An input of another type."""
    import torch

    return Input(value.shape, dtype, high) if isinstance(value, Input) else value.to(getattr(torch, dtype))


def dtype_of(value: Any) -> str:
    """The name of its type."""
    return str(value.dtype).replace("torch.", "")


def with_tensor(kwargs: Kwargs, path: Path, new: Any) -> Iterator[Kwargs]:
    """The arguments with it; none where there is no such tensor."""
    if new is not None:
        yield replaced(kwargs, path, new)


def latest_first(kwargs: Kwargs, refusal: Optional[Refusal] = None) -> list[tuple[Path, Any]]:
    """Tensors, those first that were added last; before them those that the refusal is about."""
    found = list(tensors(kwargs))[::-1]
    if refusal is not None:
        found.sort(key=lambda place: not is_about(refusal, *place))
    return found


def is_about(refusal: Refusal, path: Path, value: Any) -> bool:
    """Whether the statement, or the layer, that refused uses such a tensor."""
    return path[0] in refusal.used() or tuple(value.shape) in refusal.shapes()


# ---- what a refusal proposes


def of_layer(kwargs: Kwargs, refusal: Refusal) -> Iterator[Kwargs]:
    """One size as the layer takes it that refused."""
    if refusal.layer is None or refusal.layer[1] is None:
        return
    layer, shape = refusal.layer
    patches = as_patches(layer, shape)
    floats = [(path, value) for path, value in latest_first(kwargs) if dtype_of(value).startswith("float")]
    if patches is not None:
        for path, value in floats:
            if tuple(value.shape) == shape:
                yield from with_tensor(kwargs, path, reshaped(value, patches))
    sizes = size_taken(layer, shape)
    if sizes is None or sizes[0] == sizes[1]:
        return
    wrong, right, place = sizes
    for path, value in floats:
        old = tuple(value.shape)
        axes = [axis for axis, size in enumerate(old) if axis > 0 and size == wrong]
        likely = [axis for axis in axes if axis == place % len(old)]
        if not likely and len(axes) != 1:
            continue
        axis = (likely or axes)[0]
        if right in old[1:]:  # it stands at another place
            moved = list(old)
            moved[axis], moved[old.index(right, 1)] = right, wrong
            yield from with_tensor(kwargs, path, reshaped(value, moved))
        for _, other in floats:  # one that goes with another argument
            if len(other.shape) == len(old) and other.shape[axis] == right:
                yield from with_tensor(kwargs, path, reshaped(value, other.shape))
        yield from with_tensor(kwargs, path, reshaped(value, (*old[:axis], right, *old[axis + 1:])))


def of_rank(kwargs: Kwargs, refusal: Refusal, forms: Optional[Forms]) -> Iterator[Kwargs]:
    """Another number of axes: as many as a statement takes apart, or as the convolution slides along."""
    name, shape = "", refusal.layer[1] if refusal.layer is not None else None
    axes = spatial_axes(refusal.layer[0]) if refusal.layer is not None else None
    names = [] if axes is None else ["batch", "channels", *("frames", "height", "width")[3 - axes:]]
    unpacked = refusal.unpacked()
    if unpacked is not None:
        name, shape, names = unpacked[0], tuple(unpacked[1].shape), unpacked[2]
    if shape is not None and names and len(names) != len(shape):
        for path, value in latest_first(kwargs):
            if tuple(value.shape) == shape:
                yield from with_tensor(kwargs, path, reshaped(value, with_axes(shape, names, forms)))
            elif path[-1] == name and len(names) > len(shape) == len(value.shape):  # it was joined with another one
                yield from with_tensor(kwargs, path, reshaped(value, with_axes(value.shape, names, forms)))
            elif path[-1] == name and len(names) > len(shape):  # a module joined its first axes
                added = (1,) * (len(names) - len(shape))
                yield from with_tensor(kwargs, path, reshaped(value, (*value.shape[:1], *added, *value.shape[1:])))
    for path, value in latest_first(kwargs):
        is_sound = len(value.shape) == 2 or (len(value.shape) == 3 and isinstance(refusal.error, IndexError))
        if is_sound and dtype_of(value) == "float32":  # with an axis for its channel
            yield from with_tensor(kwargs, path, reshaped(value, (value.shape[0], 1, *value.shape[1:])))


def of_joined(kwargs: Kwargs, refusal: Refusal) -> Iterator[Kwargs]:
    """As many axes as another argument has that the same statement uses, with its sizes behind the channels."""
    used = [name for name in refusal.used() if hasattr(kwargs.get(name), "shape")]
    for one, other in itertools.permutations(used, 2):
        shape, wanted = kwargs[one].shape, kwargs[other].shape
        if 2 < len(shape) < len(wanted):
            missing = len(wanted) - len(shape)
            for axes in (wanted[2:], (*wanted[2:2 + missing], *shape[2:])):
                yield from with_tensor(kwargs, (one,), reshaped(kwargs[one], (*shape[:2], *axes)))


def with_axes(shape: Sequence[int], names: Sequence[str], forms: Optional[Forms]) -> list[int]:
    """Sizes of these names: of the shape, from its ends on, and between them what the names tell."""
    missing = len(names) - len(shape)
    if missing < 0:
        return [*shape[:1], *shape[len(shape) - len(names) + 1:]]
    sizes = [forms.size(name.lower()) if forms is not None else None for name in names]
    at = next((place for place, name in enumerate(names) if place > 0 and "frame" in name.lower()), 1)
    kept = [*shape[:at], *[None] * missing, *shape[at:]]
    return [size if size is not None else sizes[place] or 1 for place, size in enumerate(kept)]


def of_absence(model: Any, kwargs: Kwargs, refusal: Refusal, forms: Forms) -> Iterator[Kwargs]:
    """One more argument: that which the error or its statement names, or the next one where something was None."""
    names = inspect.signature(model.forward).parameters
    words = [word for word in re.findall(r"\w+", str(refusal.error)) if word in names]
    absent = refusal.absent()
    words += [name for name in names if name in absent or any(part in absent for part in name.split("_"))]
    if "NoneType" in refusal.message or absent:
        words += optional_arguments(model)
    for word in dict.fromkeys(words):
        form = forms.get(word) if word not in kwargs else None
        if form is not None:
            yield {**kwargs, word: form}


def of_dicts(kwargs: Kwargs, refusal: Refusal, forms: Forms) -> Iterator[Kwargs]:
    """What is missing, in an argument that holds others by name."""
    words = [name for name, value in refusal.names.items() if value is None]
    if isinstance(refusal.error, KeyError) or "missing" in refusal.message:
        words += re.findall(r"'(\w+)'", str(refusal.error))
    for name, value in kwargs.items():
        more = {word: forms.get(word) for word in words if isinstance(value, dict) and word not in value}
        if more and all(form is not None for form in more.values()):
            yield {**kwargs, name: {**value, **more}}


def of_type(kwargs: Kwargs, refusal: Refusal) -> Iterator[Kwargs]:
    """Another type of elements: indices of a table, floats of other layers, masks of booleans."""
    layer, shape = refusal.layer or (None, None)
    rows = getattr(layer, "num_embeddings", None)
    for path, value in latest_first(kwargs):
        kind = dtype_of(value)
        if rows is not None and shape in (None, tuple(value.shape)) and kind != "int64":
            yield replaced(kwargs, path, typed(value, "int64", rows))
        elif re.search(r"type|bool|not implemented for", str(refusal.error)):
            is_mask = "mask" in str(path[0])
            for other in ("bool", "float32") if is_mask else ("float32",) if kind == "int64" else ("int64",):
                if other != kind:
                    yield replaced(kwargs, path, typed(value, other))


def of_growth(kwargs: Kwargs, refusal: Refusal, attempt: Callable[[Kwargs], Optional[Refusal]],
              further: list[Kwargs]) -> Iterator[Kwargs]:
    """One size such that two numbers of the message are the same: the message at twice the size tells how they grow.
    Where twice the size comes further, it is one of `further`.
    """
    if len({number for _, number in refusal.numbers() if number > 1}) < 2:  # 0 and 1 are numbers of axes
        return
    for path, value in latest_first(kwargs, refusal):
        for axis in reversed(range(1, len(value.shape))):
            size = value.shape[axis]
            sized = partial(with_size, kwargs, path, value, axis)
            for twice in sized(2 * size):
                other = attempt(twice)
                if other is None or other.came > refusal.came:
                    further.append(twice)
                elif other.words() == refusal.words():
                    for right in equal_at(size, refusal.numbers(), other.numbers()):
                        if len(value.shape) == 3 and right < value.shape[3 - axis] < size:  # rows where waves are taken
                            yield from with_tensor(kwargs, path, reshaped(value, swapped(value.shape, axis, right)))
                        yield from sized(right)


def with_size(kwargs: Kwargs, path: Path, value: Any, axis: int, size: int) -> Iterator[Kwargs]:
    """The arguments with another size of one axis."""
    yield from with_tensor(kwargs, path, reshaped(value, (*value.shape[:axis], size, *value.shape[axis + 1:])))


def swapped(shape: Sequence[int], axis: int, size: int) -> list[int]:
    """Of three axes, the second and the third in the other order, with this size in the place of that of one."""
    return [shape[0], *((size, shape[1]) if axis == 1 else (shape[2], size))]


def equal_at(size: int, numbers: Sequence[tuple[int, int]], at_twice: Sequence[tuple[int, int]]) -> list[int]:
    """The sizes at which two numbers of a message, not of one shape, are equal that grow evenly with a size; first of
    those that stand together.
    """
    found: list[tuple[int, int]] = []
    for ((place, one), (_, one_at_twice)), ((other_place, other), (_, other_at_twice)) in \
            itertools.combinations(zip(numbers, at_twice), 2):
        apart = one - other
        nearer = apart - (one_at_twice - other_at_twice)
        if place != other_place and apart and nearer and apart * size % nearer == 0:
            right = size + apart * size // nearer
            if 1 < right < _LONGEST:  # a 1 in a message is the number of an axis
                found.append((other_place - place, right))
    return list(dict.fromkeys(right for _, right in sorted(found)))[:MOST_EQUAL]


def of_sizes(kwargs: Kwargs, refusal: Refusal) -> Iterator[Kwargs]:
    """One size that the message names for another one that it names, in one tensor, or in all that have it there."""
    named = sorted((size for size in refusal.sizes() if 0 < size < _WIDEST), key=lambda size: size == 1)
    given = latest_first(kwargs, refusal)
    pairs = [(wrong, right) for wrong in named for right in named if wrong != right]
    product = re.search(r"(\d+)\D+(\d+)\W+(?:X|and)\W+(\d+)", str(refusal.error))  # "2x3 and 4x5": of 4, not of 3
    if product is not None:
        pairs.insert(0, (int(product[2]), int(product[3])))
    short = re.search(r"index (\d+) is out of bounds for dimension \d+ with size (\d+)", str(refusal.error))
    if short is not None:
        pairs = [(int(short[2]), int(short[1]) + 1)]
    for wrong, right in pairs:
        everywhere = kwargs
        for path, value in given:
            axes = [axis for axis in reversed(range(1, len(value.shape))) if value.shape[axis] == wrong]
            for changed in (axes, *([axis] for axis in axes if len(axes) > 1)) if axes else ():
                shape = [right if axis in changed else size for axis, size in enumerate(value.shape)]
                yield from with_tensor(kwargs, path, reshaped(value, shape))
            new = reshaped(value, [right if axis in axes else size for axis, size in enumerate(value.shape)])
            everywhere = everywhere if new is None or not axes else replaced(everywhere, path, new)
        if everywhere is not kwargs:
            yield everywhere
    for step in named if "divisible" in str(refusal.error) or "multiple" in str(refusal.error) else ():
        for path, value in given:
            whole = (*value.shape[:2], *(-(-size // step) * step for size in value.shape[2:]))
            if whole != tuple(value.shape) and step > 1:
                yield from with_tensor(kwargs, path, reshaped(value, whole))


def of_lists(kwargs: Kwargs, refusal: Refusal) -> Iterator[Kwargs]:
    """Lists of samples as one list of a whole batch; longer ones where an index was too high."""
    for name, value in kwargs.items():
        if isinstance(value, list) and value and isinstance(value[0], Input):
            yield {**kwargs, name: [Input((len(value), *value[0].shape), value[0].dtype, value[0].high)]}
            if isinstance(refusal.error, IndexError):
                yield {**kwargs, name: value * _LONGER}


def of_other_forms(kwargs: Kwargs, refusal: Refusal, forms: Forms) -> Iterator[Kwargs]:
    """Another form, with another number of axes, of what the refusal is about and nothing tells the form of."""
    for path, value in latest_first(kwargs):
        if is_about(refusal, path, value) and forms.is_guess(path[0]):
            axes = len(value.shape)
            for shape in sorted(forms.shapes(), key=lambda shape: abs(len(shape) - axes)):
                if len(shape) != axes:
                    yield from with_tensor(kwargs, path, reshaped(value, shape))


def without_one(model: Any, kwargs: Kwargs) -> Iterator[Kwargs]:
    """Without an argument that has a default."""
    parameters = inspect.signature(model.forward).parameters
    for name in reversed(kwargs):
        if name in parameters and parameters[name].default is not inspect.Parameter.empty and \
                any(True for _ in tensors(kwargs[name])):
            yield {key: value for key, value in kwargs.items() if key != name}
