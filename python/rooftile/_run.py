"""``rooftile run``: a script as it is, with the recorder attached."""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.util
import os
import re
import runpy
import subprocess
import sys
import time
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Callable, NoReturn, Optional

from ._error import Error
from ._profile import FOLDER
from ._program import find_program
from ._recorder import Recorder

USAGE = """\
Runs a training script with the recorder attached, and says what limits it.
Usage: rooftile run [OPTIONS] SCRIPT.py ARGUMENTS…
       rooftile run [OPTIONS] -m MODULE ARGUMENTS…
       torchrun --nproc-per-node 8 -m rooftile run [OPTIONS] SCRIPT.py ARGUMENTS…

  --steps N        steps to record (default: 10), after four that are not
  --gpu NAME       target GPU (default: the one that the trace names)
  -o, --output DIR folder for traces and report (default: rooftile_runs/SCRIPT-TIME)
  -h, --help       this text

The script is not edited, its arguments, output and exit code are its own. A step ends with the step of its first
optimizer. The report goes to standard error.
"""
LOADED_LAST = "torch.optim.optimizer"
RANK_PATIENCE_S = 60.0


@dataclass
class Options:
    """What stands before the script, the script, and what stands after."""

    steps: int = 10
    gpu: Optional[str] = None
    output: Optional[str] = None
    module: bool = False
    target: str = ""
    arguments: tuple[str, ...] = ()


class UsageError(Exception):
    """Wrong words after ``rooftile run``."""


def parse(words: Sequence[str]) -> Options:
    """Options up to the script; the script's own arguments are not looked at."""
    options, rest = Options(), list(words)
    while rest and rest[0].startswith("-") and not options.target:
        word, value = rest.pop(0), ""
        if word.startswith("--") and "=" in word:
            word, value = word.split("=", 1)
        elif not rest:
            raise UsageError(f"{word} needs a value")
        else:
            value = rest.pop(0)
        if word == "--steps":
            if not re.fullmatch("[1-9][0-9]*", value):
                raise UsageError(f"--steps: expected a whole number from 1, found '{value}'")
            options.steps = int(value)
        elif word == "--gpu":
            options.gpu = None if value == "auto" else value
        elif word in ("-o", "--output"):
            options.output = value
        elif word == "-m":
            options.module, options.target = True, value
        else:
            raise UsageError(f"{word} is not an option of run; those of the script come after it")
    if not options.target:
        if not rest:
            raise UsageError("the script is missing")
        options.target = rest.pop(0)
    options.arguments = tuple(rest)
    return options


# ---- ranks


def number(*names: str) -> Optional[int]:
    """The first of these variables that is a number."""
    for name in names:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def rank() -> int:
    return number("RANK", "SLURM_PROCID") or 0


def ranks() -> int:
    return number("WORLD_SIZE", "SLURM_NTASKS") or 1


def run_folder(options: Options) -> Path:
    """One folder for all ranks of a job, another one for each job."""
    if options.output is not None:
        return Path(options.output)
    stem = options.target if options.module else Path(options.target).stem
    if ranks() == 1:
        job = time.strftime("%Y%m%d-%H%M%S")
    elif number("LOCAL_WORLD_SIZE") == ranks():  # one launcher started them all
        job = f"job{os.getppid()}"
    else:
        names = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_PORT")
        job = "job" + "-".join(os.environ[name] for name in names if name in os.environ)
    return Path(FOLDER) / f"{stem}-{job}"


def traces_of(folder: Path, count: int, patience_s: float = RANK_PATIENCE_S) -> list[Path]:
    """Traces of all ranks; those of other machines may never come."""
    wanted = [folder / f"rank{index}.json.gz" for index in range(count)]
    end = time.monotonic() + patience_s
    while time.monotonic() < end and not all(path.exists() for path in wanted):
        time.sleep(0.1)
    return [path for path in wanted if path.exists()]


# ---- attaching


class WhenLoaded(importlib.abc.MetaPathFinder):
    """Calls back once a module has been loaded; importing it early could change what the script does."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name, self._callback = name, callback

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[types.ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Only for the module: the usual spec, whose loader calls back."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute, callback = spec.loader.exec_module, self._callback

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                callback()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def attach(recorder: Recorder) -> None:
    """Follows optimizers as soon as torch has them."""
    if LOADED_LAST in sys.modules:
        recorder.follow_optimizers()
    else:
        sys.meta_path.insert(0, WhenLoaded(LOADED_LAST, recorder.follow_optimizers))


# ---- the script


def run_target(options: Options) -> None:
    """As Python runs it: __main__, sys.argv and sys.path are those of the script."""
    sys.argv = [options.target, *options.arguments]
    if options.module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(options.target, run_name="__main__", alter_sys=True)
        return
    path = options.target
    sys.path[0] = str(Path(path).resolve().parent)
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins, __loader__=SourceFileLoader("__main__", path))
    sys.modules["__main__"] = main
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def show_exception(error: BaseException, script: str) -> None:
    """The traceback as Python prints it: from the script on."""
    where = error.__traceback__
    while where is not None and where.tb_frame.f_code.co_filename != script:
        where = where.tb_next
    where = where or error.__traceback__
    sys.excepthook(type(error), error.with_traceback(where), where)


def tell(text: str) -> None:
    for line in text.splitlines():
        print(f"rooftile: {line}", file=sys.stderr)
    sys.stderr.flush()


def report(options: Options, recorder: Recorder, script: Optional[Path]) -> None:
    """What was recorded and what it shows: of the first rank only, for all."""
    if rank() != 0:
        return
    tell(recorder.summary())
    if recorder.trace is None:
        return
    traces = traces_of(recorder.path.parent, ranks())
    if len(traces) < ranks():
        tell(f"traces of {len(traces)} of {ranks()} ranks are there")
    files = [str(file) for file in (*traces, *([script] if script else []))]
    gpu = [] if options.gpu is None else [f"--gpu={options.gpu}"]
    try:
        done = subprocess.run([find_program(), "check", *files, *gpu], stdout=subprocess.PIPE, check=False)
    except Error as error:
        tell(str(error))
        return
    text = done.stdout.decode("utf-8", errors="replace")
    sys.stderr.write(text)
    (recorder.path.parent / "report.txt").write_text(text, encoding="utf-8")


def main(words: Sequence[str]) -> NoReturn:
    """Runs the script, reports, and ends as the script does."""
    if words and words[0] in ("-h", "--help"):
        print(USAGE, end="")
        sys.exit(0)
    try:
        options = parse(words)
        if not options.module and not Path(options.target).is_file():
            raise UsageError(f"{options.target}: No such file")
    except UsageError as error:
        print(f"rooftile: {error}\n\n{USAGE}", end="", file=sys.stderr)
        sys.exit(2)
    recorder = Recorder((run_folder(options) / f"rank{rank()}.json.gz").absolute(), options.steps)
    recorder.path.unlink(missing_ok=True)
    script = None if options.module else Path(options.target).absolute()  # the script may change the folder
    attach(recorder)
    try:
        run_target(options)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        show_exception(error, options.target)
        sys.exit(1)
    finally:
        recorder.close()
        report(options, recorder, script)
    sys.exit(0)
