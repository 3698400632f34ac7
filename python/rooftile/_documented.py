"""Forms of arguments that are known by no name of their own: from the shapes that a model documents, and from names
that hold a known one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Callable, Optional

from ._input import Input


class Forms:
    """What a model may take, by the names of its arguments.

    known: forms by name. size_of: a size by the name that documentation has for it, None where it is not known.
    """

    def __init__(self, model: Any, known: Mapping[str, Any], size_of: Callable[[str], Optional[int]]) -> None:
        self._model, self._known, self._size_of = model, known, size_of

    def get(self, name: str) -> Any:
        """The form of an argument; None where nothing tells it."""
        known = self._known.get(name)
        if known is not None:
            return with_channels(known, documented_sizes(self._model, name))
        documented = self._documented(name)
        if documented is not None:
            return documented
        held = [other for other, form in self._known.items() if other in name and form is not None and "_" in other]
        if held:
            return self._known[max(held, key=len)]
        return self._known.get("inputs_embeds", self._known.get("encoder_hidden_states")) if \
            name.endswith("embeds") else None

    def _documented(self, name: str) -> Optional[Input]:
        sizes = documented_sizes(self._model, name)
        if sizes is None:
            return None
        shape = [self._product(size) for size in sizes[1]]
        if any(size is None for size in shape):
            return None
        whole = "Long" in sizes[0] or "Int" in sizes[0] or name.endswith("_ids")
        return Input(tuple(size for size in shape if size is not None), "int64" if whole else "float32")

    def _product(self, text: str) -> Optional[int]:
        product = 1
        for part in text.split("*"):
            word = part.strip().replace(" ", "_")
            size = int(word) if word.isdigit() else self._size_of(word)
            if size is None:
                return None
            product *= size
        return product


def with_channels(known: Any, documented: Optional[tuple[str, list[str]]]) -> Any:
    """Sound with an axis for its one channel, where the documentation has one more than what is known."""
    if not isinstance(known, Input) or documented is None or len(documented[1]) != len(known.shape) + 1:
        return known
    at = next((axis for axis, size in enumerate(documented[1]) if "channel" in size), None)
    return known if at is None else Input((*known.shape[:at], 1, *known.shape[at:]), known.dtype, known.high)


def documented_sizes(model: Any, name: str) -> Optional[tuple[str, list[str]]]:
    """Type and sizes of "`name` (`torch.LongTensor` of shape `(batch_size, sequence_length)`)"."""
    for text in (model.forward.__doc__, type(model).__doc__):
        found = re.search(rf"\b{name}\W*\(`?([\w.]*)`? of shape `\(([^()`]*)\)`", text or "")
        if found is not None:
            return found[1], [size for size in map(str.strip, found[2].split(",")) if size]
    return None


def optional_tensors(model: Any) -> list[str]:
    """Names of arguments that have a default and may be tensors, by their annotations."""
    parameters = inspect.signature(model.forward).parameters.values()
    return [argument.name for argument in parameters
            if argument.default is not inspect.Parameter.empty and "Tensor" in str(argument.annotation)
            and not re.search(r"list|tuple|dict", str(argument.annotation), re.IGNORECASE)]
