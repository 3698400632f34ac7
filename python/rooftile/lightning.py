"""A callback for Lightning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional, Union

try:
    from lightning.pytorch import Callback as _Callback
except ModuleNotFoundError as _error:
    if _error.name != "lightning":
        raise
    from pytorch_lightning import Callback as _Callback

from ._profile import profile


class Callback(_Callback):  # type: ignore[misc, unused-ignore]
    """Records a few training batches, and prints the report after training::

        Trainer(callbacks=[rooftile.lightning.Callback(steps=10)])

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
        super().__init__()
        self._options: dict[str, Any] = {"steps": steps, "gpu": gpu, "folder": folder, "script": script}
        self.profile: Optional[profile] = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begins to count batches."""
        self.profile = profile(by_hand=True, **self._options)
        self.profile.__enter__()

    def on_train_batch_end(self, *_args: Any, **_kwargs: Any) -> None:
        """A batch is a step, also where several of them make one step of the optimizer."""
        if self.profile is not None:
            self.profile.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Prints what was found."""
        if self.profile is not None:
            self.profile.finish(sys.stderr)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Keeps what was recorded."""
        if self.profile is not None:
            self.profile.close()
