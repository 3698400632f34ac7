"""Public timing tables as operations in text form.

A table is a list of Row: the GPU's name (an alias that `--gpu` takes), the operation as a line of
docs/formats/workload.md without its name, the measured time in seconds, and what else the table
says (its columns). Rows that take several kernels hold several operations.

Tables are gzip CSV files NAME.csv.gz in one folder.
"""

import csv
import dataclasses
import functools
import gzip
import json
import pathlib
import random

import numpy as np


@dataclasses.dataclass
class Row:
    gpu: str
    ops: tuple  # of texts: "gemm bf16 m=1 n=2 k=3"
    seconds: float
    columns: dict


def gemm(r):
    return (f"gemm {r['dtype']} m={r['m']} n={r['n']} k={r['k']}",)


def gemm_fp8_with_quantize(r):
    """A bf16 activation, an fp8 weight: the activation is quantized row by row first."""
    return (f"gemm bf16 weight_dtype=fp8 m={r['m']} n={r['n']} k={r['k']}",)


def fp32_matmul(r):
    if r["op"] == "linear":  # torch.nn.Linear: the weight is stored [n, k]
        return (f"gemm fp32 m={int(r['batch']) * int(r['m'])} n={r['n']} k={r['k']}",)
    return (f"gemm fp32 batch={r['batch']} m={r['m']} n={r['n']} k={r['k']} layout=nn"
            " weight=activation",)


ROW_KINDS = {"ln": "norm fp32 fn=layer", "softmax": "softmax fp32"}


def fp32_rowwise_and_elementwise(r):
    rows, columns = int(r["rows"]), int(r["columns"])
    if r["op"] in ROW_KINDS:
        return (f"{ROW_KINDS[r['op']]} rows={rows} cols={columns}",)
    binary = r["op"] in ("add", "mul", "div", "pow")
    return (f"elementwise fp32 fn={r['op']} elements={rows * columns} inputs={1 + binary}",)


@functools.cache
def conv_places():
    """(batch, in channels, out channels, size) -> its place among the shapes of fp32_conv as they
    were measured: drawn one after the other from seed 42, those of more than 1e9 flop an image left
    out (NeuSight, neusight/Dataset/dims.py)."""
    draw, places = random.Random(42), {}
    while len(places) < 5000:
        batch = draw.randint(1, 64)
        in_channels, out_channels = draw.randint(3, 2048), draw.randint(3, 2048)
        draw.randint(3, 3)  # the filter
        size = draw.randint(5, 256)
        draw.randint(1, 1), draw.randint(1, 1)  # stride and padding
        if 2 * 9 * in_channels * out_channels * size**2 <= 1e9:
            places[batch, in_channels, out_channels, size] = len(places)
    return places


def fp32_conv(r):
    """Also notes the row's place in the recording, from 0; None for shapes of other recordings."""
    r["place"] = conv_places().get(tuple(
        int(r[c]) for c in ("batch", "in_channels", "out_channels", "input_size")))
    size, kernel = r["input_size"], r["kernel_size"]
    return (f"conv fp32 n={r['batch']} c={r['in_channels']} k={r['out_channels']}"
            f" in={size}x{size} kernel={kernel}x{kernel} stride={r['stride']}x{r['stride']}"
            f" pad={r['padding']}x{r['padding']}",)


def attention(r):
    window = int(r["window"])
    # Decode kernels mask nothing: the one query sees the whole cache.
    causal = " causal=1" if int(r["query_len"]) > 1 else ""
    dtypes = "bf16" if r["kv_dtype"] == "bfloat16" else "bf16 weight_dtype=fp8"
    return (f"attention {dtypes} batch={r['batch']} heads={r['heads']} kv_heads={r['kv_heads']}"
            f" q={r['query_len']} kv={r['kv_len']} d={r['head_dim']}{causal}"
            + (f" window={window}" if window > 0 else ""),)


def stream_bf16_to_fp8(r):
    return (f"cast bf16 out_dtype=fp8 elements={int(r['rows']) * int(r['columns'])}"
            f" rows={r['rows']}",)


DEEPBENCH_DTYPES = {"fp16_in_fp32_acc": "fp16", "fp32": "fp32"}


def deepbench_gemm(r):
    """DeepBench's matrices are column-major: its out[m,n] is our out[n,m]."""
    letters = {"N": "n", "T": "t"}
    layout = letters[r["trans_b"]] + letters[r["trans_a"]]
    return (f"gemm {DEEPBENCH_DTYPES[r['precision']]} m={r['n']} n={r['m']} k={r['k']}"
            f" layout={layout}",)


def deepbench_conv(r, phase):
    return (f"conv {DEEPBENCH_DTYPES[r['precision']]} n={r['batch']} c={r['in_channels']}"
            f" k={r['out_channels']} in={r['height']}x{r['width']}"
            f" kernel={r['filter_h']}x{r['filter_w']} stride={r['stride_h']}x{r['stride_w']}"
            f" pad={r['pad_h']}x{r['pad_w']} phase={phase}",)


# Llama-3.1-8B; vLLM fuses q, k and v, and gate and up.
LLM_LAYERS = {
    "qkv_proj": "gemm bf16 m={t} n=6144 k=4096",
    "o_proj": "gemm bf16 m={t} n=4096 k=4096",
    "gate_up_proj": "gemm bf16 m={t} n=28672 k=4096",
    "down_proj": "gemm bf16 m={t} n=4096 k=14336",
    "lm_head": "gemm bf16 m={t} n=128256 k=4096",
}

# The memory-bound ones: SiLU times gate, RMS norm, rotary positions of query and key in place.
LLM_MEMORY_LAYERS = {
    "act_fn": "elementwise bf16 fn=silu_mul elements={act} inputs=2",
    "layernorm": "norm bf16 fn=rms rows={t} cols=4096",
    "final_layernorm": "norm bf16 fn=rms rows={t} cols=4096",
    "rotary_emb": "elementwise bf16 fn=rotary elements={rotary}",
    "embedding": "embedding bf16 vocab=128256 width=4096 lookups={t}",
}

SIMPLE = {
    "gemm_bf16": gemm,
    "gemm_fp8_with_quantize": gemm_fp8_with_quantize,
    "fp32_matmul": fp32_matmul,
    "fp32_rowwise_and_elementwise": fp32_rowwise_and_elementwise,
    "fp32_conv": fp32_conv,
    "attention_prefill_causal": attention,
    "attention_decode": attention,
    "stream_bf16_to_fp8": stream_bf16_to_fp8,
    "deepbench_gemm": deepbench_gemm,
}


def read_csv(folder, name):
    path = pathlib.Path(folder) / f"{name}.csv.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


PRODUCT_HOST_SHARE = 0.75  # about the fits of tools/fit_fp32


def host_share(gpu, op):
    """Share of an operation's fastest rows that passes before the kernel starts."""
    if op in ("linear", "bmm"):
        return PRODUCT_HOST_SHARE
    family = op if op in ROW_KINDS else "elementwise"
    shares = read_host_times()["fp32_rowwise_and_elementwise"]["share"]
    known = [shares[gpu]] if gpu in shares else shares.values()
    return float(np.mean([share[family] for share in known]))


def host_floors(rows):
    """(GPU, operation) -> the fastest rows' time, seconds, of NeuSight's single launches.

    A measured time is about host_share() of it and the kernel's time, one after the other; rows
    below some three floors measure the host.
    """
    groups = {}
    for row in rows:
        groups.setdefault((row.gpu, row.columns["op"]), []).append(row.seconds)
    return {key: sorted(seconds)[len(seconds) // 100] for key, seconds in groups.items()}


# What NeuSight's rows have besides kernels, a part of each table, as the fitting tools wrote it.
HOST_TIMES = pathlib.Path(__file__).with_name("host_times.json")


def read_host_times():
    return json.loads(HOST_TIMES.read_text(encoding="utf-8")) if HOST_TIMES.exists() else {}


def write_host_times(table, content):
    text = json.dumps(read_host_times() | {table: content}, indent=2) + "\n"
    HOST_TIMES.write_text(text, encoding="utf-8")


# Places at which the host's time of fp32_conv is fitted, linear between them.
CONV_HOST_PLACES = np.linspace(0, 5000, 11)


def conv_host_times(rows, fitted):
    """Seconds that each row of fp32_conv, all of one GPU, has besides its kernels.

    A row is the time between two events around one call on an idle GPU, so the host's way to the
    first kernel is in it. That grew from 0.05 to 0.3 (V100) or 0.8 ms (P100) while the table was
    recorded, whatever the shape. `fitted` at CONV_HOST_PLACES.
    """
    return np.interp([row.columns["place"] for row in rows], CONV_HOST_PLACES, fitted)


def known_conv_host_times(rows):
    """The same as tools/fit_convolution found them; 0 for a GPU or shape that it did not see."""
    fitted = read_host_times()["fp32_conv"]["host_s"].get(rows[0].gpu)
    if fitted is None or any(row.columns["place"] is None for row in rows):
        return np.zeros(len(rows))
    return conv_host_times(rows, fitted)


def read_llm_memory_layers(folder):
    """The memory-bound rows of llm_layers_bf16, which read() leaves out."""
    rows = []
    for r in read_csv(folder, "llm_layers_bf16"):
        tokens = int(r["tokens"])
        layer = LLM_MEMORY_LAYERS.get(r["layer"])
        if layer:
            op = layer.format(t=tokens, act=14336 * tokens, rotary=5120 * tokens)
            rows.append(Row(r["gpu"], (op,), float(r["time_us"]) * 1e-6, r))
    return rows


def read(folder, name):
    """The rows of a table; none where the file is absent."""
    rows = []
    for r in read_csv(folder, name):
        if name == "deepbench_conv":
            phases = {"forward": "fwd_us", "dgrad": "dgrad_us", "wgrad": "wgrad_us"}
            rows += [Row(r["gpu"], deepbench_conv(r, phase), float(r[column]) * 1e-6,
                         {**r, "phase": phase})
                     for phase, column in phases.items() if r[column]]
        elif name == "llm_layers_bf16":
            layer = LLM_LAYERS.get(r["layer"])
            if layer:
                rows.append(Row(r["gpu"], (layer.format(t=r["tokens"]),),
                                float(r["time_us"]) * 1e-6, r))
        else:
            rows.append(Row(r["gpu"], SIMPLE[name](r), float(r["time_us"]) * 1e-6, r))
    return rows
