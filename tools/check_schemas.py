#!/usr/bin/env python3
"""Checks what a rooftile binary writes for machines against the contracts in docs/formats.

Usage: check_schemas.py BINARY [SARIF_SCHEMA.json]

Needs the package jsonschema. With the official SARIF 2.1.0 schema as second argument the SARIF
output is validated against it too; without, its required properties are checked.
"""
import csv
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMATS = ROOT / "docs" / "formats"
CSV_HEADER = ("name,kind,dtype,phase,dims,count,flop,bytes,bound,time_s,time_low_s,time_high_s,"
              "launch_s,compute_s,memory_s,power_s,measured_s,kernels,kernel,tile,blocks_per_sm,"
              "tensor_core,flop_per_byte,ridge_flop_per_byte,calls,total_s,p10_s,p90_s,share_of_busy,stage")

WORKLOADS = {
    "vocabulary": "gemm vocab bf16 m=4096 n=50257 k=768\n",
    "aligned": "gemm proj fp16 m=8192 n=4096 k=4096\n",
    "mixed": (
        "gemm qkv bf16 m=4096 n=2304 k=768 count=12\n"
        'gemm odd,"name" fp16 m=1001 n=33 k=999\n'
        "softmax probs bf16 rows=49152 cols=1024\n"
        "elementwise act bf16 fn=gelu elements=12582912\n"
        "other mystery fp32 fn=MyOp\n"
    ),
}

CONFIG = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 256, "n_layer": 4,
          "n_head": 4, "n_positions": 512, "vocab_size": 5003, "torch_dtype": "bfloat16"}

SCRIPT = """import torch
from torch import nn
model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for x, y in loader:
    with torch.cuda.amp.autocast():
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()  # rooftile: allow no/such-rule
"""


def run(binary, arguments, text=""):
    """Standard output of a command that must read its input."""
    done = subprocess.run(
        [binary, *arguments], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode not in (0, 1):
        raise ValueError(f"exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def run_on_script(binary, output_format):
    """A report on a training script."""
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "train.py"
        script.write_text(SCRIPT)
        return run(binary, ["check", str(script), "--verbose", "--format", output_format])


def schema(name):
    """A contract, itself checked against its dialect."""
    contract = json.loads((FORMATS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(contract)
    return contract


def check_json(name, text):
    """Validates one document against the contract `name` and returns it."""
    document = json.loads(text)
    jsonschema.Draft202012Validator(schema(name)).validate(document)
    return document


def check_ranges(value):
    """low <= expected <= high, wherever a range stands."""
    if isinstance(value, dict):
        if "expected" in value:
            assert value["low"] <= value["expected"] <= value["high"], value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            check_ranges(part)


def check_report(text):
    """A report: its contract, its ranges, and parts that sum to the total."""
    report = check_json("report", text)
    check_ranges(report)
    if report["total_s"]:
        parts = sum(kind["time_s"] for kind in report["kinds"])
        assert abs(parts - report["total_s"]["expected"]) <= 1e-9 + 1e-6 * parts, "kinds != total"
    assert report["coverage"]["skipped"] == sum(report["skipped"].values())


def check_csv(csv_text, json_text):
    """The header, the number of columns, and the same rows as the JSON form."""
    assert csv_text.split("\n", 1)[0] == CSV_HEADER, "header"
    rows = list(csv.DictReader(io.StringIO(csv_text), strict=True))
    ops = check_json("ops", json_text)["ops"]
    check_ranges(ops)
    assert len(rows) == len(ops), "one row per operation"
    for row, op in zip(rows, ops):
        assert None not in row and None not in row.values(), row
        for key in ("name", "kind", "dtype", "phase", "dims"):
            assert row[key] == op[key], (key, row[key], op[key])
        assert int(row["count"]) == op["count"]
        time, parts = op["time_s"] or {}, op["parts_s"] or {}
        numbers = {"flop": op["flop"], "bytes": op["bytes"], "time_s": time.get("expected"),
                   "time_low_s": time.get("low"), "time_high_s": time.get("high"),
                   **{f"{part}_s": parts.get(part) for part in ("launch", "compute", "memory", "power")}}
        for key, value in numbers.items():
            assert row[key] == "" if value is None else math.isclose(
                float(row[key]), value, rel_tol=1e-5), (key, row[key])


def check_sweep(binary):
    """The contract of a sweep, and the same rows in the CSV form."""
    text = "workload batch=4\n" + WORKLOADS["mixed"].replace("1001", "4096")
    flags = ["sweep", text, "--gpu", "a100", "--batch", "1:64", "--format"]
    document = check_json("sweep", run(binary, [*flags, "json"]))
    check_ranges(document)
    rows = list(csv.DictReader(io.StringIO(run(binary, [*flags, "csv"])), strict=True))
    (curve,) = document["curves"]
    assert [int(row["batch"]) for row in rows] == [row["batch"] for row in curve["rows"]]
    for row, same in zip(rows, curve["rows"]):
        assert math.isclose(float(row["time_s"]), same["time_s"]["expected"], rel_tol=1e-9)
        assert row["fit"] == same["fit"]
        assert math.isclose(float(row["launch_s"]), same["launch_s"]["expected"], rel_tol=1e-9)
        assert abs(sum(same["bound"].values()) - 1) < 1e-6


def check_tune(binary):
    """The contract of a search for sizes, and the same shapes in the CSV form."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        flags = ["tune", str(config), "--gpu", "a100", "--fix", "n_layer=4", "--format"]
        document = check_json("tune", run(binary, [*flags, "json"]))
        rows = list(csv.DictReader(io.StringIO(run(binary, [*flags, "csv"])), strict=True))
    check_ranges(document)
    assert len(rows) == 1 + len(document["front"])
    assert {size: int(rows[0][size]) for size in document["sizes"]} == document["sizes"]
    for row, shape in zip(rows, [document["present"], *document["front"]]):
        assert math.isclose(float(row["time_per_sample_s"]), shape["time_per_sample_s"], rel_tol=1e-9)


def check_sarif_fixes(text):
    """Fixes in SARIF are those of the JSON form, and change the script where it says."""
    results = json.loads(text)["runs"][0]["results"]
    fixes = [fix for result in results for fix in result.get("fixes", [])]
    assert fixes, "the script has findings with edits"
    for fix in fixes:
        assert fix["description"]["text"]
        for change in fix["artifactChanges"]:
            assert change["artifactLocation"]["uri"].endswith(".py")
            for replacement in change["replacements"]:
                region = replacement["deletedRegion"]
                assert region["byteOffset"] >= 0 and region["byteLength"] >= 0
                assert region["byteLength"] or replacement["insertedContent"]["text"]


def check_sarif(text, official):
    """Required properties of SARIF 2.1.0, and the official schema where it is given."""
    log = json.loads(text)
    if official:
        validator = jsonschema.validators.validator_for(official)
        validator(official).validate(log)
    assert log["version"] == "2.1.0"
    (sarif_run,) = log["runs"]
    driver = sarif_run["tool"]["driver"]
    assert driver["name"] == "rooftile"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)), "rule ids are unique"
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["help"]["text"] and rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in sarif_run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert re.fullmatch(r"[A-Za-z0-9._~/:%-]+", physical["artifactLocation"]["uri"])
        assert physical["region"]["startLine"] >= 1
    prints = [json.dumps(result["partialFingerprints"]) for result in sarif_run["results"]]
    assert len(prints) == len(set(prints)), "fingerprints are unique"
    check_ranges(sarif_run["results"])


def checks(binary, official):
    """Name and action of each check."""
    yield "rules", lambda: check_json("rules", run(binary, ["rules", "--format", "json"]))
    yield "gpus", lambda: check_json("gpus", run(binary, ["gpus", "--format", "json"]))
    pair = ["compare", WORKLOADS["vocabulary"].strip(), WORKLOADS["aligned"].strip(), "--gpu", "a100"]
    yield "compare", lambda: check_ranges(
        check_json("compare", run(binary, [*pair, "--format", "json"])))
    yield "sweep", lambda: check_sweep(binary)
    yield "tune", lambda: check_tune(binary)
    yield "script json", lambda: check_report(run_on_script(binary, "json"))
    yield "script sarif", lambda: check_sarif(run_on_script(binary, "sarif"), official)
    yield "script fixes", lambda: check_sarif_fixes(run_on_script(binary, "sarif"))
    for name, text in WORKLOADS.items():
        for mode in ("inference", "train"):
            flags = ["-", "--gpu", "h100", "--mode", mode]
            check = ["check", *flags, "--verbose", "--format"]
            yield (f"{name} {mode} json",
                   lambda c=check, t=text: check_report(run(binary, [*c, "json"], t)))
            yield (f"{name} {mode} sarif",
                   lambda c=check, t=text: check_sarif(run(binary, [*c, "sarif"], t), official))
            yield (f"{name} {mode} ops",
                   lambda f=flags, t=text: check_csv(run(binary, ["ops", *f, "--format", "csv"], t),
                                                     run(binary, ["ops", *f, "--format", "json"], t)))


def main():
    """Runs all checks; the exit code is 1 when one fails."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    official = json.loads(pathlib.Path(sys.argv[2]).read_text()) if len(sys.argv) == 3 else None
    passed = failed = 0
    for name, action in checks(sys.argv[1], official):
        try:
            action()
            passed += 1
        except (ValueError, KeyError, IndexError, TypeError, AssertionError, subprocess.SubprocessError,
                jsonschema.ValidationError) as error:
            failed += 1
            print(f"FAILED {name}: {error.__class__.__name__}: {error}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
