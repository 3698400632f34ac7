#!/usr/bin/env python3
"""Compares `rooftile check` and `rooftile summarize` on traces with a computation of its own.

    benchmarks/traces/truth.py FOLDER_OR_FILE... [--rooftile PROGRAM]

Computes from the raw events (Kineto: raw_trace.py; Nsight Systems: SQL in raw_export.py), for the
busiest GPU, the span, the unions of intervals (busy, compute, communication, copies), what of them
is exposed, and over all GPUs the number of kernels, the sum of their times and both for each kernel
name. One line a file; exit 1 on a difference. Files that are no traces must be refused by both.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import raw_export
import raw_trace

# Seconds; both sides add whole nanoseconds, so only the sums of doubles differ.
TOLERANCE = 1e-9
OTHER = "other"  # the program's row for kernels beyond those it lists


def truth_of_trace(path):
    """The figures by their names in the report, in seconds, and the sums by kernel name."""
    events = raw_trace.events_of(path)
    recording = raw_trace.recording(events) if events is not None else None
    if recording is None:
        return None
    activities, (start, end) = recording
    one = raw_trace.on_busiest_device(activities)
    busy, compute, communication, kernels, copy = (
        raw_trace.busy_time(one, *kinds)
        for kinds in ((), ("compute",), ("communication",), ("compute", "communication"),
                      ("copy", "fill")))
    sums = raw_trace.kernel_sums(activities)
    nanoseconds = {
        "span_s": end - start, "gpu_busy_s": busy, "compute_s": compute,
        "communication_s": communication, "exposed_communication_s": kernels - compute,
        "copy_s": copy, "exposed_copy_s": busy - kernels, "idle_s": end - start - busy,
        "kernels.sum_s": sum(time for _, time in sums.values())}
    figures = {name: value * 1e-9 for name, value in nanoseconds.items()}
    figures["kernels.count"] = sum(count for count, _ in sums.values())
    return figures, {name: (count, time * 1e-9) for name, (count, time) in sums.items()}


def timelines_in(report):
    """The report's timelines, one per rank, wherever it keeps them."""
    found = report.get("timeline")
    return found if isinstance(found, list) else [found] if found else []


def figures_of_report(text):
    """The same figures out of `check --format json`."""
    report = json.loads(text)
    timelines = timelines_in(report)
    if len(timelines) != 1:
        raise ValueError(f"{len(timelines)} timelines in the report")
    timeline = timelines[0]
    figures = {name: timeline[name] for name in timeline if name.endswith("_s")}
    kernels = timeline.get("kernels") or report.get("kernels") or {}
    figures.update({f"kernels.{name}": kernels[name] for name in ("count", "sum_s")})
    causes = timeline["idle_by_cause"].values()
    if abs(sum(causes) - timeline["idle_s"]) > TOLERANCE:
        raise ValueError("the causes do not add up to idle_s")
    return figures


def sums_of_summary(summary):
    """Count and seconds by kernel name, over all operators and kernels without one."""
    sums = collections.defaultdict(lambda: [0, 0.0])
    for kernel in [k for op in summary["ops"] for k in op["kernels"]] + summary["orphans"]:
        sums[kernel["name"]][0] += kernel["count"]
        sums[kernel["name"]][1] += kernel["time_s"]
    if summary["leftover_kernels"]:  # launched before the trace began: in no table
        sums[OTHER][0] += summary["leftover_kernels"]
        sums[OTHER][1] += summary["leftover_time_s"]
    return {name: tuple(both) for name, both in sums.items()}


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=600)
    # A trace that cannot be judged ends with 2 as well, but has a report.
    return None if done.returncode == 2 and not done.stdout else done.stdout


def reported(program, path):
    """Figures and sums by kernel name; None where the file is refused."""
    report = run(program, "check", "--format", "json", path)
    if report is None:
        return None
    figures = figures_of_report(report)
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / "one.summary"
        if run(program, "summarize", path, "-o", written) is None:
            raise ValueError("check reads what summarize refuses")
        text = written.read_text(errors="replace")
        summary, _ = json.JSONDecoder().raw_decode(text)  # of several processes the first
    figures["exposed_copy_s"] = summary["whole"]["exposed_copy_s"]
    return figures, sums_of_summary(summary)


def differs(value, other):
    return abs(other - value) > TOLERANCE + 1e-12 * abs(value)


def different_figures(expected, found):
    for name, value in expected.items():
        other = found.get(name)
        if other is None or differs(value, other):
            yield f"{name} {value:.9g}, reported {other}"


def different_sums(expected, found):
    """Kernel names whose count or time differ; where the program bounded its lists, lack more than
    it put into the row for others."""
    rest_count, rest_time = found.get(OTHER, (0, 0)) if OTHER not in expected else (0, 0)
    for name in [n for n in found if n not in expected and n != OTHER]:
        yield f"kernel {name[:60]!r} is not in the file"
    for name, (count, time) in expected.items():
        has_count, has_time = found.get(name, (0, 0))
        rest_count -= count - has_count
        rest_time -= time - has_time
        if OTHER not in found and (has_count != count or differs(time, has_time)):
            yield f"kernel {name[:60]!r} {count} x {time:.9g}, reported {has_count} x {has_time}"
    if OTHER in found and (rest_count != 0 or differs(0, rest_time)):
        yield f"kernels by name and others miss {-rest_count} x {-rest_time:.9g}"


def truth_and_report(program, path):
    if not raw_export.is_export(path):
        return truth_of_trace(path), reported(program, path)
    with raw_export.unpacked(path) as export:
        return raw_export.truth_of_export(export), reported(program, export)


def compare(program, path):
    """A line about the file, and whether all is well."""
    try:
        expected, found = truth_and_report(program, path)
    except (ValueError, KeyError) as error:
        return f"{path.name}: {error!r}", False
    if expected is None or found is None:
        same = expected is None and found is None
        return f"{path.name}: {'refused' if found is None else 'read'}" + (
            "" if same else ", unlike here"), same
    wrong = [*different_figures(expected[0], found[0]), *different_sums(expected[1], found[1])]
    if wrong:
        return f"{path.name}: " + "; ".join(wrong), False
    figures = expected[0]
    return (f"{path.name}: equal, busy {figures['gpu_busy_s'] * 1e3:.3f} of "
            f"{figures['span_s'] * 1e3:.3f} ms, {figures['kernels.count']} kernels of "
            f"{len(expected[1])} names" + (", some as others" if OTHER in found[1] else "")), True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--rooftile", default="./rooftile")
    arguments = parser.parse_args()
    files = []
    for path in arguments.paths:
        files += (sorted(p for p in path.iterdir() if p.suffix != ".tsv") if path.is_dir()
                  else [path])
    all_well = True
    for path in files:
        line, well = compare(arguments.rooftile, path)
        all_well &= well
        print(("" if well else "DIFFERENT ") + line, flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
