"""A callback for the Trainer of transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ._callback import Recording


class Callback(Recording, TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Records a few steps of the Trainer, and prints the report after training::

        Trainer(..., callbacks=[rooftile.transformers.Callback(steps=10)])

    Arguments as of `rooftile.profile`: steps, gpu, folder, script. With several processes each records its own
    trace, and the first one reports on all that it can see. ``profile`` holds the recording, with ``trace`` and
    ``report``.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins to count steps."""
        self._begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step of the optimizer, with all batches that it gathers."""
        self._step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints what was found."""
        self._report()
