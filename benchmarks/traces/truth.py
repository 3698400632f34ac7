#!/usr/bin/env python3
"""Compares `rooftile check --format json` on traces with a computation of its own.

    benchmarks/traces/truth.py FOLDER_OR_FILE... [--rooftile PROGRAM]

Reads the raw JSON with Python's json module and computes, for the busiest GPU, the span, the unions
of intervals (busy, compute, communication, copies), what of them is exposed, and over all GPUs the
number of kernels and the sum of their times. One line a file; exit 1 on a difference. Files that
are no traces must be refused by both.
"""

import argparse
import collections
import decimal
import gzip
import json
import pathlib
import subprocess
import sys

HOST = {"cpu_op", "operator", "user_annotation", "cuda_runtime", "cuda_driver", "runtime"}
KERNEL = {"kernel"}
COPY = {"gpu_memcpy", "gpu_memset", "memcpy", "memset"}
COMMUNICATION = ("nccl", "rccl")
# Seconds; the events' own resolution is up to a microsecond, rounded once per event.
TOLERANCE = 2e-6


def events_of(path):
    """Complete events of a trace as dicts, None where the file is no trace."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    try:
        data = json.loads(raw.decode("utf-8", "replace"), strict=False,
                          parse_float=decimal.Decimal)
    except ValueError:
        return None
    if isinstance(data, dict):
        data = data.get("traceEvents")
    if not isinstance(data, list):
        return None
    events = [e for e in data if isinstance(e, dict)]
    if not any("ph" in e for e in events):
        return None
    return [e for e in events if e.get("ph") == "X"]


def interval(event):
    """Start and end in nanoseconds."""
    start = round(decimal.Decimal(event["ts"]) * 1000)
    return start, start + max(0, round(decimal.Decimal(event.get("dur", 0)) * 1000))


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > start:
            merged.append([start, end])
    return merged


def length(merged):
    return sum(end - start for start, end in merged)


def classify(event):
    category = str(event.get("cat", "")).lower()
    if category in KERNEL:
        name = str(event["name"]).lower()
        return "communication" if any(w in name for w in COMMUNICATION) else "compute"
    return "copy" if category in COPY else "host" if category in HOST else None


def is_host_of_old_trace(event):
    """Traces of the profiler before Kineto have no categories."""
    return "cat" not in event and "functions" in str(event.get("pid", "")).lower()


def truth(events):
    """The figures by their names in the report, in seconds."""
    by_device = collections.defaultdict(lambda: collections.defaultdict(list))
    extent, kernels, kernel_time = [], 0, 0
    for event in events:
        kind = "host" if is_host_of_old_trace(event) else classify(event)
        if kind is None or "ts" not in event:
            continue
        span = interval(event)
        extent.append(span)
        if kind == "host":
            continue
        device = event.get("args", {}).get("device", event.get("pid"))
        by_device[str(device)][kind].append(span)
        if kind != "copy":
            kernels += 1
            kernel_time += span[1] - span[0]
    if not extent:
        return None
    start, end = min(s for s, _ in extent), max(e for _, e in extent)

    def joined(device, *kinds):
        return union([span for kind in kinds for span in by_device[device][kind]])

    busiest = max(list(by_device), default=None,
                  key=lambda d: length(joined(d, "compute", "communication", "copy")))
    busy, compute, communication, copy, working = (
        length(joined(busiest, *kinds)) if busiest is not None else 0
        for kinds in (("compute", "communication", "copy"), ("compute",), ("communication",),
                      ("copy",), ("compute", "communication")))
    nanoseconds = {
        "span_s": end - start, "gpu_busy_s": busy, "compute_s": compute,
        "communication_s": communication, "exposed_communication_s": working - compute,
        "copy_s": copy, "idle_s": end - start - busy, "kernels.sum_s": kernel_time}
    figures = {name: value * 1e-9 for name, value in nanoseconds.items()}
    figures["kernels.count"] = kernels
    return figures


def timelines_in(report):
    """The report's timelines, one per rank, wherever it keeps them."""
    found = report.get("timeline")
    return found if isinstance(found, list) else [found] if found else []


def reported(program, path):
    """The same figures out of a report; None where the file is refused."""
    done = subprocess.run([program, "check", "--format", "json", str(path)], capture_output=True,
                          text=True, timeout=600)
    if done.returncode == 2:
        return None
    report = json.loads(done.stdout)
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


def differences(expected, found):
    for name, value in expected.items():
        other = found.get(name)
        if other is None or abs(other - value) > TOLERANCE + 1e-6 * abs(value):
            yield f"{name} {value:.9g}, reported {other}"


def compare(program, path):
    """A line about the file, and whether all is well."""
    events = events_of(path)
    expected = truth(events) if events is not None else None
    try:
        found = reported(program, path)
    except (ValueError, KeyError) as error:
        return f"{path.name}: {error!r}", False
    if expected is None or found is None:
        same = expected is None and found is None
        return f"{path.name}: {'refused' if found is None else 'read'}" + (
            "" if same else ", unlike here"), same
    wrong = list(differences(expected, found))
    if wrong:
        return f"{path.name}: " + "; ".join(wrong), False
    return (f"{path.name}: equal, busy {expected['gpu_busy_s'] * 1e3:.3f} of "
            f"{expected['span_s'] * 1e3:.3f} ms, {expected['kernels.count']} kernels"), True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--rooftile", default="./rooftile")
    arguments = parser.parse_args()
    files = []
    for path in arguments.paths:
        files += sorted(p for p in path.iterdir() if ".json" in p.name or p.suffix == ".gz") \
            if path.is_dir() else [path]
    all_well = True
    for path in files:
        line, well = compare(arguments.rooftile, path)
        all_well &= well
        print(("" if well else "DIFFERENT ") + line, flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
