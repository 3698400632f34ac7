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
import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ._input import Input

if TYPE_CHECKING:
    from ._capture.writer import Capture

FAILED = 2
TIMM = "timm:"
# Sizes where neither the config nor the user states them.
BATCH, TOKENS, PIXELS, SAMPLES = 1, 128, 224, 160_000
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
    """Arguments by name, and what they leave out."""

    kwargs: dict[str, Any]
    notes: list[str]

    def tensors(self) -> list[Input]:
        """Those of the arguments that are tensors."""
        return [value for value in self.kwargs.values() if isinstance(value, Input)]


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

    if wanted.with_weights:
        return make()
    try:
        with torch.device("meta"):
            return make()
    except (RuntimeError, NotImplementedError):
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
    if found is None or not hasattr(found, "from_config"):
        raise BuildError(f"diffusers {diffusers.__version__} has no model {name}")
    model = made(lambda: found.from_config(dict(config)), wanted)
    sizes = model.config
    side = pair(sizes.get("sample_size") or 64)
    sample = Input((wanted.batch, sizes.get("in_channels") or 3, *side))
    text = sizes.get("cross_attention_dim") or sizes.get("caption_channels") or sizes.get("joint_attention_dim")
    known = {
        "sample": sample, "hidden_states": sample, "x": sample,
        "timestep": Input((wanted.batch,), "int64"),
        "encoder_hidden_states": Input((wanted.batch, wanted.seq or TOKENS, first_of(text) or 768)),
        "class_labels": Input((wanted.batch,), "int64"),
        "pooled_projections": Input((wanted.batch, sizes.get("pooled_projection_dim") or 768)),
        "controlnet_cond": Input((wanted.batch, 3, 8 * side[0], 8 * side[1])),
    }
    needed = required(model)
    if text is not None and "encoder_hidden_states" in inspect.signature(model.forward).parameters:
        needed.append("encoder_hidden_states")
    return Built(model, [Given(chosen(name, needed, known), [])])


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
        model = made(lambda: found._from_config(settings), wanted)
    return Built(model, transformers_inputs(model, settings, wanted))


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
    own = [value for name, value in classes.items()
           if name.endswith("Model") and getattr(value, "config_class", None) is type(settings)]
    return own[-1] if own else None


def transformers_inputs(model: Any, settings: Any, wanted: Wanted) -> list[Given]:
    """What a model of transformers may take, by its own names for it."""
    names = inspect.signature(model.forward).parameters
    needed = [*required(model), model.main_input_name]
    if getattr(settings, "is_encoder_decoder", False) and "decoder_input_ids" in names:
        needed.append("decoder_input_ids")
    choices: list[Given] = []
    if "input_ids" in names and "pixel_values" in names:
        words = [name for name in needed if not name.startswith("pixel_values")] + ["input_ids"]
        choices.append(Given(arguments(model, settings, wanted, words), ["text alone: images are not captured"]))
        if "ForConditionalGeneration" not in type(model).__name__:  # which joins images to tokens of the text
            choices.insert(0, Given(arguments(model, settings, wanted, [*words, "pixel_values"]), []))
    else:
        choices.append(Given(arguments(model, settings, wanted, needed), []))
    return choices


def arguments(model: Any, settings: Any, wanted: Wanted, needed: Sequence[str]) -> dict[str, Any]:
    """Values of these arguments, and of others that a training step or a plain pass has."""
    text, batch = settings.get_text_config(), wanted.batch
    most = getattr(text, "max_position_embeddings", None)
    tokens = wanted.seq if wanted.seq is not None else min(TOKENS, most) if most else TOKENS
    vision = getattr(settings, "vision_config", None) or settings
    words = getattr(text, "vocab_size", None) or getattr(settings, "vocab_size", None)
    ids = Input((batch, tokens), "int64", words)
    image = (channels_of(vision), *pair(pixels_of(vision)))
    known = {
        "input_ids": ids, "decoder_input_ids": ids, "attention_mask": Input((batch, tokens), "int64"),
        "pixel_values": Input((batch, *frames_of(settings), *image)),
        "pixel_values_videos": Input((batch, *(frames_of(settings) or (1,)), *image)),
        "input_values": sound(settings, batch), "input_features": features(settings, batch),
        "bbox": Input((batch, tokens, 4), "int64"),
    }
    name, names = type(model).__name__, inspect.signature(model.forward).parameters
    given = chosen(name, list(dict.fromkeys(needed)), known)
    if "use_cache" in names:
        given["use_cache"] = False
    label = labels(name, given, batch) if wanted.mode == "train" and "labels" in names else None
    if label is not None:
        given["labels"] = label
    return given


def labels(name: str, given: Mapping[str, Any], batch: int) -> Optional[Input]:
    """Of the model's own loss; None where its form is not known."""
    words = given.get("decoder_input_ids") or given.get("input_ids")
    if words is not None and any(end in name for end in ("LM", "ForConditionalGeneration", "ForTokenClassification")):
        return Input(words.shape, "int64")
    if any(end in name for end in ("SequenceClassification", "ImageClassification", "AudioClassification",
                                   "VideoClassification", "MultipleChoice")):
        return Input((batch,), "int64")
    return None


def channels_of(settings: Any) -> int:
    """Of an image."""
    return int(first_of(getattr(settings, "num_channels", None) or getattr(settings, "in_channels", None)) or 3)


def pixels_of(settings: Any) -> Any:
    """Sides of an image, as configs write them."""
    for holder in (settings, getattr(settings, "backbone_config", None)):
        size = getattr(holder, "image_size", None) or getattr(holder, "crop_size", None)
        if size:
            return size
    return PIXELS


def frames_of(settings: Any) -> tuple[int, ...]:
    """Frames of a video, before the channels; none for images."""
    frames = getattr(settings, "num_frames", None) or getattr(settings, "frames_per_clip", None)
    return (int(frames),) if isinstance(frames, int) and frames > 1 else ()


def sound(settings: Any, batch: int) -> Input:
    """Ten seconds at 16 kHz, or a spectrogram where the config has one's sizes."""
    bins, length = getattr(settings, "num_mel_bins", None), getattr(settings, "max_length", None)
    if bins and length and not hasattr(settings, "conv_dim"):
        return Input((batch, length, bins))
    return Input((batch, SAMPLES))


def features(settings: Any, batch: int) -> Input:
    """A spectrogram: of Whisper's kind, by bins; else by frames."""
    bins = getattr(settings, "num_mel_bins", None)
    positions = getattr(settings, "max_source_positions", None)
    if bins and positions and not hasattr(settings, "input_feat_per_channel"):
        return Input((batch, bins, 2 * positions))
    width = getattr(settings, "input_feat_per_channel", None) or getattr(settings, "feature_projection_input_dim", None)
    return Input((batch, 1000, width or bins or 80))


def pair(size: Any) -> tuple[int, int]:
    """Height and width of a size that a config gives as one number, two, or by name."""
    if isinstance(size, Mapping):
        size = (size.get("height") or size.get("shortest_edge"), size.get("width") or size.get("shortest_edge"))
    if isinstance(size, (list, tuple)):
        return int(size[0]), int(size[-1])
    return int(size), int(size)


def first_of(size: Any) -> Any:
    """The number, or the first of several."""
    return size[0] if isinstance(size, (list, tuple)) else size


def required(model: Any) -> list[str]:
    """Arguments without a default."""
    empty, several = inspect.Parameter.empty, (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters.values()
    return [argument.name for argument in parameters if argument.default is empty and argument.kind not in several]


def chosen(name: str, needed: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are needed. Raises BuildError for one of unknown form."""
    for argument in needed:
        if argument not in known:
            raise BuildError(f"the form of {name}'s input {argument} is not known: in Python, rooftile.check(model, "
                             f"{{'{argument}': …}}) takes it")
    return {argument: known[argument] for argument in needed}


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


def first_that_runs(built: Built, wanted: Wanted) -> tuple[Given, Capture]:
    """Raises CaptureError, with the reason of the first choice, where the model runs with none of them."""
    from ._capture import CaptureError, capture

    dtype = wanted.dtype if wanted.dtype in ("fp32", "bf16", "fp16") else None
    problem: Optional[CaptureError] = None
    for given in built.choices:
        try:
            return given, capture(built.model, None, mode=wanted.mode, dtype=dtype, kwargs=given.kwargs)
        except CaptureError as error:
            problem = problem or error
    raise problem or CaptureError("it takes nothing that is known")


def captured(target: str, wanted: Wanted, path: str) -> None:
    """Writes the capture of one pass. Raises BuildError."""
    from ._capture import CaptureError

    built, how = built_model(target, wanted), "without weights"
    try:
        given, result = first_that_runs(built, wanted)
    except CaptureError as error:
        size = sum(weight.numel() * weight.element_size() for weight in built.model.parameters())
        if size > MOST_BYTES:
            raise BuildError(f"it was built, and cannot be captured: {error}") from error
        built, how = built_model(target, replace(wanted, with_weights=True)), "with weights at random: it needs values"
        try:
            given, result = first_that_runs(built, wanted)
        except CaptureError as again:
            raise BuildError(f"it was built, and cannot be captured: {again}") from again
    result.notes[:0] = [f"built by {type(built.model).__module__.partition('.')[0]} {how}", *given.notes]
    if not wanted.states_batch:
        result.notes.append(f"batch {BATCH} assumed; set it with --batch")
    if wanted.seq is not None and not any(wanted.seq in tensor.shape for tensor in given.tensors()):
        result.notes.append(f"the model has no sequence length to set, --seq {wanted.seq} has no effect")
    result.save(path)


def wanted_of(words: Sequence[str]) -> Wanted:
    """From flags as the program writes them."""
    given = dict(word.removeprefix("--").split("=", 1) for word in words)
    return Wanted(given.get("mode", "inference"), given.get("dtype"), int(given.get("batch", BATCH)),
                  int(given["seq"]) if "seq" in given else None, "batch" in given)


def main(words: Sequence[str]) -> int:
    """Writes the capture, or the reason, to what was standard output."""
    os.environ.update(OFFLINE)
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
