"""Recording a loop of the user's own."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Optional, Union

from ._commands import check
from ._recorder import Recorder, main_script
from ._report import Report

FOLDER = "rooftile_runs"


class profile:  # noqa: N801  used as torch.profiler.profile is
    """Records a few steps of a training loop, and checks what was recorded together with the script::

        with rooftile.profile(steps=10) as p:
            for x, y in loader:
                ...
                optimizer.step()   # ends a step; or p.step(), which then counts alone
        p.report                   # shown in a notebook; print(p.report) elsewhere

    steps: how many to record; four go before them, to time the loop alone and to warm up.
    gpu: of which the report speaks; ``"auto"`` is the one that the trace names.
    folder: for the trace; ``rooftile_runs/<time>`` unless given.
    script: to check with the trace; the running script unless given, where that is a file.

    The program's results do not change, and an exception passes through: what was recorded before is kept. On a
    machine without CUDA the trace shows the CPU's work, and what is said of a GPU is predicted.
    """

    def __init__(
        self,
        steps: int = 10,
        *,
        gpu: str = "auto",
        folder: Union[str, Path, None] = None,
        script: Union[str, Path, None] = None,
    ) -> None:
        place = Path(folder) if folder is not None else Path(FOLDER) / time.strftime("%Y%m%d-%H%M%S")
        self._recorder = Recorder(place / "rank0.json.gz", steps)
        self._gpu = None if gpu == "auto" else gpu
        self._script = Path(script) if script is not None else main_script()
        self._report: Optional[Report] = None

    def __enter__(self) -> profile:
        self._recorder.follow_optimizers()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        where: Optional[TracebackType],
    ) -> None:
        self._recorder.close()

    def step(self) -> None:
        """Ends a step. Without a call, each step of the first optimizer does."""
        self._recorder.step()

    def close(self) -> None:
        """Ends recording, as the end of the block does."""
        self._recorder.close()

    @property
    def done(self) -> bool:
        """Whether all steps are recorded."""
        return self._recorder.recorded >= self._recorder.steps

    @property
    def trace(self) -> Optional[Path]:
        """The trace, gzip'd JSON; None before it is written."""
        return self._recorder.trace

    @property
    def overhead(self) -> Optional[float]:
        """How many times as long a recorded step took as one before; None where too few steps ran."""
        return self._recorder.overhead

    def summary(self) -> str:
        """How many steps were recorded, where, and what that cost."""
        return self._recorder.summary()

    @property
    def report(self) -> Report:
        """The report on trace and script, made when first asked for.

        Raises `rooftile.Error` where nothing was recorded.
        """
        if self._report is None:
            trace = self._recorder.require_trace()
            files = [str(trace), *([str(self._script)] if self._script is not None else [])]
            self._report = check(files, gpu=self._gpu)
        return self._report
