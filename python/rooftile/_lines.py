"""Lines of the program, as a report names them."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from types import CodeType, FrameType
from typing import Optional

_PACKAGE = Path(__file__).resolve().parent.as_posix() + "/"
_WRAPPERS = ("/contextlib.py", "/functools.py")
_LIBRARY: dict[CodeType, bool] = {}  # code object -> whether it is of torch or of this package


def _is_library(code: CodeType) -> bool:
    known = _LIBRARY.get(code)
    if known is None:
        path = code.co_filename.replace("\\", "/")
        of_torch = "/torch/" in path and "site-packages" in path
        known = of_torch or path.startswith((_PACKAGE, "<")) or path.endswith(_WRAPPERS)
        _LIBRARY[code] = known
    return known


def _short(path: str) -> str:
    """As an import or a caller would name it."""
    path = path.replace("\\", "/")
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in path:
            return path.rpartition(folder)[2]
    here = Path.cwd().as_posix().rstrip("/") + "/"
    return path[len(here):] if path.startswith(here) else path


def own_line(code: CodeType, line: int) -> str:
    """A line of the program or of a library other than torch, as "file.py:7"; empty for one of torch."""
    return "" if _is_library(code) else f"{_short(code.co_filename)}:{line}"


def line_of_caller(up_to: Collection[CodeType] = ()) -> str:
    """The innermost such line that is running, below the functions of `up_to`; empty where there is none."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code not in up_to:
        found = own_line(frame.f_code, frame.f_lineno)
        if found:
            return found
        frame = frame.f_back
    return ""
