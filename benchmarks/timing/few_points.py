#!/usr/bin/env python3
"""How well a short calibration predicts a GPU that was not fitted.

usage: few_points.py FOLDER [--gpus a100,h100,l40s] [--draws N]

FOLDER holds gemm_bf16.csv.gz (see tables.py). Each GPU is treated as unknown: the fit starts from
the other GPUs' generations, sees the points, and is scored on a sample of all rows. The same with
the GPU's own generation as donor stands for a sister GPU. Errors are MAPE / median / 90th
percentile in per cent, then the share of rows inside the 90 % interval.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from timing import tables  # noqa: E402  (needs the path above)
from timing.predictor import ROOT, Predictor  # noqa: E402

CALIBRATE = ROOT / "build/release/rooftile_calibrate"
GENERATION = {"a100": "sm80", "h100": "sm90", "l40s": "sm89"}
# Whose constants an unknown GPU would borrow if its own were not known.
NEAREST = {"a100": "sm89", "h100": "sm80", "l40s": "sm80"}
SCORED = 4000


def shapes():
    """The short list, nested: its first 20, its first 50 and all of it are calibration sets."""
    text = (ROOT / "data/plans/gemm_shapes.txt").read_text(encoding="utf-8")
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return [tuple(int(x) for x in line.split()) for line in lines if line]


def shape_of(row):
    return tuple(int(row.columns[c]) for c in "mnk")


def nearest(wanted, rows, taken):
    """The row of this shape, or the nearest one in log m, n, k."""
    logs = np.log([shape_of(row) for row in rows])
    order = np.argsort(np.abs(logs - np.log(wanted)).sum(axis=1))
    return next(int(i) for i in order if int(i) not in taken)


def choose(rows, count, rng):
    if rng is not None:
        return [int(i) for i in rng.choice(len(rows), count, replace=False)]
    taken = []
    for shape in shapes()[:count]:
        taken.append(nearest(shape, rows, set(taken)))
    return taken


def others(gpu):
    """The generations that an unknown GPU would start from, the nearest first."""
    return [NEAREST[gpu]] + [
        g for name, g in GENERATION.items() if name != gpu and g != NEAREST[gpu]]


def calibrated(spec, rows, donors):
    with tempfile.NamedTemporaryFile("w", suffix=".workload") as file:
        for i, row in enumerate(rows):
            kind, rest = row.ops[0].split(" ", 1)
            file.write(f"{kind} r{i} {rest} measured_s={row.seconds!r}\n")
        file.flush()
        run = subprocess.run([CALIBRATE, spec, file.name, *donors], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout), run.stderr.strip()


def score(predictor, sections, seconds):
    expected, low, high, _ = predictor.predict(sections)
    error = 100 * np.abs(expected / seconds - 1)
    inside = 100 * np.mean((seconds >= low) & (seconds <= high))
    return (f"{error.mean():5.1f} /{np.median(error):5.1f} /{np.quantile(error, 0.9):5.1f}"
            f"  in {inside:3.0f} %")


def report(folder, gpu, draws):
    everything = [row for row in tables.read(folder, "gemm_bf16") if row.gpu.startswith(gpu)]
    rng = np.random.default_rng(1)
    scored = [everything[i] for i in rng.choice(len(everything), SCORED, replace=False)]
    seconds = np.array([row.seconds for row in scored])
    predictor = Predictor(everything[0].gpu, scored)
    print(f"{gpu}: fitted constants        {score(predictor, {}, seconds)}")
    for label, donors in [("unknown", others(gpu)), ("sister", [GENERATION[gpu]])]:
        for count, draw in [(20, None), (50, None)] + [(50, d) for d in range(draws)]:
            rng = None if draw is None else np.random.default_rng(draw)
            points = [everything[i] for i in choose(everything, count, rng)]
            sections, said = calibrated(everything[0].gpu, points, donors)
            kind = "chosen" if draw is None else "random"
            print(f"  {label:8} {count:4} {kind}  {score(predictor, sections, seconds)}  {said}",
                  flush=True)
    predictor.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gpus", default="a100,h100,l40s")
    parser.add_argument("--draws", type=int, default=1)
    options = parser.parse_args()
    for gpu in options.gpus.split(","):
        report(options.folder, gpu, options.draws)


if __name__ == "__main__":
    main()
