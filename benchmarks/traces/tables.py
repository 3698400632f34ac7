#!/usr/bin/env python3
"""Compares the tables of `rooftile ops --format json` with a computation of its own.

    benchmarks/traces/tables.py FOLDER_OR_FILE... [--rooftile PROGRAM] [--gpu NAME]

From the raw events of Kineto traces (raw_trace.py), for the busiest GPU: the GPU time of each module
and range with the backward pass of its operators, copies by direction and size, launch delay, queue
depth and short kernels; over all GPUs count, total and spread of each kernel name. The totals of all
operators must add up to the kernels' time. One line a file; exit 1 on a difference.
"""

import argparse
import bisect
import collections
import json
import pathlib
import subprocess
import sys

import raw_trace

TOLERANCE = 2e-9  # seconds; both sides add whole nanoseconds
EXACT_RUNS = 65   # the program keeps quantiles of more
SIZES = [0, 1 << 16, 1 << 20, 1 << 24, 1 << 28]
DIRECTIONS = {"HtoD": "host_to_device", "DtoH": "device_to_host", "DtoD": "device_to_device",
              "PtoP": "peer_to_peer"}
MODULE = "nn.Module: "


def quantile(values, part):
    values = sorted(values)
    place = part * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


class Nest:
    """Intervals of each thread with the one around each."""

    def __init__(self, intervals):  # (thread, start, end, what)
        self.rows = sorted(intervals, key=lambda row: (str(row[0]), row[1], -row[2]))
        self.parent = [None] * len(self.rows)
        self.starts = collections.defaultdict(list)
        self.index = collections.defaultdict(list)
        stack, thread = [], None
        for i, row in enumerate(self.rows):
            if row[0] != thread:
                stack, thread = [], row[0]
            while stack and self.rows[stack[-1]][2] <= row[1]:
                stack.pop()
            self.parent[i] = stack[-1] if stack else None
            stack.append(i)
            self.starts[thread].append(row[1])
            self.index[thread].append(i)

    def around(self, thread, at):
        """From inside to outside, the intervals that are open at a time."""
        place = bisect.bisect_right(self.starts[thread], at) - 1
        i = self.index[thread][place] if place >= 0 else None
        while i is not None:
            if self.rows[i][2] > at:
                yield i
            i = self.parent[i]


def thread_of(event):
    return event.get("pid"), event.get("tid")


def nest_of(events, wanted):
    return Nest([(thread_of(e), *raw_trace.interval(e), e) for e in events if wanted(e)])


def is_autograd(name):
    stem = name.rstrip("0123456789")
    return name.startswith(("autograd::", "torch::autograd::")) or (
        stem.endswith("Backward") and "::" not in stem)


def is_range(event):
    """Before 2021 ranges were operators."""
    category = raw_trace.category_of(event)
    starts = ("ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "## ")
    return category == "user_annotation" or (
        category == "operator" and str(event["name"]).startswith(starts))


def is_op(event):
    return raw_trace.category_of(event) in ("cpu_op", "operator")


class Trace:
    def __init__(self, path):
        events = raw_trace.events_of(path)
        found = raw_trace.recording(events)
        self.all, self.whole = found
        self.busy = sorted(raw_trace.on_busiest_device(self.all), key=lambda a: a.start)
        self.calls = {}
        for event in events:
            if raw_trace.category_of(event) in ("cuda_runtime", "cuda_driver", "runtime"):
                self.calls.setdefault(event.get("args", {}).get("correlation"), event)
        self.ops = nest_of(events, lambda e: is_op(e) or
                           raw_trace.category_of(e) == "user_annotation")
        self.modules = nest_of(events, lambda e: str(e.get("name")).startswith(MODULE))
        self.ranges = nest_of(events, lambda e: is_range(e) and
                              not str(e["name"]).startswith("ProfilerStep"))
        self.forward = collections.defaultdict(list)
        for i, row in enumerate(self.ops.rows):
            sequence = row[3].get("args", {}).get("Sequence number")
            if is_op(row[3]) and sequence is not None and not is_autograd(row[3]["name"]):
                self.forward[sequence].append((row[1], i))
        for rows in self.forward.values():
            rows.sort()

    def call_of(self, activity):
        return self.calls.get(activity.event.get("args", {}).get("correlation"))

    def is_backward(self, i):
        while i is not None:
            if is_op(self.ops.rows[i][3]) and is_autograd(self.ops.rows[i][3]["name"]):
                return True
            i = self.ops.parent[i]
        return False

    def forward_of(self, chain):
        """The forward operator of the nearest autograd node around a launch, and whether there is a
        node at all."""
        nodes = [self.ops.rows[i] for i in chain
                 if is_op(self.ops.rows[i][3]) and is_autograd(self.ops.rows[i][3]["name"])]
        for node in nodes:
            sequence = node[3].get("args", {}).get("Sequence number")
            if sequence is None:
                continue
            for start, i in reversed(self.forward.get(sequence, [])):
                if start < node[1] and not self.is_backward(i):
                    return self.ops.rows[i], True
            return None, True
        return None, bool(nodes)

    def points(self):
        """(activity, [(thread, time)], backward) of each activity with a known call."""
        for activity in self.busy:
            call = self.call_of(activity)
            if call is None:
                continue
            thread, at = thread_of(call), raw_trace.interval(call)[0]
            forward, backward = self.forward_of(list(self.ops.around(thread, at)))
            where = [(thread, at)]
            if forward is not None:
                if forward[0] != thread:
                    where.append((forward[0], at))
                where.append((forward[0], forward[1]))
            yield activity, where, backward

    def places(self, nest, name_of):
        names = {}
        for i in range(len(nest.rows)):
            names[i] = name_of(nest, i)
        sums = collections.defaultdict(lambda: [0, 0, 0])  # activities, time, backward
        for activity, where, backward in self.points():
            found = {names[i] for thread, at in where for i in nest.around(thread, at)}
            for name in found:
                sums[name][0] += 1
                sums[name][1] += activity.end - activity.start
                sums[name][2] += (activity.end - activity.start) * backward
        return sums


def module_path(nest, i):
    names = []
    while i is not None:
        names.append(nest.rows[i][3]["name"][len(MODULE):])
        i = nest.parent[i]
    return ".".join(reversed(names[:-1] if len(names) > 1 else names))


def plain_name(nest, i):
    return nest.rows[i][3]["name"]


def close(value, other, tolerance=TOLERANCE):
    return other is not None and abs(value - other) <= tolerance + 1e-9 * abs(value)


def check_places(sums, rows, what):
    """Paths of modules may be named alike: what is listed of one name adds up."""
    listed = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for row in rows:
        listed[row["name"]][0] += row["kernels"]
        listed[row["name"]][1] += row["gpu_time_s"]
        listed[row["name"]][2] += row["backward_time_s"]
    for name, (count, time, backward) in sums.items():
        has = listed.get(name, [0, 0.0, 0.0])
        if count != has[0] or not close(time * 1e-9, has[1]) or not close(backward * 1e-9, has[2]):
            yield f"{what} {name!r} {count} x {time * 1e-9:.9g} ({backward * 1e-9:.9g}), listed {has}"
    for name, has in listed.items():
        if has[0] and name not in sums:
            yield f"{what} {name!r} listed, but nothing is started in it"


def check_kernels(trace, rows):
    times = collections.defaultdict(list)
    for activity in trace.all:
        if activity.kind in ("compute", "communication"):
            times[activity.name].append((activity.end - activity.start) * 1e-9)
    listed = {row["name"]: row for row in rows}
    if "other" in listed:
        return
    for name, values in times.items():
        row = listed.get(name)
        if row is None or row["count"] != len(values) or not close(sum(values), row["total_s"]):
            yield f"kernel {name[:50]!r} {len(values)} x {sum(values):.9g}, listed {row}"
            continue
        exact = len(values) <= EXACT_RUNS
        for key, part in (("p10", 0.1), ("median", 0.5), ("p90", 0.9)):
            expected = quantile(values, part)
            # Between two of 65 quantiles lies a 64th of the runs.
            low, high = quantile(values, max(0, part - 1 / 32)), quantile(values, min(1, part + 1 / 32))
            has = row["time_s"][key]
            if not (close(expected, has) if exact else low - 1e-12 <= has <= high + 1e-12):
                yield f"kernel {name[:50]!r} {key} {expected:.9g}, listed {has:.9g}"


def check_copies(trace, rows):
    classes = collections.defaultdict(list)
    for activity in trace.busy:
        if activity.kind != "copy":
            continue
        size = int(activity.event.get("args", {}).get("bytes", 0))
        name = activity.name
        kind = next((full for short, full in DIRECTIONS.items() if short in name), "unknown")
        if size and activity.end > activity.start:
            key = kind, "ageable" in name, SIZES[bisect.bisect_right(SIZES, size) - 1]
            classes[key].append((size, (activity.end - activity.start) * 1e-9))
    listed = {(row["kind"], row["pageable"], row["at_least_bytes"]): row for row in rows}
    if set(listed) != set(classes):
        yield f"copies {sorted(classes)}, listed {sorted(listed)}"
        return
    for key, copies in classes.items():
        row = listed[key]
        median = quantile([size / time for size, time in copies], 0.5)
        if row["count"] != len(copies) or row["bytes"] != sum(size for size, _ in copies) or abs(
                row["bytes_per_s"]["median"] / median - 1) > 1e-6:
            yield f"copies {key}: {len(copies)}, median {median:.6g}, listed {row}"


def check_queue(trace, queue):
    begun, started, returns, seen = [], [], [], set()
    for activity in trace.busy:
        call = trace.call_of(activity)
        if call is None:
            continue
        start, end = raw_trace.interval(call)
        begun.append(start)
        started.append(activity.start)
        if id(call) not in seen:
            seen.add(id(call))
            returns.append((end, max(0, activity.start - end)))
    if not returns:
        if queue is not None:
            yield "no launch, but a queue is listed"
        return
    begun.sort()
    delays = [delay * 1e-9 for _, delay in returns]
    depth = [max(0, bisect.bisect_right(begun, at) - bisect.bisect_right(started, at))
             for at, _ in returns]
    for key, part in (("p10", 0.1), ("median", 0.5), ("p90", 0.9)):
        if not close(quantile(delays, part), queue["delay_s"][key]):
            yield f"delay {key} {quantile(delays, part):.9g}, listed {queue['delay_s'][key]}"
        if not close(quantile(depth, part), queue["depth"][key], 1e-6):
            yield f"depth {key} {quantile(depth, part)}, listed {queue['depth'][key]}"
    kernels = [a.end - a.start for a in trace.busy if a.kind in ("compute", "communication")]
    for key, limit in (("below_5us", 5000), ("below_10us", 10000)):
        short = [time for time in kernels if time < limit]
        if queue[key]["count"] != len(short) or not close(sum(short) * 1e-9, queue[key]["time_s"]):
            yield f"{key} {len(short)}, listed {queue[key]}"
    if queue["launches"] != len(returns):
        yield f"{len(returns)} launches, listed {queue['launches']}"


def compare(program, gpu, path):
    done = subprocess.run([program, "ops", str(path), "--format", "json"] +
                          (["--gpu", gpu] if gpu else []),
                          capture_output=True, text=True, timeout=600)
    if done.returncode == 2:
        return f"{path.name}: refused: {done.stderr.strip()[:120]}", True
    report = json.loads(done.stdout)
    listed = report["trace"]
    trace = Trace(path)
    wrong = [*check_places(trace.places(trace.modules, module_path), listed["modules"], "module"),
             *check_places(trace.places(trace.ranges, plain_name), listed["annotations"], "range"),
             *check_kernels(trace, listed["kernels"]), *check_copies(trace, listed["copies"]),
             *check_queue(trace, listed["queue"])]
    rows = sum(op["recorded"]["total_s"] for op in report["ops"] if op["recorded"])
    kernels = sum(a.end - a.start for a in trace.all if a.kind in ("compute", "communication"))
    if not close(kernels * 1e-9, rows, 1e-7):
        wrong.append(f"kernels take {kernels * 1e-9:.9g}, operators {rows:.9g}")
    for op in report["ops"]:
        parts = sum(kernel["total_s"] for kernel in op["recorded"]["all_kernels"])
        if not close(op["recorded"]["total_s"], parts, 1e-8):
            wrong.append(f"{op['name']} {op['recorded']['total_s']}, its kernels {parts}")
    if wrong:
        return f"{path.name}: " + "; ".join(wrong[:6]) + f" ({len(wrong)} differences)", False
    return (f"{path.name}: equal: {len(listed['modules'])} modules, {len(listed['annotations'])} "
            f"ranges, {len(listed['kernels'])} kernels, {len(listed['copies'])} kinds of copies, "
            f"{len(report['ops'])} operators"), True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--rooftile", default="rooftile")
    parser.add_argument("--gpu")
    arguments = parser.parse_args()
    all_well = True
    for path in arguments.paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if raw_trace.events_of(file) is None or raw_trace.recording(
                    raw_trace.events_of(file)) is None:
                continue
            line, is_well = compare(arguments.rooftile, arguments.gpu, file)
            print(line, flush=True)
            all_well = all_well and is_well
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
