"""Records a few steps of a training loop with torch.profiler, and says what that cost.

Step 1 ends before anything is known of the loop. `BASELINE` steps are timed without the profiler, one warms it up,
and then the steps that were asked for are recorded; the trace is written as soon as they are done.
"""

from __future__ import annotations

import functools
import gc
import gzip
import importlib.abc
import importlib.util
import json
import os
import statistics
import sys
import time
import types
import weakref
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Callable, Optional

from ._calls import Watch
from ._error import Error
from ._ranks import FOLDER, from_here

BASELINE = 2
WARM_UP = 1
BEFORE = 1 + BASELINE + WARM_UP
# Steps of one program differ by more than this from one to the next.
NOISE = 1.05
# What the profiler itself has to tell goes to standard error, which is the script's.
QUIET = {"KINETO_LOG_LEVEL": "99"}


class WhenLoaded(importlib.abc.MetaPathFinder):
    """Calls back once a module has been loaded; importing it early could change what the script does."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name, self._callback = name, callback
        self._looking = False

    def remove(self) -> None:
        """Imports go on without it."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[types.ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Only for the module: the usual spec, whose loader calls back. Programs may ask for it and not load it."""
        if name != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            execute, callback = spec.loader.exec_module, self._callback

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                self.remove()
                callback()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class Recorder:
    """Counts steps, and records some of them.

    steps: how many to record.
    path: of the trace, ending in .json.gz; its folder is made when there is something to write.
    trace: the same path once it is written.
    seen: steps that ended.
    problem: why nothing was recorded, in words.
    watch: the modules that a step calls, where there is no GPU that could be recorded.
    when_done: called once all steps are recorded and written.
    """

    def __init__(self, path: Path, steps: int = 10) -> None:
        if steps < 1:
            raise ValueError(f"rooftile: steps are 1 or more, found {steps}")
        self.path, self.steps = path, steps
        self.trace: Optional[Path] = None
        self.problem: Optional[str] = None
        self.seen = self.recorded = 0
        self.has_cuda = False
        self.watch: Optional[Watch] = None
        self._process = os.getpid()
        self._profiler: Any = None
        self._ended = False
        self._last = 0.0
        self._plain: list[float] = []
        self._profiled: list[float] = []
        self._undo: list[Callable[[], None]] = []
        self._by_hand = self._in_wrapper = False
        self._backward_depth = 0
        self.when_done: Callable[[], None] = lambda: None
        self._main: Callable[[], Any] = lambda: None
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)

    # ---- where steps come from

    def attach(self) -> None:
        """Takes the end of an optimizer's step for the end of a step, as soon as torch is there."""
        if "torch" in sys.modules:
            self._follow()
        else:
            finder = WhenLoaded("torch", self._follow)
            sys.meta_path.insert(0, finder)
            self._undo.append(finder.remove)

    def _follow(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        handle = register_optimizer_step_post_hook(self._after_optimizer)
        self._undo.append(handle.remove)
        self._follow_backward()

    def _follow_backward(self) -> None:
        """Programs that change their weights by hand have no optimizer: backward() ends their steps."""
        import torch

        backward = torch.autograd.backward

        @functools.wraps(backward)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._backward_depth += 1  # checkpoints call it inside of another one
            try:
                result = backward(*args, **kwargs)
            finally:
                self._backward_depth -= 1
            if self._backward_depth == 0 and torch.autograd.backward is wrapped:
                self._after_backward(unwrap)
            return result

        def unwrap() -> None:
            if torch.autograd.backward is wrapped:
                torch.autograd.backward = backward

        torch.autograd.backward = wrapped
        self._undo.append(unwrap)

    def _after_backward(self, unwrap: Callable[[], None]) -> None:
        if self._ended or os.getpid() != self._process:
            return
        if self._by_hand or self._main() is not None or (self.seen == 0 and has_optimizer()):
            unwrap()
        else:
            self._end_of_step()

    def _after_optimizer(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._by_hand or self._ended or os.getpid() != self._process:
            return
        main = self._main()
        if main is None:
            self._main = weakref.ref(optimizer)
            self._end_of_step()
            self._wrap(optimizer)
        elif main is optimizer and not self._in_wrapper:
            self._end_of_step()

    def _wrap(self, optimizer: Any) -> None:
        """The hook runs inside the optimizer's own annotation; a step ends better after it."""
        step, was_own = optimizer.step, "step" in vars(optimizer)

        @functools.wraps(step)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._in_wrapper = True
            try:
                result = step(*args, **kwargs)
            finally:
                self._in_wrapper = False
            if not self._by_hand and not self._ended:
                self._end_of_step()
            return result

        def unwrap() -> None:
            if vars(optimizer).get("step") is not wrapped:
                return
            if was_own:
                optimizer.step = step
            else:
                del optimizer.step

        optimizer.step = wrapped
        self._undo.append(unwrap)

    def step(self) -> None:
        """The end of a step, said by the program; from now on optimizers do not count."""
        if not self._by_hand and self._main() is not None:
            self.seen -= 1  # this step's optimizer was taken for its end
        self._by_hand = True
        if not self._ended:
            self._end_of_step()

    # ---- recording

    def _end_of_step(self) -> None:
        now = time.perf_counter()
        self.seen += 1
        if self.seen > 1:
            recording = self.seen > 1 + BASELINE + WARM_UP
            if recording or self.seen <= 1 + BASELINE:
                (self._profiled if recording else self._plain).append(now - self._last)
        self._watch_modules()
        if self.seen == 1 + BASELINE:
            self._start()
        elif self._profiler is not None:
            self.recorded = max(0, self.seen - BEFORE)
            self._guard(self._profiler.step)
        if self.recorded >= self.steps:
            self.close()
            self.when_done()
        self._last = time.perf_counter()

    def _watch_modules(self) -> None:
        """Which modules a step calls is seen in the second step, and with what in the one that warms up."""
        if self.seen == 1:
            import torch

            self.has_cuda = torch.cuda.is_available()
            if not self.has_cuda:
                self.watch = Watch()
                self._undo.append(self.watch.close)
        if self.watch is not None:
            watch = self.watch
            begin = {1: watch.find, 1 + BASELINE: watch.take, BEFORE: watch.close}.get(self.seen)
            if begin is not None:
                watch.guard(begin)

    def _start(self) -> None:
        import torch

        kinds = torch.profiler.ProfilerActivity
        if torch.autograd._profiler_enabled():
            self._give_up("the program runs a profiler of its own")
            return
        self._profiler = torch.profiler.profile(
            activities=[kinds.CPU, *([kinds.CUDA] if self.has_cuda else [])],
            schedule=torch.profiler.schedule(wait=0, warmup=WARM_UP, active=self.steps, repeat=1),
            on_trace_ready=self._write,
            record_shapes=True,
            with_stack=True,
            profile_memory=self.has_cuda,  # of a CPU it tells nothing, and PyTorch warns
        )
        self._step_aside()
        self._guard(self._profiler.start)

    def _step_aside(self) -> None:
        """There can be one profiler only: where the program starts its own, this one ends."""
        import torch

        start = torch.profiler.profile.start

        def start_other(other: Any) -> Any:
            if other is not self._profiler and not self._ended:
                self._give_up("the program started a profiler of its own")
            return start(other)

        def undo() -> None:
            torch.profiler.profile.start = start

        torch.profiler.profile.start = start_other
        self._undo.append(undo)

    def _guard(self, action: Callable[[], Any]) -> None:
        """The program goes on, whatever the profiler meets."""
        try:
            action()
        except Exception as error:
            self._give_up(f"the profiler failed: {error}")

    def _give_up(self, problem: str) -> None:
        if self.trace is None:
            self.problem = problem
        self.close()

    def _write(self, profiler: Any) -> None:
        if self.recorded == 0:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name("partial-" + self.path.name)
        profiler.export_chrome_trace(str(partial))
        if self.recorded < self.steps:
            leave_out(partial, f"ProfilerStep#{profiler.step_num}")
        partial.replace(self.path)
        if self.path.parent.parent.name == FOLDER:
            (self.path.parent.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        self.trace = self.path

    def close(self) -> None:
        """Ends recording; what was recorded by now is written. Later calls do nothing."""
        if self._ended or os.getpid() != self._process:  # a forked child leaves the recording to its parent
            return
        self._ended = True
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            try:
                profiler.stop()
            except Exception as error:
                self.problem = self.problem or f"the profiler failed: {error}"
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    # ---- what came of it

    @property
    def overhead(self) -> Optional[float]:
        """How many times as long a recorded step took as one before; None where too few steps ran."""
        if not self._plain or not self._profiled:
            return None
        return statistics.median(self._profiled) / max(statistics.median(self._plain), 1e-9)

    def summary(self) -> str:
        """What was recorded and what that cost, or why nothing was."""
        if self.trace is None:
            return self.why_nothing()
        steps = f"{self.recorded} step" + ("" if self.recorded == 1 else "s")
        text = f"recorded {steps} in {from_here(self.trace)}"
        if self.overhead is not None:
            slower = f"made a step {self.overhead:.2g} times as long" if self.overhead >= NOISE else "cost no time"
            text += f"; recording {slower}"
        return text

    def why_nothing(self) -> str:
        """Why there is no trace."""
        if self.problem:
            return f"nothing was recorded: {self.problem}"
        if self.seen == 0:
            why = "no step of training was seen; call step() of rooftile.profile at the end of each"
            spent = os.times()
            if spent.children_user > spent.user:
                why = "no step of training was seen, and most work was done in processes that the program started; " \
                    "use rooftile.profile in the function that they run"
            return f"nothing was recorded: {why}"
        steps = f"{self.seen} step" + ("" if self.seen == 1 else "s")
        return f"nothing was recorded: the program made {steps}, and recording begins after {BEFORE}"

    def require_trace(self) -> Path:
        """The trace. Raises Error, with the reason, where there is none."""
        if self.trace is None:
            raise Error(self.why_nothing())
        return self.trace


def has_optimizer() -> bool:
    """Whether the program has made an optimizer; asked once."""
    from torch.optim import Optimizer

    return any(issubclass(type(found), Optimizer) for found in gc.get_objects())


def leave_out(path: Path, name: str) -> None:
    """Takes the events of a name out of a trace: a step that was begun and not ended is none."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        trace = json.load(file, strict=False)
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("name") != name]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(trace, file)


def main_script() -> Optional[Path]:
    """The script that runs, where it is a file and none of this package."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file or Path(file).suffix != ".py" or not Path(file).is_file():
        return None
    return None if Path(file).resolve().parent == Path(__file__).resolve().parent else Path(file)
