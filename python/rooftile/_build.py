"""Builds models of transformers, diffusers and timm by their description, without weights, and captures them.

``python -m rooftile._build TARGET [--mode=train] [--dtype=bf16] [--batch=8] [--seq=512]`` is what the program runs
for a config.json whose family it does not read itself, and for ``timm:NAME``. It writes the capture to standard
output; where there is none, the reason, and ends with 2. Nothing is fetched from the network.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import json
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ._documented import Forms
from ._forms import (
    PIXELS,
    Sizes,
    diffusion_arguments,
    diffusion_forms,
    diffusion_size,
    known_forms,
    labels,
    patches_of_images,
    required,
    size_named,
)
from ._input import Input
from ._tries import Search

if TYPE_CHECKING:
    from ._capture.writer import Capture

FAILED = 2
TIMM = "timm:"
BATCH = 1  # where the user states none
# Weights that are made at random where a pass needs values.
MOST_BYTES = 2 << 30
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


class BuildError(Exception):
    """Why there is no model."""


@dataclass
class Wanted:
    """What the user says beside the model: as the flags of the program."""

    mode: str = "inference"
    dtype: Optional[str] = None
    batch: int = BATCH
    seq: Optional[int] = None
    states_batch: bool = True
    with_weights: bool = False  # made at random, for passes that need values


@dataclass
class Given:
    """Arguments by name, what they leave out, and forms of others that the model may ask for."""

    kwargs: dict[str, Any]
    notes: list[str]
    forms: Optional[Forms] = None

    def tensors(self) -> list[Any]:
        """Those of the arguments that are tensors."""
        return [value for value in self.kwargs.values() if hasattr(value, "shape")]


@dataclass
class Built:
    """A model, and what it may take: the first that it runs with is the one."""

    model: Any
    choices: list[Given]


def library(name: str) -> Any:
    """An installed library. Raises BuildError that says how to install it."""
    import importlib.util

    missing = [needed for needed in ("torch", name) if importlib.util.find_spec(needed) is None]
    if missing:
        install = f"{shlex.quote(sys.executable)} -m pip install {' '.join(missing)}"
        raise BuildError(f"{name} builds it, without weights, where it is installed: {install}")
    try:
        return importlib.import_module(name)
    except Exception as error:  # any: libraries break on each other's versions
        raise BuildError(f"{name} cannot be imported: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Class and first line of a message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def made(make: Any, wanted: Wanted) -> Any:
    """A model whose weights have shapes and no memory; real where its constructor needs values."""
    import torch

    from ._capture.values import WeightsOnMeta

    for context in () if wanted.with_weights else (WeightsOnMeta(), torch.device("meta")):
        with contextlib.suppress(RuntimeError, NotImplementedError), context:
            return make()
    return make()


# ---- timm


def from_timm(name: str, wanted: Wanted) -> Built:
    """A network of timm by its name."""
    timm = library("timm")
    if not timm.is_model(name.split(".")[0]):
        close = ", ".join(difflib.get_close_matches(name, timm.list_models(), 3))
        raise BuildError(f"timm {timm.__version__} has no model {name}" + (f"; it has {close}" if close else ""))
    model = made(lambda: timm.create_model(name, pretrained=False), wanted)
    size = tuple((getattr(model, "pretrained_cfg", None) or {}).get("input_size") or (3, PIXELS, PIXELS))
    (argument, *_) = inspect.signature(model.forward).parameters
    return Built(model, [Given({argument: Input((wanted.batch, *size))}, [])])


# ---- diffusers


def from_diffusers(config: Mapping[str, Any], wanted: Wanted) -> Built:
    """A network of diffusers by its config."""
    diffusers, name = library("diffusers"), str(config["_class_name"])
    found = getattr(diffusers, name, None)
    if found is None:
        raise BuildError(f"diffusers {diffusers.__version__} has no model {name}")
    if not hasattr(found, "from_config"):
        raise BuildError(f"{name} is made of other models, and not of a config")
    model = made(lambda: found.from_config(dict(config)), wanted)
    choices: list[Given] = []
    unknown: Optional[BuildError] = None
    for known in diffusion_forms(model, wanted.batch, wanted.seq):
        sample = next(iter(known.values()))
        forms = Forms(model, known, partial(diffusion_size, model, sample, wanted.seq))
        try:
            choices.append(Given(chosen(name, diffusion_arguments(model, known), forms), [], forms))
        except BuildError as error:
            unknown = error
    if unknown is not None and not choices:
        raise unknown
    return Built(model, choices)


# ---- transformers


def from_transformers(folder: Path, config: Mapping[str, Any], wanted: Wanted) -> Built:
    """A network of transformers by its config."""
    transformers = library("transformers")
    known_types = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    kind = config.get("model_type")
    if kind not in known_types:
        raise BuildError(f"transformers {transformers.__version__} has no model type {kind!r} either")
    settings = known_types[kind].from_dict(dict(config))
    named = next(iter(config.get("architectures") or ()), None)
    found = model_class(transformers, settings, named)
    if found is None:
        model = made(lambda: transformers.AutoModel.from_config(settings), wanted)
    else:
        model = made(lambda: getattr(found, "_from_config", found)(settings), wanted)
    sizes = Sizes(settings)
    known = known_forms(sizes, type(model).__name__, wanted.batch, wanted.seq)
    if any(name.endswith("grid_thw") for name in required(model)):
        known.update(patches_of_images(sizes, wanted.batch))
    forms = Forms(model, known, partial(size_named, sizes, wanted.batch, wanted.seq))
    return Built(model, transformers_inputs(model, settings, forms, wanted))


def model_class(transformers: Any, settings: Any, named: Optional[str]) -> Any:
    """The class that a config names, or the one that takes it where no automatic class does; else None."""
    import importlib

    module = type(settings).__module__.replace("configuration_", "modeling_")
    if named and hasattr(transformers, named):
        return getattr(transformers, named)
    if type(settings) in transformers.MODEL_MAPPING and not named:
        return None
    try:
        classes = vars(importlib.import_module(module))
    except ModuleNotFoundError:
        return None
    if named:
        return classes.get(named)
    own = [value for value in classes.values() if inspect.isclass(value) and value.__module__ == module
           and takes(value, type(settings))]
    own.sort(key=lambda value: bool(value.__name__.endswith("Model")))
    return own[-1] if own else None


def takes(kind: Any, config: type) -> bool:
    """Whether a class of modules is made from such a config; where it does not say so, its constructor does."""
    stated = getattr(kind, "config_class", None)
    if stated is not None or not hasattr(kind, "forward"):
        return stated is config
    arguments = [*inspect.signature(kind.__init__).parameters.values()][1:]
    return len(arguments) == 1 and arguments[0].annotation in (config, config.__name__)


def transformers_inputs(model: Any, settings: Any, forms: Forms, wanted: Wanted) -> list[Given]:
    """What a model of transformers may take, by its own names for it."""
    import torch

    if type(model).forward is torch.nn.Module.forward:
        raise BuildError(f"{type(model).__name__} has no pass of its own, its parts are called one by one: in Python, "
                         f"rooftile.check(model.{next(iter(dict(model.named_children())), 'part')}, …) checks one")
    names = inspect.signature(model.forward).parameters
    needed = [*required(model), *filter(names.__contains__, [getattr(model, "main_input_name", "")])]
    if getattr(settings, "is_encoder_decoder", False) and "decoder_input_ids" in names:
        needed.append("decoder_input_ids")
    if not needed:  # all have defaults: the one that stands first
        needed = [name for name in names if forms.get(name) is not None][:1]
    choices: list[Given] = []
    if "input_ids" in names and "pixel_values" in names:
        words = [name for name in needed if not name.startswith("pixel_values")] + ["input_ids"]
        choices.append(Given(arguments(model, forms, wanted, words), ["text alone: images are not captured"], forms))
        if "ForConditionalGeneration" not in type(model).__name__:  # which joins images to tokens of the text
            choices.insert(0, Given(arguments(model, forms, wanted, [*words, "pixel_values"]), [], forms))
    else:
        choices.append(Given(arguments(model, forms, wanted, needed), [], forms))
    return choices


def arguments(model: Any, forms: Forms, wanted: Wanted, needed: Sequence[str]) -> dict[str, Any]:
    """Values of these arguments, and of others that a training step or a plain pass has."""
    name, names = type(model).__name__, inspect.signature(model.forward).parameters
    given = chosen(name, list(dict.fromkeys(needed)), forms)
    if "use_cache" in names:
        given["use_cache"] = False
    label = labels(name, given, wanted.batch) if wanted.mode == "train" and "labels" in names else None
    if label is not None:
        given["labels"] = label
    return given


def chosen(name: str, needed: Sequence[str], known: Forms) -> dict[str, Any]:
    """Those that are needed. Raises BuildError for one of unknown form."""
    for argument in needed:
        if known.get(argument) is None:
            raise BuildError(f"the form of {name}'s input {argument} is not known: in Python, rooftile.check(model, "
                             f"{{'{argument}': …}}) takes it")
    return {argument: known.get(argument) for argument in needed}


# ---- all


def build(target: str, wanted: Wanted) -> Built:
    """The model of a config.json, or of ``timm:NAME``. Raises BuildError where there is none."""
    if target.startswith(TIMM):
        return from_timm(target[len(TIMM):], wanted)
    path = Path(target)
    config = json.loads(path.read_text(encoding="utf-8"))
    if "_class_name" in config:
        return from_diffusers(config, wanted)
    return from_transformers(path.parent, config, wanted)


def built_model(target: str, wanted: Wanted) -> Built:
    """As `build`; all that goes wrong is a BuildError."""
    try:
        return build(target, wanted)
    except BuildError:
        raise
    except Exception as error:  # any: constructors check their settings in many ways
        raise BuildError(f"its library does not build it: {first_line(error)}") from error


class ValuesNeededError(Exception):
    """A pass on fake tensors ended where it asked for a value."""


def needs_values(error: BaseException) -> bool:
    """Whether a pass would have gone on with real tensors."""
    return isinstance(error, NotImplementedError) or type(error).__module__.startswith(("torch._sub", "torch.fx"))


def first_that_runs(built: Built, wanted: Wanted) -> tuple[Given, Capture]:
    """Raises CaptureError, with the reason of the try that came furthest, where the model runs with none, and
    ValuesNeededError where it may with weights.
    """
    from ._capture import CaptureError, capture
    from ._capture.step import Trials

    dtype = wanted.dtype if wanted.dtype in ("fp32", "bf16", "fp16") else None
    trials = Trials(built.model, wanted.mode, dtype)
    found = Search(built.model, trials.run).found([(choice.kwargs, choice.forms) for choice in built.choices])
    trials.close()
    refusal = found.refusal
    if refusal is not None and not needs_values(refusal.error):
        raise CaptureError(f"the module does not run: {first_line(refusal.error)}")
    if refusal is not None and not wanted.with_weights:
        raise ValuesNeededError(first_line(refusal.error))
    given = next((choice for choice in built.choices if choice.kwargs is found.kwargs), Given(found.kwargs, []))
    return given, capture(built.model, None, mode=wanted.mode, dtype=dtype, kwargs=given.kwargs)


def captured(target: str, wanted: Wanted, path: str) -> None:
    """Writes the capture of one pass. Raises BuildError."""
    try:
        result = capture_of(target, wanted)
    except BuildError:
        if wanted.states_batch or wanted.mode != "train":
            raise
        wanted = replace(wanted, batch=BATCH + 1)  # batch norms of a single value do not train
        result = capture_of(target, wanted)
    if not wanted.states_batch:
        result.notes.append(f"batch {wanted.batch} assumed; set it with --batch")
    result.save(path)


def capture_of(target: str, wanted: Wanted) -> Capture:
    """Of a model without weights; with ones at random where it needs values. Raises BuildError."""
    from ._capture import CaptureError

    built, how = built_model(target, wanted), "without weights"
    try:
        try:
            given, result = first_that_runs(built, wanted)
        except ValuesNeededError as error:
            size = sum(weight.numel() * weight.element_size() for weight in built.model.parameters())
            if size > MOST_BYTES:
                raise CaptureError(f"it needs values, and has too many weights to make them: {error}") from error
            wanted = replace(wanted, with_weights=True)
            built, how = built_model(target, wanted), "with weights at random: it needs values"
            given, result = first_that_runs(built, wanted)
    except CaptureError as error:
        raise BuildError(f"it was built, and cannot be captured: {str(error).rstrip('.')}") from error
    result.notes[:0] = [f"built by {type(built.model).__module__.partition('.')[0]} {how}", *given.notes]
    if all(given is not choice for choice in built.choices):
        result.notes.append(f"inputs found by trying: {shapes_of(given)}")
    if wanted.seq is not None and not any(wanted.seq in tensor.shape for tensor in given.tensors()):
        result.notes.append(f"the model has no sequence length to set, --seq {wanted.seq} has no effect")
    return result


def shapes_of(given: Given) -> str:
    """Names and sizes of arguments."""
    return ", ".join(f"{name} {list(value.shape)}" for name, value in given.kwargs.items() if hasattr(value, "shape"))


def wanted_of(words: Sequence[str]) -> Wanted:
    """From flags as the program writes them."""
    given = dict(word.removeprefix("--").split("=", 1) for word in words)
    return Wanted(given.get("mode", "inference"), given.get("dtype"), int(given.get("batch", BATCH)),
                  int(given["seq"]) if "seq" in given else None, "batch" in given)


def main(words: Sequence[str]) -> int:
    """Writes the capture, or the reason, to what was standard output."""
    os.environ.update(OFFLINE)
    logging.disable(logging.ERROR)  # of tries that fail
    answer = os.dup(1)
    os.dup2(2, 1)  # libraries may print
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            captured(words[0], wanted_of(words[1:]), f"/proc/self/fd/{answer}")
    except BuildError as error:
        os.write(answer, str(error).encode())
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
