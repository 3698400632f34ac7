"""The one exception of the package."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """The program could not do what was asked; the text is the program's own line.

    exit_code: of the program, 2 for bad input or usage; None where it was not started.
    """

    def __init__(self, message: str, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
