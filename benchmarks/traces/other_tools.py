#!/usr/bin/env python3
"""Loads a trace with another tool and computes what Rooftile's report has too.

Usage: other_tools.py hta|tracelens TRACE, in a virtual environment that has the tool. HTA is
HolisticTraceAnalysis on PyPI. TraceLens is AMD-AGI/TraceLens on GitHub (the package of that name on
PyPI is another program): set PYTHONPATH to a checkout.
"""

import os
import sys
import tempfile


def run_hta(trace):
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files={0: trace}, trace_dir=os.path.dirname(trace))
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)


def run_tracelens(trace):
    from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch

    with tempfile.TemporaryDirectory() as folder:
        generate_perf_report_pytorch(profile_json_path=trace, output_csvs_dir=folder)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("hta", "tracelens"):
        sys.exit(__doc__)
    trace = os.path.abspath(sys.argv[2])
    run_hta(trace) if sys.argv[1] == "hta" else run_tracelens(trace)


if __name__ == "__main__":
    main()
