#!/usr/bin/env python3
"""Compares Rooftile's figures of traces with the tables of HTA and TraceLens.

    benchmarks/traces/agree.py TRACE_OR_FOLDER... --python VENV [--rooftile PROGRAM]
        [--tools hta tracelens] [--together] [--summary]

VENV: see other_tools.py. For each trace and tool: quantity, theirs, ours, ratio, and a verdict. A
difference is explained by the rules of agree_rules.py that lead from our definition to theirs, if
the raw events give exactly their figure by them; else it is UNEXPLAINED and the exit code is 1, as
it is where ours is not what the raw events give. --together: the traces are the ranks of one job,
and HTA loads them all at once. --summary: in the end a table over all traces.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import agree_rules
import raw_trace
import truth

# Microseconds, of sums of thousands of doubles; per cent for the overlap.
EXACT, RELATIVE = 0.005, 1e-8
STEPS_KNOWN = ("none", "profiler_step")  # others are not found anew from the raw events


def events_of(path):
    """All events, metadata and flows included, of a trace in object form; None for others."""
    data = raw_trace.load(path)
    events = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(events, list):
        return None
    return [e for e in events if isinstance(e, dict)]


def our_figures(program, path):
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / "one.summary"
        if truth.run(program, "summarize", path, "-o", written) is None:
            return None
        summary = json.loads(written.read_text(errors="replace"))
    whole = {name: value * 1e6 for name, value in summary["whole"].items() if name.endswith("_s")
             and isinstance(value, (int, float))}
    values = {"span": whole["span_s"], "busy": whole["gpu_busy_s"], "idle": whole["idle_s"],
              "compute": whole["compute_s"],
              "not compute": whole["gpu_busy_s"] - whole["compute_s"],
              "communication": whole["communication_s"],
              "exposed communication": whole["exposed_communication_s"],
              "copies": whole["copy_s"], "exposed copies": whole["exposed_copy_s"]}
    if values["communication"] > 0:
        hidden = values["communication"] - values["exposed communication"]
        values["overlap"] = 100 * hidden / values["communication"]
    if summary["steps"]["source"] in STEPS_KNOWN:
        values["launches"] = summary["launches"]
    sums = truth.sums_of_summary(summary)
    if truth.OTHER not in sums:
        values["names"] = {name: time * 1e6 for name, (_, time) in sums.items()}
    return values


def their_tables(options, tool, paths):
    """One object of figures per trace; None where the tool fails."""
    python = pathlib.Path(options.python) / "bin" / "python"
    script = pathlib.Path(__file__).with_name("other_tools.py")
    with tempfile.TemporaryDirectory() as folder:
        tables = pathlib.Path(folder) / "tables.json"
        done = subprocess.run(
            [python, script, tool, *paths, "--tables", tables], capture_output=True, text=True,
            errors="replace", env={**os.environ, "PYTHONWARNINGS": "ignore"})
        if done.returncode != 0 or not tables.exists():
            return None, (done.stderr.strip().splitlines() or ["failed"])[-1]
        return json.loads(tables.read_text()), ""


def same(a, b):
    if isinstance(a, dict):
        return all(same(a.get(name, 0), b.get(name, 0)) for name in {*a, *b})
    return abs(a - b) <= EXACT + RELATIVE * abs(b)


def total(value):
    return sum(value.values()) if isinstance(value, dict) else value


def verdict(quantity, theirs, by_rules):
    """"equal", or the keys of the rules that lead from the first figure to theirs, or None."""
    if quantity == "overlap":  # printed so
        by_rules = [(key, None if value is None else round(value, 2)) for key, value in by_rules]
    (_, value), *rules = by_rules
    if same(theirs, value):
        return "equal"
    keys = []
    for key, after in rules:
        if after is None:
            return None
        if not same(after, value):
            keys.append(key)
        value = after
    return ", ".join(keys) if keys and same(theirs, value) else None


def steps_to(tool, events):
    """Figures by our definition, then after each of the tool's rules; per quantity."""
    state = agree_rules.our_state(events)
    steps = {quantity: [("ours", value)]
             for quantity, value in agree_rules.figures(state).items()}
    for rule in agree_rules.RULES[tool]:
        state = rule.change(state, events)
        values = agree_rules.figures(state)
        for quantity in steps:
            steps[quantity].append((rule.key, values.get(quantity)))
    return steps


def compare(tool, ours, theirs, events):
    """Rows of quantity, theirs, ours, verdict, for what is not zero in both."""
    steps = steps_to(tool, events)
    for quantity, value in theirs.items():
        mine = ours.get(quantity)
        if value is None or mine is None or quantity not in steps:
            continue
        if not total(value) and not total(mine):
            continue
        raw = steps[quantity][0][1]
        if not same(mine, raw):
            yield quantity, value, mine, f"OURS is not the raw events' {total(raw):.3f}"
            continue
        yield quantity, value, mine, verdict(quantity, value, steps[quantity]) or "UNEXPLAINED"


def print_row(quantity, theirs, ours, text):
    a, b = total(theirs), total(ours)
    if isinstance(theirs, dict):
        quantity = f"{len(theirs)}/{len(ours)} kernel names"
    print(f"  {quantity:24} {a:16.3f} {b:16.3f} {f'{a / b:.4f}' if b else '-':>8}  {text}",
          flush=True)


def is_wrong(text):
    return text.startswith(("UNEXPLAINED", "OURS"))


def print_summary(found):
    print("\n| tool | quantity | traces | equal | different, by reason |\n|---|---|---|---|---|")
    for (tool, quantity), verdicts in found.items():
        counts = collections.Counter(verdicts)
        equal = counts.pop("equal", 0)
        reasons = "; ".join(f"{n}: {text}" for text, n in counts.most_common())
        print(f"| {tool} | {quantity} | {len(verdicts)} | {equal} | {reasons or '-'} |")
    for key in sorted({key for verdicts in found.values() for text in verdicts
                       for key in text.split(", ") if key in agree_rules.REASONS}):
        print(f"- *{key}*: {agree_rules.REASONS[key]}.")


def reason_for_none(tool, events):
    """The rule after which no activity is left, where there is one."""
    state = agree_rules.our_state(events)
    for rule in agree_rules.RULES[tool]:
        state = rule.change(state, events)
        if not state.activities:
            return f"nothing to show by its rules: {rule.key}"
    return "the tool failed"


def compare_files(options, tool, files, found):
    """Prints a table per trace; the verdicts go to `found` by tool and quantity."""
    at_once = options.together and tool == "hta"
    all_tables, problem = their_tables(options, tool, files) if at_once else (None, "")
    for i, path in enumerate(files):
        events, ours = events_of(path), our_figures(options.rooftile, path)
        if not events or ours is None or not ours["busy"]:
            continue
        if at_once:
            table = all_tables and all_tables[i]
        else:
            tables, problem = their_tables(options, tool, [path])
            table = tables and tables[0]
        print(f"{path.name}, {tool}")
        if table is None:
            print(f"  {problem}\n  {reason_for_none(tool, events)}")
        for row in compare(tool, ours, table, events) if table else ():
            print_row(*row)
            found[tool, row[0]].append(row[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--rooftile", default="./rooftile")
    parser.add_argument("--tools", nargs="+", default=["hta", "tracelens"])
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    files = []
    for path in options.paths:
        files += sorted(p for p in path.iterdir() if ".json" in p.name) if path.is_dir() else [path]
    found = collections.defaultdict(list)
    for tool in options.tools:
        compare_files(options, tool, files, found)
    if options.summary:
        print_summary(found)
    return int(any(is_wrong(text) for verdicts in found.values() for text in verdicts))


if __name__ == "__main__":
    sys.exit(main())
