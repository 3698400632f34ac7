#!/usr/bin/env python3
"""Captures models that libraries build from a description, as `rooftile check config.json` and `timm:NAME` do.

    python benchmarks/capture_zoo/descriptions.py transformers|diffusers|timm [--sample 60] [--seed 1] [--names …]

transformers: each model type with its default config, as the class of its head where it has one; diffusers: each
model with its default arguments; timm: each name. One line for each: captured or why not. What the library itself does
not build from its defaults counts apart: a published config says more.
"""

import argparse
import inspect
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python")]

import torch  # noqa: E402
from rooftile import _build  # noqa: E402
from rooftile._capture import step  # noqa: E402, F401  loaded once, for all processes

# Heads in the order in which they are taken.
HEADS = ("CAUSAL_LM", "SEQ_TO_SEQ", "IMAGE_TEXT", "IMAGE_CLASS", "AUDIO_CLASS", "MASKED_LM", "OBJECT", "CTC")
NOT_BUILT = "its library does not build it"


def of_transformers():
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    tables = [name for name in vars(modeling_auto) if name.startswith("MODEL_FOR_") and name.endswith("_MAPPING_NAMES")]
    tables.sort(key=lambda name: next((at for at, head in enumerate(HEADS) if head in name), len(HEADS)))

    def description(kind):
        config = {**CONFIG_MAPPING[kind]().to_dict(), "model_type": kind}
        heads = [found for name in tables if (found := getattr(modeling_auto, name).get(kind))]
        if heads:
            config["architectures"] = [heads[0] if isinstance(heads[0], str) else heads[0][0]]
        return config

    return {kind: lambda kind=kind: description(kind) for kind in CONFIG_MAPPING}


def of_diffusers():
    import diffusers

    classes = {name: getattr(diffusers, name, None) for name in dir(diffusers)}
    return {name: lambda name=name: {"_class_name": name} for name, found in classes.items()
            if inspect.isclass(found) and issubclass(found, diffusers.ModelMixin) and found is not diffusers.ModelMixin}


def of_timm():
    import timm

    return dict.fromkeys(timm.list_models(), None)


LIBRARIES = {"transformers": of_transformers, "diffusers": of_diffusers, "timm": of_timm}


def capture(name, description, mode):
    """The capture's header, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"timm:{name}"
        if description is not None:
            target = f"{folder}/config.json"
            try:
                Path(target).write_text(json.dumps(description(), default=str))
            except Exception as error:  # any: a default config may be refused by its own checks
                return f"{NOT_BUILT}: {error}"
        try:
            _build.captured(target, _build.Wanted(mode=mode, states_batch=False), f"{folder}/out.json")
        except _build.BuildError as error:
            return str(error)
        return json.loads(Path(f"{folder}/out.json").read_text())["rooftileCapture"]


def in_a_process(name, description, mode, limit_s):
    """As `capture`, without what a library leaves in memory, and with an end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(limit_s)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        begin = time.process_time()
        found = capture(name, description, mode)
        os.write(writing, json.dumps([found, time.process_time() - begin]).encode()[:60000])
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return json.loads(data) if data else ["it took too long, or too much memory", float(limit_s)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--sample", type=int, help="so many, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--names", nargs="*", help="these alone")
    parser.add_argument("--mode", default="inference", choices=("inference", "train"))
    parser.add_argument("--limit", type=int, default=120, help="seconds for each (default: 120)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ.update(_build.OFFLINE)
    torch.set_num_threads(1)
    known = LIBRARIES[options.library]()
    names = options.names or list(known)
    if options.sample:
        names = random.Random(options.seed).sample(sorted(names), min(options.sample, len(names)))
    counted = Counter()
    for name in names:
        found, seconds = in_a_process(name, known[name], options.mode, options.limit)
        kind = "captured" if isinstance(found, dict) else "not built" if found.startswith(NOT_BUILT) else "refused"
        counted[kind] += 1
        said = found
        if kind == "captured":
            said = f"{found['parameters'] / 1e6:.1f} M parameters; {'; '.join(found['notes'])}"
        print(f"{kind:9} {name} [{seconds:.1f} s] {said.splitlines()[0][:240]}", flush=True)
    print(f"{counted['captured']} of {len(names)} captured, {counted['refused']} refused, {counted['not built']} that the "
          "library does not build from its defaults")


if __name__ == "__main__":
    main()
