#!/usr/bin/env python3
"""Makes a large trace from a small one: repeats it in time, with fresh ids in each repetition.

Usage: make_trace.py TRACE OUTPUT (--events N | --bytes N) [--ranks N]

OUTPUT ending in .gz is compressed. With --ranks it is a folder for rank0.json.gz and so on, which
differ in the rank that they name. Each repetition starts where the one before ended; correlations,
external ids, flow ids and sequence numbers move by a constant, so that nothing joins across
repetitions. The layout is that of the profiler's own exporter. Streams: memory does not grow with
the output.
"""

import argparse
import gzip
import json
import pathlib
import shutil

SHIFTED_ARGS = ("External id", "external id", "correlation", "Sequence number",
                "wait_on_cuda_event_record_corr_id", "Python id", "Python parent id", "Ev Idx",
                "Record function id")
SCALED_FIELDS = ("ph", "cat", "name", "pid", "tid", "id", "s", "bp")


def load(path):
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    # Floats stay text, so that times are written back digit by digit.
    trace = json.loads(data.decode("utf-8", "replace"), strict=False, parse_float=Literal)
    return trace if isinstance(trace, dict) else {"traceEvents": trace}


class Literal(float):
    """A number that remembers how it was written."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self):
        return self.text


def text_of(value):
    """JSON with floats as they were; percent signs doubled, for a template."""
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, list):
        return "[" + ", ".join(text_of(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in value.items()) + "}"
    return json.dumps(value).replace("%", "%%")


class Template:
    """The events of one repetition, with a hole for each number that changes."""

    def __init__(self, events):
        self.bases = []  # value of each hole in the first repetition
        self.is_time = []
        self.pieces = [self.event(e) for e in events]
        self.text = ",\n".join(self.pieces)

    def hole(self, value, is_time):
        self.bases.append(int(value))
        self.is_time.append(is_time)
        return "%d"

    def time(self, value):
        """Only whole microseconds move."""
        text = value.text if isinstance(value, Literal) else str(value)
        whole, dot, rest = text.partition(".")
        return self.hole(whole, True) + dot + rest

    def arg(self, key, value):
        if key in SHIFTED_ARGS and type(value) is int and value > 0:
            return self.hole(value, False)
        return text_of(value)

    def event(self, event):
        parts = []
        for key in SCALED_FIELDS:
            if key not in event:
                continue
            value = event[key]
            is_flow = key == "id" and type(value) is int
            parts.append(f'"{key}": ' + (self.hole(value, False) if is_flow else text_of(value)))
        line = '  {\n    ' + ", ".join(parts) + ',\n    "ts": ' + self.time(event["ts"])
        if "dur" in event:
            line += ', "dur": ' + text_of(event["dur"])
        if "args" in event:
            args = ", ".join(f"{text_of(k)}: {self.arg(k, v)}" for k, v in event["args"].items())
            line += ',\n    "args": {\n      ' + args + "\n    }"
        return line + "\n  }"

    def render(self, repetition, time_step, id_step):
        steps = (repetition * id_step, repetition * time_step)
        return self.text % tuple(b + steps[t] for b, t in zip(self.bases, self.is_time))


def steps_of(events):
    """How far times and ids of one repetition reach."""
    spans = [e for e in events if e.get("ph") == "X"]
    first = min(float(e["ts"]) for e in spans)
    last = max(float(e["ts"]) + float(e["dur"]) for e in spans)
    ids = [v for e in events for k, v in (e.get("args") or {}).items()
           if k in SHIFTED_ARGS and type(v) is int]
    return int(last - first) + 100, max(ids, default=0) - min(ids, default=0) + 1


def head_of(trace, **more):
    head = {k: v for k, v in trace.items() if k not in ("traceEvents", "metadata", *more)} | more
    return text_of(head).replace("%%", "%")[:-1] + ',\n"traceEvents": [\n'


def write_events(trace, output, most_events, most_bytes):
    events = trace["traceEvents"]
    repeated = [e for e in events if e.get("ph") != "M" and "ts" in e and
                e.get("cat") != "Trace" and not isinstance(e.get("pid"), str)]
    once = [e for e in events if e.get("ph") == "M" and "ts" in e]
    time_step, id_step = steps_of(repeated)
    template = Template(repeated)
    written = output.write(Template(once).render(0, 0, 0))
    count = len(once)
    repetition = 0
    while count + len(repeated) // 2 < most_events and written < most_bytes:
        written += output.write(",\n" + template.render(repetition, time_step, id_step))
        count += len(repeated)
        repetition += 1
    output.write("\n]}\n")
    return count, written


def write_ranks(trace, folder, ranks, most_events, most_bytes):
    """The events are compressed once: a gzip file may have several members."""
    folder.mkdir(parents=True, exist_ok=True)
    events = folder / "events.gz"
    with gzip.open(events, "wt", compresslevel=1, encoding="utf-8") as output:
        sizes = write_events(trace, output, most_events, most_bytes)
    for rank in range(ranks):
        head = head_of(trace, distributedInfo={"rank": rank, "world_size": ranks})
        with (folder / f"rank{rank}.json.gz").open("wb") as file, events.open("rb") as body:
            file.write(gzip.compress(head.encode()))
            shutil.copyfileobj(body, file)
    events.unlink()
    return sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace")
    parser.add_argument("output")
    parser.add_argument("--events", type=int)
    parser.add_argument("--bytes", type=int, help="of the text, before compression")
    parser.add_argument("--ranks", type=int, default=0)
    options = parser.parse_args()
    endless = 1 << 62
    trace = load(options.trace)
    limits = (options.events or endless, options.bytes or endless)
    if options.ranks:
        count, size = write_ranks(trace, pathlib.Path(options.output), options.ranks, *limits)
        print(f"{options.output}: {options.ranks} x {count} events, {size} characters")
        return
    if options.output.endswith(".gz"):
        output = gzip.open(options.output, "wt", compresslevel=6, encoding="utf-8")
    else:
        output = open(options.output, "w", encoding="utf-8")
    with output:
        head = output.write(head_of(trace))
        count, size = write_events(trace, output, *limits)
    print(f"{options.output}: {count} events, {head + size} characters")


if __name__ == "__main__":
    main()
