#!/usr/bin/env python3
"""Loads traces with another tool and computes what Rooftile's report has too.

Usage: other_tools.py hta|tracelens TRACE... [--tables FILE], in a virtual environment that has the
tool. HTA is HolisticTraceAnalysis on PyPI, tried with 0.5.0. TraceLens is AMD-AGI/TraceLens on
GitHub, tried with commit 171dd74 (the package of that name on PyPI is another program): set
PYTHONPATH to a checkout. Several traces are the ranks of one job; TraceLens takes one.

With --tables the figures of the tool's tables go to FILE as JSON, a list with one object per trace:
microseconds by the names that agree.py has for them, null where the tool has no such figure.
"""

import argparse
import json
import os
import tempfile


def load_hta(traces, **options):
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(trace_files=dict(enumerate(traces)), trace_dir=os.path.dirname(traces[0]),
                         **options)


def run_hta(traces):
    analysis = load_hta(traces)
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)


def attempt(compute):
    """None instead of an error: some tables do not exist for some traces."""
    try:
        return compute()
    except Exception as error:  # whatever another program may throw
        print(f"{type(error).__name__}: {error}")
        return None


def hta_kernels(analysis):
    """Summed time by rank and by what ran at once ("COMPUTATION overlapping COMMUNICATION"), and by
    name of kernel. The first is the sum over all ranks, so it only says something of one."""
    kinds, names = analysis.get_gpu_kernel_breakdown(
        visualize=False, duration_ratio=1.0, num_kernels=10**9)
    names = names[names["kernel_type"].isin(["COMPUTATION", "COMMUNICATION"])]
    by_rank = {}
    for _, row in names.iterrows():
        by_rank.setdefault(int(row["rank"]), {})[row["name"]] = float(row["sum (us)"])
    return dict(zip(kinds["kernel_type"], map(float, kinds["sum"]))), by_rank


def tables_of_hta(traces):
    analysis = load_hta(traces, include_last_profiler_step=True)
    times = attempt(lambda: analysis.get_temporal_breakdown(visualize=False))
    overlaps = attempt(lambda: analysis.get_comm_comp_overlap(visualize=False))
    kinds, names = attempt(lambda: hta_kernels(analysis)) or (None, {})
    launches = attempt(lambda: analysis.get_cuda_kernel_launch_stats(
        ranks=list(range(len(traces))), include_memory_events=False, visualize=False))
    tables = []
    for rank in range(len(traces)):
        table = {"names": names.get(rank)}
        if times is not None:
            row = times[times["rank"] == rank].iloc[0]
            span, idle, compute = (float(row[f"{name}_time(us)"])
                                   for name in ("kernel", "idle", "compute"))
            table |= {"span": span, "idle": idle, "busy": span - idle, "compute": compute,
                      "not compute": float(row["non_compute_time(us)"])}
        if overlaps is not None:
            share = overlaps[overlaps["rank"] == rank]["comp_comm_overlap_pctg"].iloc[0]
            table["overlap"] = None if share != share else float(share)
        if kinds is not None and len(traces) == 1:
            table |= sums_of_kinds(kinds)
        if launches is not None:
            table["launches"] = len(launches[rank])
        tables.append(table)
    return tables


def sums_of_kinds(kinds):
    def having(*words):
        return sum(time for kind, time in kinds.items() if all(w in kind for w in words))

    communication, copies = having("COMMUNICATION"), having("MEMORY")
    return {"communication": communication, "copies": copies,
            "exposed communication": communication - having("COMMUNICATION", "COMPUTATION"),
            "exposed copies": kinds.get("MEMORY", 0.0)}


def run_tracelens(traces):
    from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch

    with tempfile.TemporaryDirectory() as folder:
        generate_perf_report_pytorch(profile_json_path=traces[0], output_csvs_dir=folder)


def tables_of_tracelens(traces):
    from TraceLens.TreePerf import TreePerfAnalyzer

    analyzer = TreePerfAnalyzer.from_file(traces[0])
    times = analyzer.get_df_gpu_timeline()
    times = {kind: float(time) * 1e3 for kind, time in zip(times["type"], times["time ms"])}
    kernels = attempt(analyzer.get_df_kernels)
    names = kernels.groupby("Kernel name")["Kernel duration (µs)"].sum() \
        if kernels is not None and not kernels.empty else {}
    return [{
        "span": times["total_time"], "busy": times["busy_time"], "idle": times["idle_time"],
        "compute": times["computation_time"], "communication": times["total_comm_time"],
        "exposed communication": times["exposed_comm_time"], "copies": times["total_memcpy_time"],
        "exposed copies": times["exposed_memcpy_time"],
        "names": {name: float(time) for name, time in names.items()} or None}]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=["hta", "tracelens"])
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--tables")
    arguments = parser.parse_args()
    traces = [os.path.abspath(trace) for trace in arguments.traces]
    is_hta = arguments.tool == "hta"
    if arguments.tables:
        tables = (tables_of_hta if is_hta else tables_of_tracelens)(traces)
        with open(arguments.tables, "w") as file:
            json.dump(tables, file)
    else:
        (run_hta if is_hta else run_tracelens)(traces)


if __name__ == "__main__":
    main()
