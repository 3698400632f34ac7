#!/usr/bin/env python3
"""Captures a training step of every network of the zoo, and compares it with PyTorch's own counts.

    python benchmarks/capture_zoo/capture_zoo.py --rooftile ./rooftile [--only resnet] [--markdown FILE]

A network that is captured may fail in the counter; the reason is then said in place of the ratio. `--models FILE` takes
other networks: a Python file with a dictionary ZOO of functions that return a module and its inputs, and OPTIONS, more
arguments of the capture by the same names.

Needs torch, torchvision, timm, transformers, diffusers, torchaudio and torch_geometric. The
flop of matrix products are those that `rooftile check` reads from the file, against
torch.utils.flop_counter over the same step.
"""

import argparse
import gc
import importlib.util
import json
import logging
import math
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import torch  # noqa: E402
import torchvision_ops  # noqa: E402
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException  # noqa: E402

torchvision_ops.define()

from rooftile._capture import capture  # noqa: E402
from rooftile._capture.step import _Pass, unwrapped  # noqa: E402

# Recurrent layers are none of the counter's operators: networks with them are not compared, unless they ran
# on real values, where a CPU runs them as products.
MATRIX_KINDS = ("gemm", "conv", "attention", "recurrent")


def _grouped_gradient(grad, x, w, bias, stride, padding, dilation, transposed, output_padding, groups, mask,
                      out_shape=None):
    """Each gradient of a convolution takes as much as the convolution; PyTorch's own count of a
    grouped one leaves the groups out."""
    spatial = (x if transposed else grad)[2:]
    forward = 2 * x[0] * w[0] * w[1]
    for size in list(spatial) + list(w[2:]):
        forward *= size
    return forward * sum(bool(asked) for asked in mask[:2])


def _of_numbers(operator):
    """A product's count by the counter; a complex multiply-add is four real ones. A sparse factor, which the counter
    takes for a dense one, is none of the matrix kinds.
    """
    from torch.utils.flop_counter import flop_registry

    def count(*args, out_val=None, **kwargs):
        if any(isinstance(value, torch.Tensor) and value.layout is not torch.strided for value in args):
            return 0
        times = 4 if any(isinstance(value, torch.Tensor) and value.is_complex() for value in args) else 1
        return times * flop_registry[operator](*args, out_val=out_val, **kwargs)

    count._get_raw = True
    return count


def _mapping():
    """What the counter leaves out, or counts otherwise than its other operators."""
    from torch.utils.flop_counter import sdpa_flop_count

    aten = torch.ops.aten
    return {
        **{product: _of_numbers(product) for product in (aten.mm, aten.addmm, aten.bmm, aten.baddbmm)},
        aten._euclidean_dist: lambda a, b, out_shape=None: 2 * math.prod(a[:-1]) * b[-2] * (a[-1] + 2),
        aten.mv: lambda a, b, out_shape=None, **kwargs: 2 * math.prod(a),
        aten.convolution_backward: _grouped_gradient,
        aten._grouped_mm: lambda a, b, *args, out_shape=None, **kwargs: 2 * math.prod(a) * b[-1],
        aten._scaled_dot_product_flash_attention_for_cpu:
            lambda q, k, v, *args, out_shape=None, **kwargs: sdpa_flop_count(q, k, v),
        aten._scaled_dot_product_flash_attention_for_cpu_backward:
            lambda grad, q, k, v, *args, out_shape=None, **kwargs: 2 * sdpa_flop_count(q, k, v),
    }


def zoo_of(path):
    """Networks by name, and more arguments of their captures."""
    spec = importlib.util.spec_from_file_location("zoo", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ZOO, getattr(module, "OPTIONS", {})


def reference_flop(model, inputs, real, options):
    """Of PyTorch's flop counter over the same step, on fake tensors where the capture ran on them and it can."""
    try:
        return _counted(model, inputs, real, options)
    except (DataDependentOutputException, DynamicOutputShapeException):
        return _counted(model, inputs, True, options)
    except RuntimeError as error:
        if "BF16" not in str(error) and "BFloat16" not in str(error):  # the type of grouped products that the counter can run
            raise
        return _counted(model.bfloat16(), inputs, real, options)


def _counted(model, inputs, real, options):
    import contextlib
    import copy

    from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    model = unwrapped(model, [])
    step = _Pass(model, inputs, options.get("kwargs", {}), "train", None, options.get("loss"))
    mode = contextlib.nullcontext() if real else FakeTensorMode(allow_non_fake_inputs=True)
    copying = contextlib.nullcontext() if real else FakeCopyMode(mode)
    with copying:
        copied = copy.deepcopy(model)
    copied.train()
    facts = type("Facts", (), {})()
    torch.manual_seed(0)
    with mode, FlopCounterMode(display=False, custom_mapping=_mapping()) as counter:
        take = (lambda t: t.detach().clone()) if real else mode.from_tensor
        args, kwargs = step._given(take)
        step._loss_of(copied(*args, **kwargs), facts).backward()
    return counter.get_total_flops()


def counted_flop(rooftile, path, real):
    run = subprocess.run([rooftile, "ops", path, "--gpu", "h100", "--format", "json"],
                         capture_output=True, text=True)
    report = json.loads(run.stdout)
    rows = report["ops"]
    flop = sum(_flop(row) * row["count"] for row in rows if row["kind"] in MATRIX_KINDS)
    return None if not real and any(row["kind"] == "recurrent" for row in rows) else flop, report


def _flop(row):
    """As the counter has it: causal attention whole, and no scores computed again for the gradient."""
    if row["kind"] != "attention":
        return row["flop"]
    dims = {key: value for key, _, value in (word.partition("=") for word in row["dims"].split())}
    query, size = int(dims["q"]), int(dims["d"])
    keys, values = int(dims.get("kv", query)), int(dims.get("dv", size))
    forward = 2 * int(dims["batch"]) * int(dims["heads"]) * query * keys * (size + values)
    return forward if row["phase"] == "forward" else 2 * forward


def run_one(name, make, rooftile, folder, options):
    row = {"name": name}
    torch.manual_seed(0)
    model, inputs = make()
    row["parameters_of_module"] = sum(p.numel() for p in model.parameters())
    begin = time.process_time()  # the machine may have other work
    found = capture(model, inputs, mode="train", **options)
    row["seconds"] = time.process_time() - begin
    row.update(parameters=found.parameters, operators=len(found.calls), real=found.real_values)
    path = found.save(Path(folder) / (name.replace("/", "_") + ".rooftile.json"))
    row["file"] = path
    try:
        row["reference_flop"] = reference_flop(model, inputs, found.real_values, options)
    except Exception as error:  # the counter's limits are not the zoo's
        row["reference_error"] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
    if rooftile:
        row["flop"], report = counted_flop(rooftile, path, found.real_values)
        row["skipped"] = report["skipped"]
    return row


def as_markdown(rows):
    lines = ["| network | parameters | operators | seconds | flop, of the counter's | on |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['name']} | refused: {row['error']} | | | | |")
            continue
        ratio = f"{row['flop'] / row['reference_flop']:.4f}" if row.get("reference_flop") and row.get("flop") else "–"
        lines.append(f"| {row['name']} | {row['parameters'] / 1e6:.1f} M | {row['operators']} | "
                     f"{row['seconds']:.1f} | {ratio} | {'real values' if row['real'] else 'shapes'} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooftile", help="the program; without it no flop are compared")
    parser.add_argument("--models", default=HERE / "models.py", help="the networks; default: those of this folder")
    parser.add_argument("--only", default="", help="names that hold this text")
    parser.add_argument("--markdown", help="write the table here")
    parser.add_argument("--json", help="write all numbers here")
    parser.add_argument("--keep", help="folder for the captures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(2)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if options.keep:
            Path(options.keep).mkdir(parents=True, exist_ok=True)
        zoo, more = zoo_of(options.models)
        for name, make in zoo.items():
            if options.only not in name:
                continue
            try:
                row = run_one(name, make, options.rooftile, options.keep or folder, more.get(name, {}))
            except Exception as error:
                row = {"name": name, "error": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
            rows.append(row)
            print(as_markdown([row]).splitlines()[-1], flush=True)
            gc.collect()
    captured = [row for row in rows if "error" not in row]
    slow = sum(row["seconds"] > 10 for row in captured)
    same = sum(row["parameters"] == row["parameters_of_module"] for row in captured)
    print(f"{len(captured)} of {len(rows)} captured, {slow} of them in more than 10 s; {same} with the parameters of "
          "their module")
    off = {row["name"]: abs(row["flop"] / row["reference_flop"] - 1) for row in captured
           if row.get("flop") and row.get("reference_flop")}
    print(f"flop of {len(off)} compared, {sum(value <= 0.005 for value in off.values())} within 0.5 %; further off: "
          + (", ".join(f"{name} {value:.2%}" for name, value in off.items() if value > 0.005) or "none"))
    if options.markdown:
        Path(options.markdown).write_text(as_markdown(rows))
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
