"""``rooftile run``: a script as it is, with the recorder attached."""

from __future__ import annotations

import builtins
import os
import re
import runpy
import signal
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NoReturn, Optional

from ._profile import profile, tell
from ._ranks import rank

USAGE = """\
Runs a training script with the recorder attached, and says what limits it.
Usage: rooftile run [OPTIONS] SCRIPT.py ARGUMENTS…
       rooftile run [OPTIONS] -m MODULE ARGUMENTS…
       torchrun --nproc-per-node 8 -m rooftile run [OPTIONS] SCRIPT.py ARGUMENTS…

  --steps N        steps to record (default: 10), after four that are not
  --gpu NAME       target GPU (default: the one that the trace names); without CUDA its times are predicted
  --stop           ends the script when the steps are recorded, with exit code 0
  -o, --output DIR folder for traces and report (default: rooftile_runs/SCRIPT-TIME)
  -h, --help       this text

The script is not edited, its arguments, output and exit code are its own. A step ends with the step of its first
optimizer. The report goes to standard error.
"""


@dataclass
class Options:
    """What stands before the script, the script, and what stands after."""

    steps: int = 10
    gpu: str = "auto"
    output: Optional[str] = None
    stop: bool = False
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
        if word == "--stop":
            options.stop = True
            continue
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
            options.gpu = value
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


def module_file(name: str) -> Optional[Path]:
    """The file of a module that ``-m`` runs, without importing the packages around it."""
    parts = name.split(".")
    for folder in ("", *sys.path[1:]):
        place = Path(folder, *parts)
        for path in (place.with_suffix(".py"), place / "__main__.py"):
            if path.is_file():
                return path
    return None


def run_target(options: Options) -> None:
    """As Python runs it: __main__, sys.argv and sys.path are those of the script."""
    sys.argv = [options.target, *options.arguments]
    if options.module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(options.target, run_name="__main__", alter_sys=True)
        return
    path = str(Path(options.target).absolute())
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
    found = module_file(options.target) if options.module else Path(options.target)
    script = None if found is None else found.absolute()
    recording = profile(options.steps, gpu=options.gpu, folder=options.output, script=script)
    recording.when_done(stop if options.stop else tell_when)
    ended_well = terminated = False
    raise_when_terminated()
    with recording:
        try:
            run_target(options)
            ended_well = True
        except Terminated:
            terminated = True
        except (SystemExit, KeyboardInterrupt) as end:
            ended_well = isinstance(end, SystemExit) and not end.code
            raise
        except BaseException as error:
            show_exception(error, str(script))
            sys.exit(1)
        finally:
            recording.finish(sys.stderr, ended_well)
    if terminated:
        os.kill(os.getpid(), signal.SIGTERM)
    sys.exit(0)


class Terminated(SystemExit):
    """SIGTERM came."""


def raise_when_terminated() -> None:
    """SIGTERM, with which schedulers end jobs, leaves what was recorded as Ctrl-C does; a second one ends at once.
    Where the script sets a handler, that one counts.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    own = os.getpid()

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() == own:
            raise Terminated(128 + number)
        os.kill(os.getpid(), number)  # a process that the script forked ends as without the recorder

    signal.signal(signal.SIGTERM, end)


def stop() -> NoReturn:
    """Ends the script as sys.exit() does."""
    sys.exit(0)


def tell_when() -> None:
    """For scripts that go on for hours."""
    if rank() == 0:
        tell("all steps are recorded; the report follows when the script ends, also by Ctrl-C or SIGTERM", sys.stderr)
