"""What the callbacks of training libraries share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional, Union

from ._profile import profile


class Recording:
    """Records a few steps of a training that a library runs, and prints the report after it.

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

    def _begin(self) -> None:
        self.profile = profile(by_hand=True, **self._options)
        self.profile.__enter__()

    def _step(self) -> None:
        if self.profile is not None:
            self.profile.step()

    def _keep(self) -> None:
        if self.profile is not None:
            self.profile.close()

    def _report(self) -> None:
        if self.profile is not None:
            self.profile.finish(sys.stderr)
