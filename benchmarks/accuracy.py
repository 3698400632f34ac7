"""Scores Rooftile's time model against measured tables.

Usage: benchmarks/accuracy DATA_FOLDER [--write docs/accuracy.md] [--only TEXT]

Started by benchmarks/accuracy, which builds build/release/rooftile and rooftile_predict. DATA_FOLDER
holds tables as benchmarks/timing/tables.py describes them; those that are absent are left out. Errors are
MAPE / median / 90th percentile of |predicted / measured - 1| in per cent. "Roofline" is the data
sheet's peak and bandwidth; "fitted" is a roofline of three constants fitted to the very rows.
"""

import argparse
import csv
import dataclasses
import datetime
import io
import json
import pathlib
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from timing import (few_points, matmul_heuristics, scores, tables,  # noqa: E402  (needs the path above)
                    whole_models)
from timing.predictor import ROOT, Predictor, savings, speed  # noqa: E402

ROOFTILE = ROOT / "build/release/rooftile"


def run_rooftile(*arguments, text=""):
    return subprocess.run([ROOFTILE, *arguments], input=text, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def devices():
    """Name and alias, as written in the tables -> the device's numbers."""
    known = {}
    for device in json.loads(run_rooftile("gpus", "--format", "json"))["gpus"]:
        for name in (device["id"], device["name"], *device["aliases"]):
            known[name.lower()] = device
    return known


DEVICES = devices()


def work_of(rows, gpu):
    """Arrays of flop and bytes of each row."""
    lines = [f"{op.split(' ', 1)[0]} r {op.split(' ', 1)[1]}" for row in rows for op in row.ops]
    answer = run_rooftile("ops", "-", "--gpu", gpu, "--format", "csv", text="\n".join(lines) + "\n")
    table = list(csv.DictReader(io.StringIO(answer)))
    first = np.cumsum([0] + [len(row.ops) for row in rows])[:-1]
    column = lambda key: np.add.reduceat([float(r[key] or 0) for r in table], first)
    return column("flop"), column("bytes")


def normal(name):
    """A GPU's name as --gpu compares it."""
    return name.lower().replace("-", "_").replace(" ", "_")


NAMES = {normal(name) for name in DEVICES}


class Situation:
    """Rows of one table on one GPU with what the model says of them."""

    def __init__(self, title, bar, gpu, rows, floor=0.0):
        """`floor`: what the host adds to each row, in seconds; predictions are scored with it."""
        self.title, self.bar, self.gpu = title, bar, gpu
        self.rows, self.floor = rows, floor
        self.measured = np.array([row.seconds for row in rows])
        predictor = Predictor(gpu, rows)
        expected, low, high, self.bound = predictor.predict()
        predictor.close()
        self.expected, self.low, self.high = expected + floor, low + floor, high + floor

    def baselines(self):
        """Errors of the data sheet's roofline and of the fitted one."""
        device = next(d for name, d in DEVICES.items() if normal(name) == normal(self.gpu))
        dtype = self.rows[0].ops[-1].split(" ")[1]
        peak = device["tensor_core_flop_per_s"].get(dtype) or device["cuda_core_flop_per_s"].get(
            dtype) or device["cuda_core_flop_per_s"]["fp32"]
        bandwidth = device["dram_bandwidth_bytes_per_s"]
        flop, moved = work_of(self.rows, self.gpu)
        roofline = np.maximum(flop / peak, moved / bandwidth) + self.floor
        fitted = scores.fitted_roofline(flop, moved, self.measured, peak, bandwidth)
        return (f"{scores.errors(roofline, self.measured)[0]:.0f}",
                f"{scores.errors(fitted, self.measured)[0]:.1f}")

    def line(self):
        mape, median, high = scores.errors(self.expected, self.measured)
        covered = scores.coverage(self.low, self.high, self.bound, self.measured)
        regimes = " · ".join(f"{name} {share:.0f}" for name, share in covered.items()
                             if name != "all")
        return [self.title, f"{len(self.rows):,}", f"**{mape:.1f}** / {median:.1f} / {high:.1f}",
                self.bar, f"{scores.bias(self.expected, self.measured):+.1f}",
                f"{covered['all']:.0f}" + (f" ({regimes})" if regimes else ""), *self.baselines()]


def by_gpu(folder, name, **filters):
    """GPU -> rows of the table whose columns equal the filters."""
    groups = {}
    for row in tables.read(folder, name):
        if all(row.columns.get(key) == value for key, value in filters.items()):
            groups.setdefault(row.gpu, []).append(row)
    for gpu in [gpu for gpu in groups if normal(gpu) not in NAMES]:
        print(f"left out: {len(groups.pop(gpu)):,} rows of {name} on {gpu}, an unknown GPU",
              file=sys.stderr)
    return groups


def situations(folder):
    """Every situation of which there are rows."""
    bars = {"a100_sxm4_80gb": "4.6 / 3.5 / 10", "h100_sxm5_80gb": "5.2 / 4 / 11.5",
            "l40s": "8.6 / 6.3 / 18.5"}
    for gpu, rows in by_gpu(folder, "gemm_bf16").items():
        yield "Matrix products", Situation(f"bf16, {gpu}", bars.get(gpu, ""), gpu, rows)
    for gpu, rows in by_gpu(folder, "gemm_fp8_with_quantize").items():
        yield "Matrix products", Situation(f"fp8 with quantization, {gpu}", "8 / 6 / 18", gpu, rows)
    for op in ("linear", "bmm"):
        for gpu, rows in by_gpu(folder, "fp32_matmul", op=op).items():
            rows, floor = above_launch(rows)
            yield "Matrix products", Situation(f"fp32 {op}, {gpu}", "9", gpu, rows, floor)
    for precision in ("fp16_in_fp32_acc", "fp32"):
        for gpu, rows in by_gpu(folder, "deepbench_gemm", precision=precision).items():
            yield "Matrix products", Situation(f"DeepBench {precision}, {gpu}", "", gpu, rows)
    products = by_gpu(folder, "llm_layers_bf16")
    for gpu, rows in products.items():
        yield "Matrix products", Situation(f"LLM layers above 20 µs, {gpu}", "10", gpu,
                                           above_20_us(rows))
    for name, bar in (("attention_prefill_causal", "7 / 5 / 18"), ("attention_decode", "7 / 5 / 16")):
        for gpu, rows in by_gpu(folder, name).items():
            yield "Attention", Situation(f"{name.removeprefix('attention_')}, {gpu}", bar, gpu, rows)
    memory_bound = above_20_us(tables.read_llm_memory_layers(folder))
    for gpu, rows in products.items():
        yield "Memory-bound", Situation(f"LLM layers above 20 µs, {gpu}", "", gpu, memory_bound)
        yield "Memory-bound", Situation(f"… with the products, {gpu}", "10", gpu,
                                        above_20_us(rows) + memory_bound)
    for gpu, rows in by_gpu(folder, "stream_bf16_to_fp8").items():
        yield "Memory-bound", Situation(f"cast bf16 to fp8, {gpu}", "6", gpu, rows)
    for title, ops, bar in ROWWISE:
        for gpu, rows in by_gpu(folder, "fp32_rowwise_and_elementwise").items():
            rows, floor = above_launch([r for r in rows if r.columns["op"] in ops])
            if rows:
                yield "Memory-bound", Situation(f"{title}, {gpu}", bar, gpu, rows, floor)
    for gpu, rows in by_gpu(folder, "fp32_conv").items():
        host = tables.known_conv_host_times(rows)
        if not host.any():
            yield "Convolution", Situation(f"fp32 forward as recorded, {gpu}", "18", gpu, rows)
            continue
        yield "Convolution", Situation(f"fp32 forward with the host's time, {gpu}", "18", gpu, rows,
                                       host)
        kernels = [dataclasses.replace(row, seconds=row.seconds - time)
                   for row, time in zip(rows, host) if row.seconds > 2 * time]
        yield "Convolution", Situation(f"… kernels longer than that, {gpu}", "18", gpu, kernels)
    for precision, bar in (("fp16_in_fp32_acc", "22"), ("fp32", "")):
        for phase in ("forward", "dgrad", "wgrad"):
            groups = by_gpu(folder, "deepbench_conv", precision=precision, phase=phase)
            for gpu, rows in groups.items():
                yield "Convolution", Situation(f"DeepBench {precision} {phase}, {gpu}", bar, gpu, rows)


ROWWISE = [
    ("elementwise", ("add", "mul", "div", "pow", "addu", "mulu", "divu", "powu", "relu", "gelu",
                     "tanh"), "5"),
    ("layer norm", ("ln",), "12"),
    ("softmax", ("softmax",), "12"),
]


def above_20_us(rows):
    return [row for row in rows if row.seconds > 20e-6]


def above_launch(rows):
    """Rows of single launches that take more than three times the fastest of their operation, and
    the host's share of each in seconds, which is no part of a kernel."""
    floors = tables.host_floors(rows)
    floor = lambda row: floors[row.gpu, row.columns["op"]]
    kept = [row for row in rows if row.seconds > 3 * floor(row)]
    shares = [tables.host_share(row.gpu, row.columns["op"]) * floor(row) for row in kept]
    return kept, np.array(shares)


def told_apart(situation, pairs, scale, predicted):
    """Of what `compare` would say of the pairs, from the slower to the faster: which it tells apart,
    with a range of savings that does not reach down to 0, and whose range holds the measured one."""
    slower_first = predicted[:, 0] >= predicted[:, 1]
    first, second = np.where(slower_first[:, None], pairs, pairs[:, ::-1]).T
    times = scale[first] / scale[second]
    low, _, high = savings(situation.gpu, situation.rows, np.stack([first, second], 1), times).T
    saved = situation.measured[first] - times * situation.measured[second]
    return low > 0, (saved >= low) & (saved <= high)


def signs(folder):
    """Lines of the table on claims: what, agreement where the range of the saving excludes 0, of how
    many pairs; of all predicted changes above 5 %: agreement, savings inside the range, how many."""
    for gpu, rows in by_gpu(folder, "gemm_bf16").items():
        situation = Situation("", "", gpu, rows)
        shapes = [tuple(int(row.columns[key]) for key in "mnk") for row in situation.rows]
        size = np.array(shapes, dtype=float)
        for axis, name, bar in ((0, "throughput along m", 90), (1, "time along n", 95),
                                (2, "time along k", 95)):
            pairs = scores.neighbours(shapes, axis)
            scale = size[:, 0] if axis == 0 else np.ones(len(shapes))
            predicted = (situation.expected / scale)[pairs]
            pairs = pairs[scores.predicted_changes(predicted)]
            predicted = (situation.expected / scale)[pairs]
            measured = (situation.measured / scale)[pairs]
            sure, inside = told_apart(situation, pairs, scale, predicted)
            yield [f"{name}, {gpu}",
                   f"{scores.sign_agreement(predicted[sure], measured[sure]):.1f}", f"≥ {bar}",
                   f"{sure.sum():,} pairs", f"{scores.sign_agreement(predicted, measured):.1f}",
                   f"{100 * inside.mean():.0f}", f"{len(pairs):,} pairs"]
        recall, precision, count = scores.cliffs(shapes, situation.expected, situation.measured)
        bar = "80 / 80" if gpu.startswith("a100") else ""
        yield [f"cliffs m to m + 1, {gpu}: recall / precision", f"{recall:.0f} / {precision:.0f}",
               bar, f"{count:,} jumps", "", "", ""]


def calibrations(folder):
    """Lines [GPU, start, MAPE / median / p90, inside] of calibrations with 50 points, scored on the
    other rows."""
    for gpu, rows in by_gpu(folder, "gemm_bf16").items():
        chosen = set(few_points.choose(rows, 50, None))
        points = [rows[i] for i in sorted(chosen)]
        rest = [row for i, row in enumerate(rows) if i not in chosen]
        predictor = Predictor(gpu, rest)
        measured = np.array([row.seconds for row in rest])
        starts = [("all that is known of it", [])]
        for short in (name for name in few_points.GENERATION if gpu.startswith(name)):
            starts += [("its generation's constants", [few_points.GENERATION[short]]),
                       ("other generations alone", few_points.others(short))]
        for start, donors in starts:
            sections = few_points.calibrated(gpu, points, donors)[0]
            expected, low, high, bound = predictor.predict(sections)
            mape, median, p90 = scores.errors(expected, measured)
            covered = scores.coverage(low, high, bound, measured)["all"]
            yield [gpu, start, f"{mape:.1f} / {median:.1f} / {p90:.1f}", "8 / 6 / 17", f"{covered:.0f}"]
        predictor.close()


def heuristics(folder):
    """NVIDIA's own estimates beside ours, of the same sample of rows."""
    for gpu, rows in by_gpu(folder, "gemm_bf16").items():
        found = matmul_heuristics.estimates(gpu, rows)
        if found is None:
            continue
        situation = Situation("", "", gpu, rows)
        chosen, theirs = found
        measured, ours = situation.measured[chosen], situation.expected[chosen]
        for title, kept in (("all", measured > 0), ("above 50 µs", measured > 50e-6)):
            yield [f"{gpu}, {title}", str(kept.sum()),
                   *("{:.1f} / {:.1f} / {:.1f}".format(*scores.errors(x[kept], measured[kept]))
                     for x in (ours, theirs))]


def alignment(folder):
    """Lines [class, median TFLOP/s, predicted]: a product of 4096³ whose rows start at multiples of
    just so many elements, scaled to the median of the aligned class."""
    rows = tables.read_csv(folder, "alignment_a100")
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        classes = [row for row in rows if row["dtype"] == dtype]
        keys = ("a_b_leading_dim_alignment_elements", "c_leading_dim_alignment_elements")
        made = []
        for row in classes:
            operand, out = (int(row[key]) for key in keys)
            stride = lambda step: 4096 + (step if step < 8 else 0)
            op = (f"gemm {dtype} m=4096 n=4096 k=4096 x_stride={stride(operand)}"
                  f" w_stride={stride(operand)} out_stride={stride(out)}")
            made.append(tables.Row("a100_sxm4_80gb", (op,), 1.0, row))
        predictor = Predictor("a100_sxm4_80gb", made)
        seconds = predictor.predict()[0]
        predictor.close()
        aligned = classes[-1]
        for row, predicted in zip(classes, seconds):
            rate = float(aligned["median_tflops"]) * seconds[-1] / predicted
            measured = float(row["median_tflops"])
            yield [f"{dtype}, operands {row[keys[0]]}, output {row[keys[1]]}", f"{measured:.0f}",
                   f"{rate:.0f}", f"{100 * (rate / measured - 1):+.0f}"]


def networks(folder):
    """Lines [network, measured, predicted, error, NeuSight's error] of whole models."""
    for run in whole_models.whole_models(folder):
        predictor = Predictor(run.gpu, [tables.Row(run.gpu, (op,), 1.0, {}) for op in run.ops])
        predicted = float(np.sum(predictor.predict()[0] * run.counts))
        predictor.close()
        neusight = 1e-3 * float(run.columns["neusight_ms"])
        yield [f"{run.columns['run']}, {run.gpu}", f"{1e3 * run.seconds:.0f}",
               f"{1e3 * predicted:.0f}", f"{100 * (predicted / run.seconds - 1):+.1f}",
               f"{100 * (neusight / run.seconds - 1):+.1f}"]


def markdown(header, lines):
    out = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    out += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(out) + "\n"


SCORE_HEADER = ["rows", "count", "MAPE / median / p90", "bar", "bias", "inside the 90 % range",
                "roofline", "fitted"]


def report(folder, only):
    """The tables as Markdown, one after the other."""
    sections = {}
    for section, situation in situations(folder):
        if only in situation.title:
            sections.setdefault(section, []).append(situation.line())
    for section, lines in sections.items():
        yield f"## {section}\n\n" + markdown(SCORE_HEADER, lines)
    if only:
        return
    yield ("## Fifty points\n\nThe same products after a calibration with the first 50 shapes of `rooftile "
           "measure`. It starts from all\nthat is known of the GPU, as the command does; from the constants "
           "of its generation without the learned\ncorrections, which have seen these rows; or from other "
           "generations alone, as for a GPU like none that was\nmeasured.\n\n"
           + markdown(["GPU", "start", "MAPE / median / p90", "bar", "inside the 90 % range"],
                      calibrations(folder)))
    yield ("## Claims\n\nOf neighbouring sizes (up to 1.5 times apart) whose predicted times or "
           "throughput differ by more than\n5 %: whether the measured ones differ the same way, where "
           "`compare` is sure and altogether, and whether\nthe measured saving lies in the range that "
           "`compare` prints.\n\n" + markdown(
               ["claim", "agrees, %", "bar", "of", "all predicted changes agree, %",
                "savings inside their range, %", "of"], signs(folder)))
    lines = list(alignment(folder))
    if lines:
        yield ("## Alignment on A100, TFLOP/s\n\n"
               + markdown(["class, in elements", "measured", "predicted", "error, %"], lines))
    lines = list(heuristics(folder))
    if lines:
        yield ("## Beside nvMatmulHeuristics\n\nRun times that NVIDIA's package (0.1.0.27) estimates for "
               "the kernels it would choose, on a random\nsample of the bf16 products; MAPE / median / "
               "p90.\n\n" + markdown(["rows", "count", "Rooftile", "nvMatmulHeuristics"], lines))
    lines = list(networks(folder))
    if lines:
        for mode in ("inf", "train"):
            own = [abs(float(line[3])) for line in lines if f"-{mode}-" in line[0]]
            other = [abs(float(line[4])) for line in lines if f"-{mode}-" in line[0]]
            if own:
                lines.append([f"**mean error, {mode}**", "", "", f"**{np.mean(own):.1f}**",
                              f"{np.mean(other):.1f}"])
        yield ("## Whole networks, fp32\n\n"
               + markdown(["run", "measured, ms", "predicted, ms", "error, %", "NeuSight, %"], lines))


INTRODUCTION = """# Accuracy of the time model

Written by `benchmarks/accuracy` on {date}; the constants come from
[these fits](time_model.md#where-the-constants-come-from). Errors are MAPE / median / 90th percentile of
|predicted / measured − 1| in per cent, each row counting the same. *Roofline* is the larger of work over
data-sheet peak and traffic over data-sheet bandwidth, *fitted* a roofline with three constants fitted to
the very rows it is scored on; both are MAPE. Constants were fitted to rows of the same tables, so these
are errors on known GPUs; the fitting tools (`tools/fit_*`) print errors on shapes, sizes and GPUs left out.
[Profiles](#profiles) of whole programs, at the end, are further off than tables of single kernels.
NeuSight's rows (fp32 linear, bmm, elementwise, layer norm, softmax, fp32 forward) are single launches on an
idle GPU: they are scored with the host's time before the kernel added, which is no part of the model.

Measurements: ai-dynamo/aiconfigurator (Apache-2.0), sitar-lab/NeuSight (MIT), baidu-research/DeepBench
(Apache-2.0), casys-kaist/LLMServingSim (MIT).

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--write", metavar="FILE", help="the page to write")
    parser.add_argument("--only", default="", metavar="TEXT", help="situations whose name holds it")
    options = parser.parse_args()
    if not options.only:  # before the machine is warm
        alone, corrected = (speed(sections) / 1e6 for sections in ({"residual": False}, {}))
        print(f"Million products a second on one core: {alone:.2f} by the kernel model alone (bar 1), "
              f"{corrected:.2f} with learned corrections (bar 0.2)\n")
    text = ""
    for section in report(options.folder, options.only):
        print(section, flush=True)
        text += section + "\n"
    if options.write:
        page = pathlib.Path(options.write)
        old = page.read_text(encoding="utf-8") if page.exists() else ""
        _, profiles, scores_of_traces = old.partition("\n## Profiles\n")  # tools/fit_profiles writes them
        page.write_text(INTRODUCTION.format(date=datetime.date.today()) + text.rstrip() + "\n" + profiles
                        + scores_of_traces, encoding="utf-8")


if __name__ == "__main__":
    main()
