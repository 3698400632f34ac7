"""The last lines of a report, where it was not the command line that asked for it."""

from __future__ import annotations

import re
from typing import Optional


def with_next_step(text: str, verbose: str, operations: Optional[str] = None) -> str:
    """The report with the words that show its hidden findings here, and all operations: the program names its own
    options and the file that it read, which may be gone.
    """
    def words(line: re.Match[str]) -> str:
        changed = re.sub(r"--verbose\s+shows", lambda _: f"{verbose} shows", line[0])  # perhaps on two lines
        return changed if operations is None else re.sub("rooftile ops .*", operations, changed)

    return re.sub(r"(?m)^Next: .*$(?:\n.+$)*", words, text)
