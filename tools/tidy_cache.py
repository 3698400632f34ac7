"""clang-tidy on the project's sources; a file whose text, headers and checks are unchanged since it
was clean is not read again. The memory is one empty file per clean state, in build/tidy.
"""

import functools
import hashlib
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLEAN = ROOT / "build" / "tidy"
INCLUDE = re.compile(r'^\s*#\s*include\s*"(rooftile/[^"]+)"', re.MULTILINE)


@functools.lru_cache(maxsize=None)
def own_headers(path):
    """The project's headers that a file includes, directly or not, with the file itself."""
    found, waiting = set(), [path]
    while waiting:
        current = waiting.pop()
        if current in found or not current.exists():
            continue
        found.add(current)
        for name in INCLUDE.findall(current.read_text(encoding="utf-8")):
            waiting.append(ROOT / "src" / name)
    return sorted(found)


def state_of(entry):
    """Hash of all that clang-tidy's answer depends on, but for the system's headers."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update(entry["command"].replace(str(ROOT), "").encode())
    for path in own_headers(pathlib.Path(entry["file"])):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def entries_of(build_folder):
    database = json.loads((build_folder / "compile_commands.json").read_text(encoding="utf-8"))
    prefixes = (str(ROOT / "src"), str(ROOT / "tests"))
    return [e for e in database if e["file"].startswith(prefixes)]


def jobs(build_folder):
    """Name -> function(run_logged) that gives (passed, failed, text); unchanged files take no time.

    Reads the compile database when it is called: build first.
    """
    CLEAN.mkdir(parents=True, exist_ok=True)
    result = {}
    entries = entries_of(build_folder)
    # The longest first, so that no core waits at the end.
    entries.sort(key=lambda e: -pathlib.Path(e["file"]).stat().st_size)
    for entry in entries:
        name = str(pathlib.Path(entry["file"]).relative_to(ROOT))
        result[f"tidy {name}"] = functools.partial(check_file, entry, name, build_folder)
    return result


def check_file(entry, name, build_folder, run_logged):
    mark = CLEAN / state_of(entry)
    if mark.exists():
        return 1, 0, ""
    status, output = run_logged(
        ["clang-tidy-14", "--quiet", "-p", str(build_folder), name],
        "tidy_" + name.replace("/", "_"), show=False)
    if status == 0:
        mark.touch()
        return 1, 0, ""
    lines = [l for l in output.splitlines() if not re.match(r"\d+ warnings? generated", l)]
    return 0, 1, "\n".join(lines[:40])
