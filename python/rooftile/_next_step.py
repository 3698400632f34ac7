"""The last line of a report, where it was not the command line that asked for it."""

from __future__ import annotations

import re
from typing import Optional


def with_next_step(text: str, verbose: str, operations: Optional[str] = None) -> str:
    """The report with the words that show its hidden findings here, and all operations: the program names its own
    options and the file that it read, which may be gone.
    """
    def words(line: re.Match[str]) -> str:
        changed = line[0].replace("--verbose shows", f"{verbose} shows")
        return changed if operations is None else re.sub("rooftile ops .*", operations, changed)

    return re.sub("(?m)^Next: .*$", words, text)
