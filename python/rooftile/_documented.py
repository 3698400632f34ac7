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
        annotation = annotation_of(self._model, name)
        form = self._by_name(name, annotation)
        return listed(form) if isinstance(form, Input) and re.match(r"list\[[\w.]*tensor", annotation, re.I) else form

    def size(self, name: str) -> Optional[int]:
        """A size by its name; None where nothing tells it."""
        return self._size_of(name)

    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of what is known, and of masks of a picture or a video."""
        found = [tuple(form.shape) for form in self._known.values() if isinstance(form, Input) and form.shape]
        found += [(shape[0], 1, *shape[at:]) for shape in found for at in range(2, len(shape) - 1)]
        return list(dict.fromkeys([*found, *((shape[0],) for shape in found)]))

    def is_guess(self, name: str) -> bool:
        """Whether neither its name is known nor its form documented."""
        return self._known.get(name) is None and self._documented(name) is None

    def _by_name(self, name: str, annotation: str) -> Any:
        """The form of one that has the name in its own, or of all that are named so."""
        batch = self._size_of("batch") or 1
        rows, width = self._size_of("seq_len") or 1, self._size_of("hidden_dim") or 1
        if re.search(r"pooled|global|vector", name):
            return Input((batch, width))
        held = [other for other, form in self._known.items() if other in name and form is not None and "_" in other]
        if held:
            return self._known[max(held, key=len)]
        if re.match(r"bool\b", annotation):
            return False
        if re.match(r"(int|float)\b", annotation):
            return self._size_of(name) or 1
        if re.match(r"dict\b", annotation, re.IGNORECASE):
            return {}
        if annotation and not re.search("tensor", annotation, re.IGNORECASE):
            return None
        sample = next((form for form in self._known.values() if isinstance(form, Input) and len(form.shape) > 3), None)
        if re.search(r"_ids?$|ind(ex|ices)|^ids$", name) or "Long" in annotation or "Int" in annotation:
            return Input((batch, rows), "int64")
        if "mask" in name:
            is_of_words = sample is None or re.search("attention|text|token|encoder|prompt|hidden", name) is not None
            return Input((batch, rows), "bool") if is_of_words or sample is None else \
                Input((batch, 1, *sample.shape[2:]))
        if re.search(r"time|sigma|scale|guidance|seconds|^t$", name):
            return Input((batch,))
        if re.search(r"resolution|size|crop|coord", name):
            return Input((batch, 2))
        if re.search(r"ratio|score", name):
            return Input((batch, 1))
        if sample is not None and re.search(r"latent|noise|sample|image|video|pixel|^x$", name) and "embed" not in name:
            return sample
        return Input((batch, rows, width))

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


def listed(form: Input) -> list[Input]:
    """A batch as a list of its samples."""
    return [Input(form.shape[1:], form.dtype, form.high)] * form.shape[0] if form.shape else [form]


def annotation_of(model: Any, name: str) -> str:
    """The annotation of an argument as text, without the ways to say that it may be left out."""
    argument = inspect.signature(model.forward).parameters.get(name)
    if argument is None or argument.annotation is inspect.Parameter.empty:
        return ""
    kind = argument.annotation
    text = kind.__name__ if inspect.isclass(kind) and not hasattr(kind, "__args__") else str(kind)
    return re.sub(r"torch\.|typing\.|Optional\[|Union\[", "", text)


def with_channels(known: Any, documented: Optional[tuple[str, list[str]]]) -> Any:
    """Sound with an axis for its one channel, where the documentation has one more than what is known."""
    if not isinstance(known, Input) or len(known.shape) != 2 or documented is None or len(documented[1]) != 3:
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


def optional_arguments(model: Any) -> list[str]:
    """Names of arguments that have a default and may be tensors or whole numbers, by their annotations."""
    parameters = inspect.signature(model.forward).parameters.values()
    return [argument.name for argument in parameters
            if argument.default in (None, ()) and re.search(r"Tensor|\bint\b", str(argument.annotation))
            and not re.search(r"list|tuple|dict", str(argument.annotation), re.IGNORECASE)]
