"""Finds the program and runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from ._error import Error

# Names another program than the installed one, for work on Rooftile itself.
VARIABLE = "ROOFTILE_PROGRAM"
# Names the Python that the program starts.
PYTHON = "ROOFTILE_PYTHON"
FOUND_SOMETHING = 1


def candidates() -> Iterator[Path]:
    """Where an installation puts the program: with the package first, then beside this Python."""
    name = "rooftile" + (sysconfig.get_config_var("EXE") or "")
    package = Path(__file__).resolve().parent
    for scheme in ("", *(f"{os.name}_{kind}" for kind in ("user", "prefix"))):
        if scheme in ("", *sysconfig.get_scheme_names()):
            folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
            if folder:
                yield Path(folder) / name
    yield package.parent / "bin" / name  # pip install --target
    yield Path(sys.executable).parent / name


def find_program() -> str:
    """Path of the program. Raises Error where the package was installed without it."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise Error(f"{VARIABLE}={chosen} is not a program that can be run")
        return chosen
    for path in candidates():
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    on_path = shutil.which("rooftile")
    if on_path:
        return on_path
    raise Error("the program rooftile is not beside its Python package: install the package again")


def environment() -> dict[str, str]:
    """The program starts this Python where it needs one: its libraries are those of the caller."""
    return {PYTHON: sys.executable, **os.environ}


def run(arguments: Sequence[str]) -> str:
    """What the program prints for these arguments.

    Raises Error with the program's own line where it prints nothing but that.
    """
    done = subprocess.run(
        [find_program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment()
    )
    output = done.stdout.decode("utf-8", errors="replace")
    if done.returncode in (0, FOUND_SOMETHING) or output:  # "not judged" has an error's code and a report
        return output
    text = done.stderr.decode("utf-8", errors="replace").strip()
    if done.returncode < 0:
        text = text or f"the program was ended by signal {-done.returncode}"
    raise Error(in_python(text.removeprefix("rooftile: ")) or f"exit code {done.returncode}", done.returncode)


def in_python(text: str) -> str:
    """Flags of the command line as the keyword arguments that they come from."""
    text = text.replace("name the GPU with --gpu or describe it with --gpu-file", 'name it, gpu="h100" for example')
    text = re.sub(r"add --gpu (\w+)", r'add gpu="\1"', text)
    return re.sub(r"(?<![\w-])--(gpu|batch|seq|past|mode|dtype|select|ignore|baseline)\b(?!-)", r"\1", text)
