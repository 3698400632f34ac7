"""How other tools define their figures, as changes to our own definitions on the raw events.

A difference between two tools counts as explained only when the figure, computed anew from the raw
events with the other tool's rules, is theirs. Nothing here runs either tool.
"""

import collections
import dataclasses
import math
import re
from typing import Callable, Optional

import raw_trace

REASONS = {
    "gpu window": "from the first start to the last end of a GPU's activities; ours includes the "
                  "host's work before and after",
    "all GPUs": "all GPUs of a file are one; ours is the busiest",
    "whole µs": "starts rounded up and ends down to whole microseconds (pytorch/pytorch#122425)",
    "named streams": "whatever names a stream is its work: waits for events, and the operators in "
                     "which Triton launches",
    "launched": "with two steps or more, what no call up to the last step's end launched is left out",
    "kernel names": "kinds by other patterns of names",
    "fills": "fills of memory are computation; ours counts them with the copies",
    "linked": "activities without flow arrows from a recorded call are left out",
    "doubles": "times are doubles of microseconds, since 1970 exact to a quarter",
    "whole recording": "calls of the whole recording; ours of its complete steps",
    "pairs": "pairs of a cudaLaunchKernel or cudaLaunchKernelExC and an activity; ours each launch "
             "call, whatever its name",
}


@dataclasses.dataclass
class State:
    """What figures are computed from; times in nanoseconds."""

    activities: list
    calls: list  # launches of kernels, as raw events
    extent: Optional[tuple]  # None: that of the activities
    is_one_gpu: bool = True
    named: Optional[list] = None  # of the sums by name, where they differ from `activities`
    duration: Callable = lambda activity: activity.end - activity.start

    def of_gpu(self):
        return raw_trace.on_busiest_device(self.activities) if self.is_one_gpu else self.activities


@dataclasses.dataclass
class Rule:
    key: str
    change: Callable  # a state and all raw events -> a state


def union_length(activities):
    """As raw_trace.union, where rounding may have put an end before its start."""
    reach, total, first = None, 0, None
    for start, end in sorted((a.start, a.end) for a in activities):
        if reach is None or start > reach:
            total += 0 if reach is None else reach - first
            first, reach = start, end
        reach = max(reach, end)
    return total + (0 if reach is None else reach - first)


def figures(state):
    """Microseconds by quantity; "names": microseconds by kernel name; "overlap": per cent."""
    of_gpu = state.of_gpu()
    if not of_gpu:
        return {}
    start, end = state.extent or (min(a.start for a in of_gpu), max(a.end for a in of_gpu))

    def covered(*kinds):
        return union_length([a for a in of_gpu if a.kind in kinds])

    busy, compute = union_length(of_gpu), covered("compute")
    communication = covered("communication")
    kernels, copies = covered("compute", "communication"), covered("copy", "fill")
    with_copies = covered("compute", "communication", "copy", "fill")
    values = {"span": end - start, "busy": busy, "idle": end - start - busy, "compute": compute,
              "not compute": busy - compute, "communication": communication,
              "exposed communication": kernels - compute, "copies": copies,
              "exposed copies": with_copies - kernels}
    values = {name: value / 1000 for name, value in values.items()}
    if communication:
        values["overlap"] = 100 * (communication - (kernels - compute)) / communication
    values["launches"] = len(state.calls)
    values["names"] = collections.defaultdict(float)
    named = state.activities if state.named is None else state.named
    for activity in filter(raw_trace.is_kernel, named):
        values["names"][activity.name] += state.duration(activity) / 1000
    return values


def argument(event, name, default=None):
    arguments = event.get("args")
    return arguments.get(name, default) if isinstance(arguments, dict) else default


def is_launch(event):
    name = str(event.get("name"))
    return (raw_trace.category_of(event) in {"cuda_runtime", "cuda_driver", "runtime"} and
            "Launch" in name and "GraphLaunch" not in name and "HostFunc" not in name)


def is_step(event):
    return str(event.get("name")).startswith("ProfilerStep") and raw_trace.kind_of(event) == "host"


def our_state(events):
    """Rooftile's definitions: docs/traces.md."""
    complete = [e for e in events if e.get("ph") == "X"]
    activities, extent = raw_trace.recording(complete)
    calls = [e for e in complete if is_launch(e)]
    steps = [raw_trace.interval(e) for e in complete if is_step(e)]
    if steps:
        first, last = min(s for s, _ in steps), max(e for _, e in steps)
        calls = [e for e in calls if first <= raw_trace.interval(e)[0] < last]
    return State(activities, calls, extent)


def gpu_window(state, _):
    return dataclasses.replace(state, extent=None)


def all_gpus(state, _):
    return dataclasses.replace(state, is_one_gpu=False)


def all_calls(state, events):
    return dataclasses.replace(state, calls=[e for e in events if is_launch(e)])


# Holistic Trace Analysis: hta/common/trace.py, trace_parser.py, trace_filter.py, utils/utils.py.


def is_hta_row(event):
    return "dur" in event and event.get("cat") not in (None, "Trace")


def hta_stream(event):
    try:
        return int(argument(event, "stream", -1))
    except (TypeError, ValueError):
        return -1


def hta_time(events):
    """The function from an event to its times: rounded where any start is no whole number."""
    if all(isinstance(e["ts"], int) for e in events if "ts" in e):
        return raw_trace.interval
    return lambda event: (math.ceil(float(event["ts"])) * 1000,
                          math.floor(float(event["ts"]) + float(event["dur"])) * 1000)


def hta_round(state, events):
    times = hta_time(events)
    return dataclasses.replace(state, activities=[
        a._replace(start=times(a.event)[0], end=times(a.event)[1]) for a in state.activities])


def hta_kind(name):
    if re.match(r"nccl.*Kernel", name):
        return "communication"
    if re.match(r"Memcpy|Memset|dma", name):
        return "copy"
    return "other" if re.match(r".*Memcpy|Memset|.*Sync", name) else "compute"


def hta_named_streams(state, events):
    """Everything with a stream is work of a GPU, nothing else is."""
    known = {id(a.event): a for a in state.activities}
    times = hta_time(events)
    activities = []
    for event in filter(is_hta_row, events):
        if hta_stream(event) == -1:
            continue
        activity = known.get(id(event))
        if activity is None:
            name = str(event["name"])
            activity = raw_trace.Activity(*times(event), hta_kind(name), name,
                                          raw_trace.device_of(event), event)
        activities.append(activity)
    return dataclasses.replace(state, activities=activities)


def hta_names(state, _):
    return dataclasses.replace(state, activities=[
        a._replace(kind=hta_kind(a.name)) for a in state.activities])


def hta_launched(state, events):
    """With two steps or more, what the calls up to the last step's end launched."""
    rows = [e for e in events if is_hta_row(e)]
    if len({e["name"] for e in rows if "ProfilerStep" in str(e["name"])}) < 2:
        return state
    times = hta_time(events)

    def on_gpu(event):
        return (hta_stream(event) >= 0 and argument(event, "correlation", -1) >= 0) or \
            event["name"] in ("Event Sync", "Context Sync")

    host = [e for e in rows if not on_gpu(e)]
    last = max(times(e)[1] for e in host if "ProfilerStep" in str(e["name"]))
    early = [e for e in host if times(e)[0] <= last]
    launched = collections.Counter(argument(e, "correlation", -1) for e in early)
    return dataclasses.replace(
        state,
        activities=[a for a in state.activities if on_gpu(a.event)
                    for _ in range(launched[argument(a.event, "correlation", -1)])],
        calls=[e for e in state.calls if times(e)[0] <= last])


def hta_pairs(state, events):
    names = ("cudaLaunchKernel", "cudaLaunchKernelExC")
    launches = {argument(e, "correlation", -1) for e in state.calls if e["name"] in names}
    host = collections.Counter(
        argument(e, "correlation", -1) for e in events if is_hta_row(e) and hta_stream(e) == -1)
    activities = [argument(a.event, "correlation", -1) for a in state.activities]
    return dataclasses.replace(
        state, calls=[c for c in activities if c in launches for _ in range(host[c])])


# TraceLens: Trace2Tree/trace_to_tree.py, TreePerf/gpu_event_analyser.py.


def tracelens_fills(state, _):
    return dataclasses.replace(state, activities=[
        a._replace(kind="compute") if a.kind == "fill" else a for a in state.activities])


def tracelens_linked(state, events):
    runtime = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    first = next((e for e in runtime if "launch" in str(e.get("name")).lower()), {})
    key = "correlation" if argument(first, "correlation") is not None else "External id"
    flows = {phase: {e["id"]: e for e in events if e.get("cat") == "ac2g" and e["ph"] == phase}
             for phase in "sf"}
    linked = set()
    by_place = {(e.get("pid"), e.get("tid"), argument(e, key)): id(e) for e in events
                if e.get("cat") != "ac2g"}
    for call in runtime:
        link = argument(call, key)
        if call["name"] in ("cudaGraphLaunch", "hipGraphLaunch"):
            linked |= {id(a.event) for a in state.activities
                       if link is not None and argument(a.event, key) == link}
        elif link in flows["s"] and link in flows["f"]:
            end = flows["f"][link]
            linked.add(by_place.get((end.get("pid"), end.get("tid"), end["id"])))
    return dataclasses.replace(
        state, activities=[a for a in state.activities if id(a.event) in linked],
        named=state.activities)


def tracelens_doubles(state, _):
    base = math.floor(min((float(a.event["ts"]) for a in state.activities), default=0))

    def moved(activity):
        start = float(activity.event["ts"])
        end = start + float(activity.event["dur"])
        return activity._replace(start=(start - base) * 1000, end=(end - base) * 1000)

    return dataclasses.replace(state, activities=[moved(a) for a in state.activities],
                               duration=lambda a: float(a.event["dur"]) * 1000)


RULES = {
    "hta": [Rule("gpu window", gpu_window), Rule("all GPUs", all_gpus),
            Rule("whole recording", all_calls), Rule("whole µs", hta_round),
            Rule("named streams", hta_named_streams), Rule("launched", hta_launched),
            Rule("kernel names", hta_names), Rule("pairs", hta_pairs)],
    "tracelens": [Rule("gpu window", gpu_window), Rule("all GPUs", all_gpus),
                  Rule("fills", tracelens_fills), Rule("linked", tracelens_linked),
                  Rule("doubles", tracelens_doubles)],
}
