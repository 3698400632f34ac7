"""Records a training step or an inference pass of a PyTorch module, without a GPU.

How a capture is made:

1. `step` copies the module into fake tensors, which have shapes and no memory, and runs the pass.
   `values` keeps those values that no weight decides: lengths, masks. Where the pass needs others
   (`.item()` of a loss) it runs once more on real CPU tensors.
2. `recorder` writes down every ATen operator as the dispatcher sees it, with the module and the
   source line around it, and each allocation and release. `refusals` refuses what PyTorch's
   shape functions take and its operators do not, and says where an error came from.
3. `whole` and `autocast` make the CPU pass take the operators that a GPU takes: fused attention
   and dropout, one cuDNN operator for an LSTM, CUDA's list of casts. `device` reads "cuda" as the
   device of the recording.
4. `optimizers` describes the optimizer's step by its class and flags; it is never run.
5. `writer` writes a profiler trace without times, which `rooftile check` reads.

Only the modules behind `capture` import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional

from .._input import Input

if TYPE_CHECKING:
    from .writer import Capture

__all__ = ["Capture", "CaptureError", "Input", "capture"]


class CaptureError(RuntimeError):
    """The pass could not be recorded; the message says why."""


def capture(
    model: Any,
    inputs: Any,
    *,
    mode: str = "inference",
    dtype: Optional[str] = None,
    loss: Optional[Callable[[Any], Any]] = None,
    optimizer: Any = None,
    kwargs: Optional[Mapping[str, Any]] = None,
) -> Capture:
    """Records one pass of `model` over `inputs` and returns a `Capture`.

    inputs     a tensor or `Input`, or a tuple (positional) or dict (by name) of them, nested as
               the module takes them; meta and fake tensors are shapes.
    mode       "inference": eval(), without gradients. "train": train(), loss, backward pass and
               the optimizer's step.
    dtype      None: as the module is. "bf16" or "fp16": in training under torch.autocast, in
               inference converted to it. "fp32": converted to it.
    loss       takes the module's output and returns a scalar; without one the output's `.loss`
               is taken, else the sum of all floating-point outputs.
    optimizer  an optimizer, its class or its name ("adamw"); AdamW where none is given.
    kwargs     arguments by name, as in `inputs`, added to them.
    """
    from .step import capture_step

    return capture_step(model, inputs, mode, dtype, loss, optimizer, kwargs)


def __getattr__(name: str) -> Any:
    if name == "Capture":
        from .writer import Capture

        return Capture
    raise AttributeError(name)
