#!/usr/bin/env python3
"""Times reading a trace against a bare scan of it, in one run, taking turns.

Usage: compare.py TRACE... [OPTIONS]

For each trace: `rooftile_trace_scan` (zlib and simdjson) and `rooftile_trace_read`, with --check
also `rooftile check`; the best time of each, peak memory, and the ratios. --python FOLDER is a
virtual environment with other tools to compare with: see other_tools.py. --together compares
`rooftile check` of all traces in one call with that of the first.
"""

import argparse
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def measure(command):
    """Wall seconds, peak MiB, processor seconds and output of a process; None when it failed."""
    out_read, out_write = os.pipe()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.dup2(out_write, 1)
        os.close(out_read)
        os.execvp(command[0], command)
    os.close(out_write)
    with os.fdopen(out_read, errors="replace") as pipe:
        output = pipe.read()
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) > 1:  # 1: findings
        return None
    return seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, output


def competitors(options, trace):
    build = pathlib.Path(options.build)
    if options.together:
        check = [str(build / "rooftile"), "check"]
        return {"one": [*check, trace], "all": [*check, *options.traces]}
    commands = {}
    if not options.no_scan:
        commands["scan"] = [build / "rooftile_trace_scan", trace]
    commands["read"] = [build / "rooftile_trace_read", trace]
    if options.check:
        commands["check"] = [build / "rooftile", "check", trace]
    if options.python:
        python = pathlib.Path(options.python) / "bin" / "python"
        others = pathlib.Path(__file__).with_name("other_tools.py")
        for tool in options.tools:
            commands[tool] = [python, others, tool, trace]
    return {name: [str(part) for part in command] for name, command in commands.items()}


def compare(options, trace):
    best = {}
    commands = competitors(options, trace)
    for _ in range(options.rounds):
        for name, command in commands.items():
            result = measure(command)
            if result is None:
                print(f"{name}: failed", file=sys.stderr)
            elif name not in best or result[0] < best[name][0]:
                best[name] = result
    print(f"{trace} ({os.path.getsize(trace) / 1e6:.1f} MB)")
    base = best.get("scan") or best.get("read") or best.get("one")
    for name, (seconds, peak, processor, output) in best.items():
        rows = re.search(r"(?:events|rows) (\d+)", output)
        count = f"{int(rows[1]):>10} rows" if rows else " " * 15
        print(f"  {name:10} {seconds:8.3f} s {seconds / base[0]:7.2f} x"
              f"   processor {processor:8.3f} s {peak:8.0f} MiB {count}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-scan", action="store_true",
                        help="the scan needs the whole text in memory")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--python", help="virtual environment with the other tools")
    parser.add_argument("--tools", nargs="+", default=["hta", "tracelens"])
    options = parser.parse_args()
    for trace in options.traces[:1] if options.together else options.traces:
        compare(options, trace)


if __name__ == "__main__":
    main()
