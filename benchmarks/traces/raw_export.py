"""Computes from an Nsight Systems export (SQLite) by SQL alone.

What Rooftile's figures are compared with: nothing here shares code or data with the program. The
unions of intervals are islands: an activity that starts after the end of all before it, in order of
their start, begins a new one. Of several processes it computes the one that comes first: of those with
work on a GPU by GPU, then by process; without any the one with most calls and ranges.
"""

import contextlib
import gzip
import pathlib
import shutil
import sqlite3
import tempfile

MAGIC = b"SQLite format 3\0"
KERNELS, GRAPHS, COPIES, FILLS, CALLS, WAITS = (
    f"CUPTI_ACTIVITY_KIND_{name}"
    for name in ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET", "RUNTIME", "SYNCHRONIZATION"))
RANGES = "NVTX_EVENTS"
RANGE_TYPES = "(59, 60, 70, 71)"  # push-pop and start-end ranges: ENUM_NSYS_EVENT_TYPE

COMMUNICATION = "(lower(name) LIKE '%nccl%' OR lower(name) LIKE '%rccl%')"
UNION = """
SELECT coalesce(sum(last - first), 0) FROM (
  SELECT min(start) AS first, max(end) AS last FROM (
    SELECT start, end, sum(is_new) OVER (ORDER BY start, row) AS island FROM (
      SELECT start, end, row, coalesce(start > max(end) OVER (ORDER BY start, row
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 1) AS is_new
      FROM (SELECT start, end, rowid AS row FROM activity WHERE {where})))
  GROUP BY island)"""


def is_export(path):
    with path.open("rb") as file:
        head = file.read(16)
    if head[:2] == b"\x1f\x8b":
        with gzip.open(path) as file, contextlib.suppress(OSError, EOFError):
            head = file.read(16)
    return head == MAGIC


@contextlib.contextmanager
def unpacked(path):
    """The path of the export without gzip, which SQLite cannot read."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            yield path
            return
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / path.name.removesuffix(".gz")
        with gzip.open(path) as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file)
        yield plain


def columns_of(database, table):
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def name_of_kernel(columns):
    """SQL for the fullest name that this version of the table has."""
    ids = [c for c in ("demangledName", "mangledName", "shortName") if c in columns]
    return f"coalesce((SELECT value FROM StringIds WHERE id = coalesce({', '.join(ids)}, -1)), '?')"


def process_of(database, table):
    """SQL for the process of a row; 0 for all where a table of events does not tell it."""
    ids = {CALLS: "globalTid", RANGES: "globalTid"}
    for other in (KERNELS, GRAPHS, COPIES, FILLS, CALLS, RANGES):
        columns = columns_of(database, other)
        if columns and ids.get(other, "globalPid") not in columns:
            return "0"
    return f"(coalesce({ids.get(table, 'globalPid')}, 0) >> 24) & 0xFFFFFF"


def fill_activities(database):
    """One table of what ran on the GPUs; kind: kernel, copy."""
    database.execute("CREATE TEMP TABLE activity (start, end, kind, name, device, process)")
    for table, kind, name in ((KERNELS, "kernel", None), (GRAPHS, "kernel", "'CUDA graph'"),
                              (COPIES, "copy", "''"), (FILLS, "copy", "''")):
        columns = columns_of(database, table)
        if not columns:
            continue
        device = "deviceId"
        if "globalPid" in columns and columns_of(database, "TARGET_INFO_CUDA_DEVICE"):
            device = f"""coalesce((SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE WHERE cudaId = deviceId
                AND pid = ({table}.globalPid >> 24) & 0xFFFFFF), deviceId)"""
        database.execute(f"""INSERT INTO activity SELECT start, end, '{kind}',
            {name or name_of_kernel(columns)}, {device}, {process_of(database, table)}
            FROM {table} WHERE start <= end""")


def host_events(database):
    """Queries for calls (else waits) and named ranges."""
    queries = []
    has_calls = columns_of(database, CALLS) and database.execute(
        f"SELECT count(*) FROM {CALLS}").fetchone()[0]
    for table in (CALLS,) if has_calls else (WAITS,):
        if columns_of(database, table):
            queries.append(f"SELECT start, end, {process_of(database, table)} AS process "
                           f"FROM {table} WHERE start <= end")
    columns = columns_of(database, RANGES)
    if columns:
        text = "coalesce(nullif(text, ''), (SELECT value FROM StringIds WHERE id = textId), '')" \
            if "textId" in columns else "coalesce(text, '')"
        queries.append(f"SELECT start, end, {process_of(database, RANGES)} AS process FROM {RANGES} "
                       f"WHERE eventType IN {RANGE_TYPES} AND start <= end AND {text} <> ''")
    return queries


def first_process(database):
    """The process to compute; None without any event."""
    gpus = {}
    for process, device, _ in database.execute(
            "SELECT process, device, sum(end - start) AS time FROM activity "
            "GROUP BY process, device ORDER BY time DESC, device"):
        gpus.setdefault(process, device)
    if gpus:
        return min(gpus, key=lambda process: (gpus[process], process))
    counts = {}
    for query in host_events(database):
        for process, count in database.execute(
                f"SELECT process, count(*) FROM ({query}) GROUP BY process"):
            counts[process] = counts.get(process, 0) + count
    return min(counts, key=lambda process: (-counts[process], process), default=None)


def extent(database, process):
    """First start and last end of activities, calls and named ranges."""
    queries = ["SELECT start, end, process FROM activity", *host_events(database)]
    return database.execute(f"SELECT min(start), max(end) FROM ({' UNION ALL '.join(queries)}) "
                            "WHERE process = ?", (process,)).fetchone()


def busiest_device(database):
    """Condition for the device whose activities cover the most time."""
    devices = [row[0] for row in database.execute("SELECT DISTINCT device FROM activity")]
    if not devices:
        return "0"
    return "device = " + str(
        max(devices, key=lambda d: database.execute(UNION.format(where=f"device = {d}"))
            .fetchone()[0]))


def truth_of_export(path):
    """The figures by their names in the report, in seconds, and the sums by kernel name."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        if not columns_of(database, "StringIds"):
            return None
        fill_activities(database)
        process = first_process(database)
        database.execute("DELETE FROM activity WHERE process <> ?", (process,))
        start, end = extent(database, process)
        if start is None:
            return None
        device = busiest_device(database)
        busy, compute, communication, kernels, copy = (
            database.execute(UNION.format(where=f"{device} AND {condition}")).fetchone()[0]
            for condition in ("1", f"kind = 'kernel' AND NOT {COMMUNICATION}",
                              f"kind = 'kernel' AND {COMMUNICATION}", "kind = 'kernel'",
                              "kind = 'copy'"))
        sums = {name: (count, time * 1e-9) for name, count, time in database.execute(
            "SELECT name, count(*), sum(end - start) FROM activity WHERE kind = 'kernel' "
            "GROUP BY name")}
    nanoseconds = {
        "span_s": end - start, "gpu_busy_s": busy, "compute_s": compute,
        "communication_s": communication, "exposed_communication_s": kernels - compute,
        "copy_s": copy, "exposed_copy_s": busy - kernels, "idle_s": end - start - busy}
    figures = {name: value * 1e-9 for name, value in nanoseconds.items()}
    figures["kernels.count"] = sum(count for count, _ in sums.values())
    figures["kernels.sum_s"] = sum(time for _, time in sums.values())
    return figures, sums
