"""Scores Rooftile's time model against traces: what `rooftile ops` predicts, and what was measured.

Usage: benchmarks/profiles FOLDER [--binary ROOFTILE] [--worst N] [--only TEXT] [--markdown]

FOLDER holds traces with shapes, as profiles_data/fetch brings them; their GPUs are those of
profiles_data/sources.tsv, of other traces that which the trace names. A row is one operation of one shape,
its measured time the median of a call. Inside: rows whose measured time lies in the 90 % range, in per cent
of rows and of time. Error by time: sum of |predicted - measured| over sum of measured, each times the calls. Means are over traces, so
that a long trace counts no more than a short one.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from profiles_data.sources import gpu_of  # noqa: E402  (needs the path above)

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Row:
    trace: str
    gpu: str
    name: str
    kind: str
    dtype: str
    dims: str
    count: int
    measured: float
    low: float
    expected: float
    high: float
    bound: str
    kernel: str
    kernels: float
    family: str = ""
    modelled: float = 0.0  # before what profiles say of the family
    launch: float = 0.0    # of that

    @property
    def inside(self):
        return self.low <= self.measured <= self.high

    @property
    def weight(self):
        return self.measured * self.count


def rows_of(trace, binary):
    """Rows with a measured and a predicted time, and the share of the measured time they cover."""
    command = [binary, "ops", trace, "--format", "json"]
    gpu = gpu_of(trace)
    answer = subprocess.run(command + (["--gpu", gpu] if gpu else []), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if not answer.stdout.startswith("{"):
        print(f"left out: {trace}: {answer.stderr.strip()[:200]}", file=sys.stderr)
        return [], 0.0
    report = json.loads(answer.stdout)
    rows, total = [], 0.0
    for op in report["ops"]:
        recorded, time = op["recorded"], op["time_s"]
        if not recorded or not recorded["measured_s"]:
            continue
        calls = recorded.get("calls") or op["count"]
        total += recorded["measured_s"] * calls
        if time and op["kind"] != "collective":
            rows.append(Row(pathlib.Path(trace).name.split(".")[0], report["gpu"]["id"], op["name"],
                            op["kind"], op["dtype"], op["dims"], calls, recorded["measured_s"],
                            time["low"], time["expected"], time["high"], op["bound"],
                            recorded["kernel"] or "", recorded["kernels"],
                            recorded.get("kernel_family") or "", recorded.get("modelled_s") or 0.0,
                            op["parts_s"]["launch"] if op["parts_s"] else 0.0))
    covered = sum(row.weight for row in rows)
    return rows, covered / total if total else 0.0


def scores(rows):
    """Shares inside of rows and of time, error by time, and the bias: predicted over measured time."""
    time = sum(row.weight for row in rows)
    return {
        "rows": len(rows),
        "inside": 100 * sum(row.inside for row in rows) / len(rows),
        "time inside": 100 * sum(row.weight for row in rows if row.inside) / time,
        "error": 100 * sum(abs(row.expected - row.measured) * row.count for row in rows) / time,
        "bias": 100 * (sum(row.expected * row.count for row in rows) / time - 1),
    }


def line(title, score, markdown, extra=""):
    cells = [title, f"{score['rows']}", f"{score['inside']:.0f}", f"{score['time inside']:.0f}",
             f"{score['error']:.0f}", f"{score['bias']:+.0f}", extra]
    if markdown:
        return "| " + " | ".join(cells) + " |"
    return f"{cells[0]:34}" + "".join(f"{cell:>9}" for cell in cells[1:])


def mean_of(scored):
    return {key: sum(score[key] for score in scored) / len(scored) for key in scored[0]} | {
        "rows": sum(score["rows"] for score in scored)}


def header(markdown, first):
    cells = [first, "rows", "inside", "time in", "error", "bias", "covered"]
    if markdown:
        return "| " + " | ".join(cells) + " |\n|" + "---|" * len(cells)
    return f"{cells[0]:34}" + "".join(f"{cell:>9}" for cell in cells[1:])


def tables(by_trace, covered, markdown):
    """The table of traces and that of kinds, as lines."""
    scored = {trace: scores(rows) for trace, rows in by_trace.items()}
    lines = [header(markdown, "trace")]
    for trace, score in scored.items():
        lines.append(line(trace, score, markdown, f"{100 * covered[trace]:.0f}"))
    lines += [line("mean over traces", mean_of(list(scored.values())), markdown), "",
              header(markdown, "kind")]
    kinds = {}
    for rows in by_trace.values():
        for row in rows:
            kinds.setdefault(row.kind, []).append(row)
    for kind, rows in sorted(kinds.items(), key=lambda item: -sum(r.weight for r in item[1])):
        lines.append(line(kind, scores(rows), markdown, f"{1e3 * sum(r.weight for r in rows):.0f} ms"))
    return lines


def worst(by_trace, count):
    """The rows that add most to the error of their own trace."""
    found = []
    for rows in by_trace.values():
        time = sum(row.weight for row in rows)
        found += [(abs(row.expected - row.measured) * row.count / time, row) for row in rows]
    found.sort(key=lambda item: -item[0])
    for share, row in found[:count]:
        print(f"{100 * share:5.1f} %  {row.trace}  {row.name}  {row.dims}  {row.dtype} x{row.count}  "
              f"measured {1e6 * row.measured:.1f}  predicted {1e6 * row.expected:.1f} "
              f"({1e6 * row.low:.1f} to {1e6 * row.high:.1f}) µs  {row.bound}  "
              f"{row.kernels:g}: {row.kernel[:110]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--binary", default=str(ROOT / "build/release/rooftile"))
    parser.add_argument("--only", default="", help="traces whose name contains this")
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--rows", type=pathlib.Path, help="writes every row to this JSON file")
    arguments = parser.parse_args()
    by_trace, covered = {}, {}
    for trace in sorted(arguments.folder.rglob("*.json*")):
        if arguments.only not in trace.name:
            continue
        rows, share = rows_of(str(trace), arguments.binary)
        if rows:
            by_trace[rows[0].trace], covered[rows[0].trace] = rows, share
    if not by_trace:
        print(f"no trace with shapes in {arguments.folder}", file=sys.stderr)
        return 2
    print("\n".join(tables(by_trace, covered, arguments.markdown)))
    worst(by_trace, arguments.worst)
    if arguments.rows:
        rows = [dataclasses.asdict(row) for trace in by_trace.values() for row in trace]
        arguments.rows.write_text(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
