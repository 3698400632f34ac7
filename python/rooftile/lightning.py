"""A callback for Lightning."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback as _Callback
except ModuleNotFoundError as _error:
    if _error.name != "lightning":
        raise
    from pytorch_lightning import Callback as _Callback

from ._callback import Recording


class Callback(Recording, _Callback):  # type: ignore[misc, unused-ignore]
    """Records a few training batches, and prints the report after training::

        Trainer(callbacks=[rooftile.lightning.Callback(steps=10)])

    Arguments as of `rooftile.profile`: steps, gpu, folder, script. With several processes each records its own
    trace, and the first one reports on all that it can see. ``profile`` holds the recording, with ``trace`` and
    ``report``.
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begins to count batches."""
        self._begin()

    def on_train_batch_end(self, *_args: Any, **_kwargs: Any) -> None:
        """A batch is a step, also where several of them make one step of the optimizer."""
        self._step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Prints what was found."""
        self._report()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Keeps what was recorded."""
        self._keep()
