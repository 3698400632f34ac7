"""Recording a loop of the user's own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, TextIO, Union

from ._commands import check
from ._error import Error
from ._program import find_program
from ._ranks import job_folder, rank, ranks, trace_path, traces_of
from ._recorder import Recorder, main_script
from ._report import Report


class profile:  # noqa: N801  used as torch.profiler.profile is
    """Records a few steps of a training loop, and checks what was recorded together with the script::

        with rooftile.profile(steps=10) as p:
            for x, y in loader:
                ...
                optimizer.step()   # ends a step; or p.step(), which then counts alone
        p.report                   # shown in a notebook; print(p.report) elsewhere

    steps: how many to record; four go before them, to time the loop alone and to warm up.
    gpu: of which the report speaks; ``"auto"`` is the one that the trace names.
    folder: for traces and report; ``rooftile_runs/<script>-<time>`` unless given.
    script: to check with the trace; the running script unless given, where that is a file.
    by_hand: only `step` ends a step.

    The program's results do not change, and an exception passes through: what was recorded before is kept. Under
    torchrun each rank records its own trace; the report of the first rank is on all of them. On a machine without
    CUDA the trace shows the CPU's work, and what is said of a GPU is predicted.
    """

    def __init__(
        self,
        steps: int = 10,
        *,
        gpu: Optional[str] = "auto",
        folder: Union[str, Path, None] = None,
        script: Union[str, Path, None] = None,
        by_hand: bool = False,
    ) -> None:
        found = Path(script) if script is not None else main_script()
        self._script = None if found is None else found.absolute()  # the program may change the folder
        name = self._script.stem if self._script is not None else "python"
        self._folder = (Path(folder) if folder is not None else job_folder(name)).absolute()
        self._recorder = Recorder(trace_path(self._folder, rank()), steps)
        self._gpu = None if gpu == "auto" else gpu
        self._by_hand = by_hand
        self._report: Optional[Report] = None

    def __enter__(self) -> profile:
        self._recorder.path.unlink(missing_ok=True)
        if not self._by_hand:
            self._recorder.attach()
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
        """The trace of this process, gzip'd JSON; None before it is written."""
        return self._recorder.trace

    @property
    def overhead(self) -> Optional[float]:
        """How many times as long a recorded step took as one before; None where too few steps ran."""
        return self._recorder.overhead

    def summary(self) -> str:
        """How many steps were recorded, where, and what that cost."""
        return self._recorder.summary()

    def files(self) -> list[str]:
        """What the report is on: the traces of all ranks, and the script.

        Raises `rooftile.Error` where this process recorded nothing.
        """
        own = self._recorder.require_trace()
        traces = traces_of(self._folder, ranks()) if rank() == 0 else [own]
        return [str(file) for file in (*traces, *([self._script] if self._script is not None else []))]

    @property
    def report(self) -> Report:
        """The report on traces and script, made when first asked for.

        Raises `rooftile.Error` where nothing was recorded.
        """
        if self._report is None:
            self._report = check(self.files(), gpu=self._gpu)
        return self._report

    def finish(self, stream: TextIO) -> None:
        """Ends recording and prints the report as text: of the first rank only, for all.

        The text is also left beside the trace, as report.txt.
        """
        self.close()
        if rank() != 0:
            return
        tell(self.summary(), stream)
        if self.trace is None:
            return
        try:
            text = self._text()
        except Error as error:
            tell(str(error), stream)
            return
        (self._folder / "report.txt").write_text(text, encoding="utf-8")
        stream.write(text)
        stream.flush()

    def _text(self) -> str:
        gpu = [] if self._gpu is None else [f"--gpu={self._gpu}"]
        words: list[Any] = [find_program(), "check", *self.files(), *gpu]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return (done.stdout + done.stderr).decode("utf-8", errors="replace")


def tell(text: str, stream: TextIO) -> None:
    """Lines of the recorder among those of the program."""
    for line in text.splitlines():
        print(f"rooftile: {line}", file=stream)
    stream.flush()
