"""A callback for the Trainer of transformers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional, Union

from transformers import TrainerCallback

from ._profile import profile


class Callback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Records a few steps of the Trainer, and prints the report after training::

        Trainer(..., callbacks=[rooftile.transformers.Callback(steps=10)])

    steps, gpu, folder, script: as `rooftile.profile` takes them. With several processes each records its own trace,
    and the first one reports on all that it can see. ``profile`` holds the recording, with ``trace`` and ``report``.
    """

    def __init__(
        self,
        steps: int = 10,
        *,
        gpu: str = "auto",
        folder: Union[str, Path, None] = None,
        script: Union[str, Path, None] = None,
    ) -> None:
        self._options: dict[str, Any] = {"steps": steps, "gpu": gpu, "folder": folder, "script": script}
        self.profile: Optional[profile] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins to count steps."""
        self.profile = profile(by_hand=True, **self._options)
        self.profile.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step of the optimizer, with all batches that it gathers."""
        if self.profile is not None:
            self.profile.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints what was found."""
        if self.profile is not None:
            self.profile.finish(sys.stderr)
