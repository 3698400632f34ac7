"""Rooftile finds what limits a neural network on an NVIDIA GPU and what to change.

The functions run the program that is installed with this package; it needs no GPU. Importing takes no time:
nothing is loaded before it is used, and torch only when something of torch is handed over.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers read it; importing typing would take longer than all the rest

if TYPE_CHECKING:
    from typing import Any

    from ._commands import check as check
    from ._commands import compare as compare
    from ._commands import sweep as sweep
    from ._error import Error as Error
    from ._input import Input as Input
    from ._profile import profile as profile
    from ._report import Report as Report
    from ._schemas import Comparison as Comparison
    from ._schemas import Finding as Finding
    from ._schemas import Operation as Operation
    from ._schemas import Range as Range
    from ._schemas import Sweep as Sweep
    from ._table import Table as Table

_PLACES = {
    "check": "_commands",
    "compare": "_commands",
    "sweep": "_commands",
    "Error": "_error",
    "Input": "_input",
    "profile": "_profile",
    "Report": "_report",
    "Comparison": "_schemas",
    "Finding": "_schemas",
    "Operation": "_schemas",
    "Range": "_schemas",
    "Sweep": "_schemas",
    "Table": "_table",
}

__all__ = [
    "Comparison",
    "Error",
    "Finding",
    "Input",
    "Operation",
    "Range",
    "Report",
    "Sweep",
    "Table",
    "check",
    "compare",
    "profile",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
