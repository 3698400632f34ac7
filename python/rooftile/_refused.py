"""Which layer refuses what a model is given, and the size that it takes instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ._input import Input


class LayerWatch:
    """Within it, follows which modules run; `inside` is the innermost one that an error left, with what it took."""

    def __init__(self, root: Any) -> None:
        self._root = type(root)
        self.entered = 0  # modules
        self._running: list[tuple[Any, Any]] = []
        self._handles: list[Any] = []

    def __enter__(self) -> LayerWatch:
        from torch.nn.modules import module as modules

        def enter(module: Any, given: Any) -> None:
            if type(module) is self._root:  # another try
                self._running.clear()
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


def fitted(given: Mapping[str, Any], refusal: Optional[tuple[Any, Any]]) -> Optional[dict[str, Any]]:
    """The arguments with one size changed to what the layer takes; None where that is not plain."""
    if refusal is None or refusal[1] is None:
        return None
    layer, shape = refusal
    floats = {name: value for name, value in given.items() if isinstance(value, Input) and value.dtype == "float32"}
    patches = as_patches(layer, shape)
    if patches is not None:
        names = [name for name, value in floats.items() if value.shape == shape]
        return {**given, names[0]: Input(patches)} if len(names) == 1 else None
    sizes = size_taken(layer, shape)
    if sizes is None or sizes[0] == sizes[1]:
        return None
    wrong, right, place = sizes
    for name in reversed(floats):  # what was added to the plain arguments stands last
        old = floats[name].shape
        axes = [axis for axis, size in enumerate(old) if axis > 0 and size == wrong]
        likely = [axis for axis in axes if axis == place % len(old)]
        if likely or len(axes) == 1:
            axis = (likely or axes)[0]
            break
    else:
        return None
    alike = [value for value in floats.values() if len(value.shape) == len(old) and value.shape[axis] == right]
    if alike:  # one that goes with another argument
        return {**given, name: alike[0]}
    return {**given, name: Input((*old[:axis], right, *old[axis + 1:]))}


def size_taken(layer: Any, shape: tuple[int, ...]) -> Optional[tuple[int, int, int]]:
    """The size that it was given, the one that it takes, and along which axis."""
    axes = spatial_axes(layer)
    if axes is not None:
        batched = len(shape) == axes + 2
        return (shape[1], layer.in_channels, 1) if batched else None
    wide = getattr(layer, "in_features", None) or (getattr(layer, "normalized_shape", None) or (None,))[-1]
    return (shape[-1], wide, -1) if isinstance(wide, int) and shape else None


def as_patches(layer: Any, shape: tuple[int, ...]) -> Optional[tuple[int, ...]]:
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
