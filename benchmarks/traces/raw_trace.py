"""Reads a Kineto trace with Python's json module alone, and computes from its raw events.

What Rooftile's figures are compared with: nothing here shares code or data with the program.
Times are whole nanoseconds.
"""

import collections
import decimal
import gzip
import json

HOST = {"cpu_op", "operator", "user_annotation", "cuda_runtime", "cuda_driver", "runtime"}
KERNEL = {"kernel"}
COPY = {"gpu_memcpy", "memcpy"}
FILL = {"gpu_memset", "memset"}
COMMUNICATION = ("nccl", "rccl")

# What ran on a GPU; kind: "compute", "communication", "copy" or "fill".
Activity = collections.namedtuple("Activity", "start end kind name device event")


def load(path):
    """The JSON value in a file, None where it is no JSON."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    try:
        return json.loads(raw.decode("utf-8", "replace"), strict=False,
                          parse_float=decimal.Decimal)
    except ValueError:
        return None


def events_of(path):
    """Complete events of a trace as dicts, None where the file is no trace."""
    data = load(path)
    if isinstance(data, dict):
        data = data.get("traceEvents")
    if not isinstance(data, list):
        return None
    events = [e for e in data if isinstance(e, dict)]
    if not any("ph" in e for e in events):
        return None
    return [e for e in events if e.get("ph") == "X"]


def interval(event):
    start = round(decimal.Decimal(event["ts"]) * 1000)
    return start, start + max(0, round(decimal.Decimal(event.get("dur", 0)) * 1000))


def category_of(event):
    return str(event.get("cat", "")).lower()


def kind_of(event):
    """Kind of activity, "host", or None for what is neither."""
    if "cat" not in event and "functions" in str(event.get("pid", "")).lower():
        return "host"  # the profiler before Kineto wrote no categories
    category = category_of(event)
    if category in KERNEL:
        name = str(event["name"]).lower()
        return "communication" if any(w in name for w in COMMUNICATION) else "compute"
    return ("copy" if category in COPY else "fill" if category in FILL else
            "host" if category in HOST else None)


def device_of(event):
    return str(event.get("args", {}).get("device", event.get("pid")))


def recording(events):
    """The activities of the GPUs, and first start and last end of host and GPU; None if empty."""
    activities, extent = [], []
    for event in events:
        kind = kind_of(event)
        if kind is None or "ts" not in event:
            continue
        start, end = interval(event)
        extent.append((start, end))
        if kind != "host":
            activities.append(
                Activity(start, end, kind, str(event["name"]), device_of(event), event))
    if not extent:
        return None
    return activities, (min(s for s, _ in extent), max(e for _, e in extent))


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


def busy_time(activities, *kinds):
    """Length of the union of the activities of these kinds; of all without kinds."""
    return length(union([(a.start, a.end) for a in activities if not kinds or a.kind in kinds]))


def on_busiest_device(activities):
    by_device = collections.defaultdict(list)
    for activity in activities:
        by_device[activity.device].append(activity)
    return max(by_device.values(), key=busy_time, default=[])


def is_kernel(activity):
    return activity.kind in ("compute", "communication")


def kernel_sums(activities):
    """Count and summed duration of the kernels of each name."""
    sums = collections.defaultdict(lambda: [0, 0])
    for activity in filter(is_kernel, activities):
        sums[activity.name][0] += 1
        sums[activity.name][1] += activity.end - activity.start
    return {name: tuple(both) for name, both in sums.items()}
