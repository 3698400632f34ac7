"""What refuses a pass: types that PyTorch's operators do not take together, and where an error came from."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .._lines import own_line

_ATEN = torch.ops.aten
# Operators whose tensors have one type, by the positions of these. PyTorch's shape functions take any.
_ONE_TYPE: dict[Any, tuple[int, ...]] = {
    _ATEN.mm.default: (0, 1), _ATEN.bmm.default: (0, 1), _ATEN.mv.default: (0, 1), _ATEN.dot.default: (0, 1),
    _ATEN.addmm.default: (0, 1, 2), _ATEN.baddbmm.default: (0, 1, 2), _ATEN.addmv.default: (0, 1, 2),
    _ATEN.convolution.default: (0, 1, 2),
    _ATEN.index_put.default: (0, 2), _ATEN.index_put_.default: (0, 2),
    _ATEN.index_copy.default: (0, 3), _ATEN.index_copy_.default: (0, 3),
    _ATEN.index_add.default: (0, 3), _ATEN.index_add_.default: (0, 3),
    _ATEN.binary_cross_entropy.default: (0, 1),
}


def require_one_type(func: Any, args: Sequence[Any]) -> None:
    """Refuses what the operator refuses on real tensors, and its shape function does not."""
    positions = _ONE_TYPE.get(func)
    if positions is None:
        return
    tensors = [args[at] for at in positions if at < len(args) and isinstance(args[at], torch.Tensor)]
    types = list(dict.fromkeys(tensor.dtype for tensor in tensors))
    if len(types) > 1 and any(isinstance(tensor, FakeTensor) for tensor in tensors):
        found = " and ".join(str(dtype).replace("torch.", "") for dtype in types)
        raise RuntimeError(f"{func._schema.name.replace('aten::', '')} takes tensors of one type, found {found}")


def place_of(error: BaseException) -> str:
    """The innermost module that an error left and the last line that is not PyTorch's, as " in ..., at ..."."""
    module, name, line = None, "", ""
    names: dict[int, str] = {}
    for frame, number in traceback.walk_tb(error.__traceback__):
        line = own_line(frame.f_code, number) or line
        held = frame.f_locals.get("self")
        if not isinstance(held, torch.nn.Module):
            continue
        if module is None:
            names = {id(inner): path for path, inner in held.named_modules()}
        module, name = held, names.get(id(held), "")
    if module is None:
        return f" at {line}" if line else ""
    kind = type(module).__name__
    return f" in {f'{name} ({kind})' if name else kind}{f', at {line}' if line else ''}"


@contextlib.contextmanager
def without_logs() -> Iterator[None]:
    """PyTorch logs a traceback where a shape function refuses its arguments; the error itself is enough."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
