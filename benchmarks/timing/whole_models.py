"""NeuSight's whole models as the kernels that eager PyTorch runs, in fp32 with TF32 off.

The workload is what `rooftile ops config.json` reads from a config of the public sizes. The reader
counts what a compiler or a fused attention leaves; eager mode runs more kernels, which eager()
adds: attention as separate steps with copies of the heads, tanh-GELU in eight kernels, dropout and
bias gradients in training.

A run is named model-mode-sequence-batch. "train" is a forward and a backward pass without loss and
optimizer; gradients of the pass before are still there, so each is added to.
"""

import csv
import dataclasses
import io
import json
import pathlib
import re
import subprocess
import tempfile

from timing.predictor import ROOT
from timing.tables import read_csv

BINARY = ROOT / "build/release/rooftile"

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257,
        "activation_function": "gelu_new"}
CONFIGS = {
    "bert_large": {"model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24,
                   "num_attention_heads": 16, "intermediate_size": 4096, "hidden_act": "gelu",
                   "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2},
    "gpt2_large": {**GPT2, "n_embd": 1280, "n_layer": 36, "n_head": 20, "n_positions": 1024},
    "gpt3_xl": {**GPT2, "n_embd": 2048, "n_layer": 24, "n_head": 16, "n_positions": 2048},
    "gpt3_27": {**GPT2, "n_embd": 2560, "n_layer": 32, "n_head": 32, "n_positions": 2048},
    "opt_13": {"model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 2048,
               "num_hidden_layers": 24, "num_attention_heads": 32, "ffn_dim": 8192,
               "activation_function": "relu", "vocab_size": 50272,
               "max_position_embeddings": 2048},
}
BERT_HEADS = {"inf": "BertForSequenceClassification", "train": "BertForPreTraining"}

FP32 = 4
DROPOUT_BYTES = 2 * FP32 + 1  # per element: input, output and a mask of bytes


@dataclasses.dataclass
class ModelRow:
    """One run: `ops` like those of tables.Row, each `counts` times."""

    gpu: str
    ops: tuple
    counts: tuple
    seconds: float
    columns: dict


def config_of(model, mode):
    config = dict(CONFIGS[model])
    if model.startswith("bert"):
        config["architectures"] = [BERT_HEADS[mode]]
    return config


def read_ops(config, batch, length, mode):
    """The rows of `rooftile ops`; their form does not depend on the GPU."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        command = [str(BINARY), "ops", str(path), "--gpu", "v100_pcie_32gb", "--batch", str(batch),
                   "--seq", str(length), "--dtype", "fp32", "--format", "csv", "--mode",
                   "train" if mode == "train" else "inference"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(text)))


def dims_of(row):
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)(?:\s|$)", row["dims"])}


def copy(elements):
    return f"layout fp32 elements={elements} perm=0x2x1x3"


def passes(fn, elements, count):
    """An elementwise kernel that moves `count` fp32 tensors."""
    return f"other fp32 fn={fn} bytes={FP32 * elements * count}"


def dropout(elements):
    return f"other fp32 fn=dropout bytes={DROPOUT_BYTES * elements}"


def products(d, phase):
    batch = d["batch"] * d["heads"]
    shapes = ((d["q"], d.get("kv", d["q"]), d["d"]), (d["q"], d["d"], d.get("kv", d["q"])))
    return [f"gemm fp32 batch={batch} m={m} n={n} k={k} layout=nn weight=activation{phase}"
            for m, n, k in shapes]


def attention_forward(d, training):
    width = d["batch"] * d["heads"] * d["q"] * d["d"]
    rows, cols = d["batch"] * d["heads"] * d["q"], d.get("kv", d["q"])
    scores, context = products(d, "")
    steps = [copy(width)] * 3 + [scores, passes("scale", rows * cols, 2),
                                 passes("mask", rows * cols, 2),
                                 f"softmax fp32 rows={rows} cols={cols}"]
    return steps + [dropout(rows * cols)] * training + [context, copy(width)]


def attention_backward(d, model):
    width = d["batch"] * d["heads"] * d["q"] * d["d"]
    rows, cols = d["batch"] * d["heads"] * d["q"], d.get("kv", d["q"])
    scores, context = products(d, " phase=dgrad")
    steps = [copy(width), context, dropout(rows * cols),
             f"softmax fp32 rows={rows} cols={cols} phase=dgrad", passes("scale", rows * cols, 2),
             scores] + [copy(width)] * 3
    if model.startswith("bert"):  # the sum of the gradients from query, key and value
        return steps + [passes("add", width, 3)] * 2
    # The gradient of torch.where, and query, key and value put together again.
    return steps + [passes("where", rows * cols, 2), passes("cat", width, 6)]


# Passes of the kernels of 0.5 x (1 + tanh(s (x + c x^3))), one expression after the other, and of
# its gradient.
TANH_GELU_FORWARD = (2, 2, 2, 3, 2, 2, 2, 3)
TANH_GELU_BACKWARD = (3, 3, 3, 2, 2, 2, 2, 3, 2, 3, 3)


def steps_of(row, model, training):
    """The kernels of one row of `rooftile ops`, in eager mode."""
    kind, d, forward = row["kind"], dims_of(row), row["phase"] == "forward"
    text = f"{kind} fp32 {row['dims']}" + ("" if forward else f" phase={row['phase']}")
    if kind == "optimizer":
        return []
    if kind == "attention":
        return attention_forward(d, training) if forward else attention_backward(d, model)
    if kind == "elementwise" and "fn=gelu" in row["dims"] and not model.startswith("bert"):
        counts = TANH_GELU_FORWARD if forward else TANH_GELU_BACKWARD
        return [passes("gelu", d["elements"], count) for count in counts]
    if kind == "gemm" and row["phase"] == "wgrad" and "bias=1" in row["dims"]:
        return [text, f"reduce fp32 fn=sum elements={d['m'] * d['n']} outputs={d['n']}"]
    if kind == "elementwise" and training and row["name"].endswith("_residual"):
        elements = d["elements"]  # dropout stands before each residual addition
        return [text, dropout(elements)]
    return [text]


def training_extras(rows):
    """Gradient of the loss with respect to the logits, and gradients added to those before."""
    logits = max((dims_of(r) for r in rows if r["kind"] == "gemm" and r["phase"] == "forward"),
                 key=lambda d: d["n"])
    parameters = next(dims_of(r)["parameters"] for r in rows if r["kind"] == "optimizer")
    elements = logits["m"] * logits["n"]
    return [passes("nll_backward", elements, 1), passes("log_softmax_backward", elements, 3),
            passes("accumulate", parameters, 3)]


def eager(rows, model, mode):
    """(operations, counts) of a whole run."""
    training = mode == "train"
    ops, counts = [], []
    for row in rows:
        for step in steps_of(row, model, training):
            ops.append(step)
            counts.append(int(row["count"]))
    for step in training_extras(rows) if training else []:
        ops.append(step)
        counts.append(1)
    return tuple(ops), tuple(counts)


def whole_models(folder):
    """The runs of fp32_whole_model.csv.gz in `folder`; none where the file is absent."""
    rows = []
    for r in read_csv(folder, "fp32_whole_model"):
        model, mode, length, batch = r["run"].rsplit("-", 3)
        if model not in CONFIGS:
            continue
        ops, counts = eager(read_ops(config_of(model, mode), batch, length, mode), model, mode)
        rows.append(ModelRow(r["gpu"], ops, counts, float(r["measured_ms"]) * 1e-3, r))
    return rows
