"""Recording a loop of the user's own."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Optional, TextIO, Union

from ._calls import save
from ._commands import check
from ._error import Error
from ._next_step import with_next_step
from ._program import environment, find_program
from ._ranks import from_here, job_folder, rank, ranks, trace_path, traces_of
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
    CUDA the modules that a step calls are captured too: where ``gpu`` names one, the report predicts its times from
    the capture and the script, and the trace of the CPU's work is kept beside them.
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
        self._captured: Optional[Path] = None
        self._why_not_captured = ""

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

    def when_done(self, action: Callable[[], None]) -> None:
        """What to call once all steps are recorded."""
        self._recorder.when_done = action

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
        """How many steps were recorded, where, and what that cost; without CUDA, what a GPU's times come from."""
        text = self._recorder.summary()
        if self._recorder.has_cuda or self._recorder.seen == 0:
            return text
        captured = self.capture()
        text += "\nthis machine has no CUDA"
        if self.trace is not None:
            text += ": the trace shows the CPU's work"
        if captured is None:
            why = f" ({self._why_not_captured})" if self._why_not_captured else ""
            return text + f"; a GPU's times cannot be predicted{why}"
        if self._gpu is not None:
            return text + f"; the times below are predicted for {self._gpu}, from {captured.name}"
        script = f" {shlex.quote(from_here(self._script))}" if self._script is not None else ""
        return text + f"; for times on a GPU:\n  rooftile check {shlex.quote(from_here(captured))}{script} --gpu h100"

    def capture(self) -> Optional[Path]:
        """Without CUDA, a file of the operations that a step's modules run, beside the trace; else None."""
        watch, self._recorder.watch = self._recorder.watch, None
        if watch is not None and rank() == 0:
            from ._capture import CaptureError

            try:
                captured = watch.capture()
                self._captured = None if captured is None else save(captured, self._folder)
                self._why_not_captured = "" if captured is not None else "no module was called with gradients"
            except CaptureError as error:
                self._why_not_captured = str(error)
            except Exception as error:  # any: it runs the program's code, and must not end the program
                self._why_not_captured = f"{type(error).__name__}: {error}"
        return self._captured

    def files(self) -> list[str]:
        """What the report is on: the traces of all ranks and the script; without CUDA, and with the name of a GPU,
        the captured modules in the place of traces.

        Raises `rooftile.Error` where this process recorded nothing.
        """
        script = [] if self._script is None else [from_here(self._script)]
        captured = self.capture()
        if captured is not None and self._gpu is not None:
            return [from_here(captured), *script]
        own = self._recorder.require_trace()
        traces = traces_of(self._folder, ranks()) if rank() == 0 else [own]
        return [*map(from_here, traces), *script]

    @property
    def report(self) -> Report:
        """The report on traces and script, made when first asked for.

        Raises `rooftile.Error` where nothing was recorded.
        """
        if self._report is None:
            self._report = check(self.files(), gpu=self._gpu)
        return self._report

    def finish(self, stream: TextIO, ended_well: bool = True) -> None:
        """Ends recording and prints the report as text: of the first rank only, for all.

        The text is also left beside the trace, as report.txt. Where nothing was recorded the script alone is
        checked, unless it ended by an error.
        """
        self.close()
        if rank() != 0:
            return
        stream.write("\n")  # a progress bar of the program may have left its line open
        if self._recorder.seen == 0 and not ended_well:
            tell("nothing was recorded: the program ended before its first step of training", stream)
            return
        tell(self.summary(), stream)
        try:
            text = self._text()
        except Error as error:
            if self.trace is not None:
                tell(str(error), stream)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "report.txt").write_text(text, encoding="utf-8")
        stream.write(text)
        stream.flush()

    def _text(self) -> str:
        """Of what was recorded, else of the script alone."""
        script = [] if self._script is None else [from_here(self._script)]
        nothing = self.trace is None and self.capture() is None
        files = script if nothing and script else self.files()
        gpu = [] if self._gpu is None else [f"--gpu={self._gpu}"]
        words: list[Any] = [find_program(), "check", *files, *gpu]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              env=environment())
        again = " ".join(["rooftile check", *map(shlex.quote, files), *gpu, "--verbose"])
        return with_next_step((done.stdout + done.stderr).decode("utf-8", errors="replace"), again)


def tell(text: str, stream: TextIO) -> None:
    """Lines of the recorder among those of the program."""
    for line in text.splitlines():
        print(f"rooftile: {line}", file=stream)
    stream.flush()
