"""``python -m rooftile``: the program, but ``run``, which is Python."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Becomes the program; ``run`` starts a script with the recorder."""
    if sys.argv[1:2] == ["run"]:
        from ._run import main as run

        run(sys.argv[2:])
    from ._error import Error
    from ._program import find_program

    try:
        program = find_program()
    except Error as error:
        sys.exit(f"rooftile: {error}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
