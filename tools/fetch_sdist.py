#!/usr/bin/env python3
"""Fetches source archives from the package index that pip is configured for, and runs nothing of them.

Usage: fetch_sdist.py FOLDER NAME==VERSION:SHA256 ...

pip itself has no such command: `pip download` runs the build backend of a source archive before
anybody can look at the archive. Here pip's finder names the file, and the bytes are compared with
the hash before they get a name. Exit 1: not found, or other bytes; nothing is left behind.
"""

import hashlib
import pathlib
import sys

from pip._internal.commands import create_command


def fetch(finder, session, folder, name, version, expected):
    """Writes one archive; returns its path."""
    for candidate in finder.find_all_candidates(name):
        link = candidate.link
        if link.is_wheel or str(candidate.version) != version:
            continue
        response = session.get(link.url_without_fragment, headers={"Accept-Encoding": "identity"})
        response.raise_for_status()
        found = hashlib.sha256(response.content).hexdigest()
        if found != expected:
            sys.exit(f"{link.filename}: expected SHA-256 {expected}, found {found}")
        path = folder / link.filename
        path.write_bytes(response.content)
        return path
    sys.exit(f"{name} {version}: the package index has no source archive of it")


def main():
    folder = pathlib.Path(sys.argv[1])
    command = create_command("download")
    options, _ = command.parse_args(["--no-binary", ":all:", "--quiet"])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options=options, session=session)
        for wanted in sys.argv[2:]:
            requirement, expected = wanted.split(":")
            name, version = requirement.split("==")
            print(fetch(finder, session, folder, name, version, expected))


if __name__ == "__main__":
    main()
