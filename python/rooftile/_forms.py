"""What models of transformers and diffusers take: forms of arguments, by their names and the sizes in the config."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from ._documented import documented_sizes
from ._input import Input

# Sizes where neither the config nor the user states them.
TOKENS, PIXELS, SAMPLES, FRAMES, CHOICES, REGIONS, PATCHES = 128, 224, 160_000, 1000, 4, 36, 2048


class Sizes:
    """The settings of a config and of those that it holds, its text and its images first."""

    def __init__(self, settings: Any) -> None:
        text, images = settings.get_text_config(), getattr(settings, "vision_config", None)
        self.text, self.images = text, images or settings
        self._all = [settings, text, *nested(settings)]

    def find(self, *names: str, first: Any = None) -> Any:
        """The first of these that is set, of `first` where that has one; None where none is."""
        for holder in (first, *self._all):
            for name in names:
                value = getattr(holder, name, None)
                if value is not None and not callable(value):
                    return value
        return None

    def number(self, *names: str, first: Any = None) -> Optional[int]:
        """As `find`, of a size that is one number; of several, the first."""
        value = first_of(self.find(*names, first=first))
        return int(value) if isinstance(value, (int, float)) else None


def nested(settings: Any) -> Iterator[Any]:
    """The configs inside of a config."""
    for value in vars(settings).values():
        if hasattr(value, "get_text_config"):
            yield value
            yield from nested(value)


def known_forms(sizes: Sizes, name: str, batch: int, seq: Optional[int]) -> dict[str, Any]:
    """Arguments by name, of a class of this name."""
    most = getattr(sizes.text, "max_position_embeddings", None)
    tokens = seq if seq is not None else min(TOKENS, most) if most and most > 0 else TOKENS
    rows = (batch, CHOICES, tokens) if name.endswith("ForMultipleChoice") else (batch, tokens)
    ids = Input(rows, "int64", sizes.number("vocab_size", first=sizes.text))
    width = sizes.number("hidden_size", "d_model", "n_embd", "embed_dim", "hidden_dim", "dim", first=sizes.text)
    channels = first_of(sizes.find("num_channels", "in_channels", first=sizes.images)) or 3
    height, breadth = pair(sizes.find("image_size", "crop_size", "img_size", first=sizes.images) or PIXELS)
    image, frames = (int(channels), height, breadth), frames_of(sizes)
    known: dict[str, Any] = {
        "input_ids": ids, "decoder_input_ids": ids, "attention_mask": ones(*rows), "bbox": Input((*rows, 4), "int64"),
        "token_type_ids": Input(rows, "int64"), "position_ids": Input(rows, "int64"),
        "pixel_values": Input((batch, *frames, *image)), "prompt_pixel_values": Input((batch, *image)),
        "prompt_masks": Input((batch, *image)), "pixel_mask": ones(batch, height, breadth),
        "pixel_values_videos": Input((batch, *(frames or (1,)), *image)),
        "input_values": sound(sizes, batch), "input_features": features(sizes, batch),
        "visual_feats": Input((batch, REGIONS, sizes.number("visual_feat_dim", "visual_embedding_dim") or 2048)),
        "visual_embeds": Input((batch, REGIONS, sizes.number("visual_embedding_dim") or 2048)),
        "visual_pos": Input((batch, REGIONS, sizes.number("visual_pos_dim") or 4)),
    }
    if width is not None:
        known.update(dict.fromkeys(("inputs_embeds", "hidden_states", "encoder_hidden_states", "decoder_inputs_embeds"),
                                   Input((*rows, width))))
    side = sizes.number("patch_size", "spatial_patch_size", first=sizes.images)
    row = sizes.number("patch_embed_hidden_size") or (side * side * int(channels) if side is not None else None)
    if row is not None:
        known["flattened_patches"] = Input((batch, PATCHES, 2 + row))
    return {**known, **series(sizes, batch)}


def size_named(sizes: Sizes, batch: int, seq: Optional[int], name: str) -> Optional[int]:
    """A size by its name in documentation: of the config, or of what is given."""
    known = known_forms(sizes, "", batch, seq)
    stated = sizes.number(name)
    if stated is not None:
        return stated
    image, rows, width = known["prompt_pixel_values"].shape, known["input_ids"].shape[1], known.get("hidden_states")
    parts = {"batch": batch, "channel": image[1], "height": image[2], "width": image[3], "seq": rows, "length": rows,
             "dim": None if width is None else width.shape[-1]}
    return next((size for part, size in parts.items() if part in name), None)


def patches_of_images(sizes: Sizes, batch: int) -> dict[str, Any]:
    """Images as rows of patches, with a table of how many each has along time, height and width."""
    import torch

    side = sizes.number("patch_size", "spatial_patch_size", first=sizes.images) or 14
    joined = side * (sizes.number("spatial_merge_size", first=sizes.images) or 1)
    channels = sizes.number("in_channels", "in_chans", "num_channels", first=sizes.images) or 3
    rows = max(1, PIXELS // joined) * joined // side
    wide = channels * (sizes.number("temporal_patch_size", first=sizes.images) or 1) * side * side
    table = torch.tensor([[1, rows, rows]] * batch)
    return {"hidden_states": Input((batch * rows * rows, wide)), "pixel_values": Input((batch * rows * rows, wide)),
            "grid_thw": table, "image_grid_thw": table}


def ones(*shape: int) -> Any:
    """A mask that hides nothing."""
    import torch

    return torch.ones(shape, dtype=torch.int64)


def labels(name: str, given: Mapping[str, Any], batch: int) -> Optional[Input]:
    """Of the model's own loss; None where its form is not known."""
    words = given.get("decoder_input_ids") or given.get("input_ids")
    if words is not None and any(end in name for end in ("LM", "ForConditionalGeneration", "ForTokenClassification")):
        return Input(words.shape, "int64")
    if any(end in name for end in ("SequenceClassification", "ImageClassification", "AudioClassification",
                                   "VideoClassification", "MultipleChoice")):
        return Input((batch,), "int64")
    return None


def frames_of(sizes: Sizes) -> tuple[int, ...]:
    """Frames of a video, before the channels; none for images."""
    frames = sizes.find("num_frames", "frames_per_clip")
    return (int(frames),) if isinstance(frames, int) and frames > 1 else ()


def sound(sizes: Sizes, batch: int) -> Input:
    """Ten seconds at 16 kHz, or a spectrogram where the config has one's sizes."""
    bins, length = sizes.number("num_mel_bins"), sizes.number("max_length")
    if bins and length and sizes.find("conv_dim") is None:
        return Input((batch, length, bins))
    channels = sizes.number("audio_channels")
    return Input((batch, SAMPLES) if channels is None else (batch, channels, SAMPLES))


def features(sizes: Sizes, batch: int) -> Input:
    """A spectrogram: of Whisper's kind, by bins; else by frames."""
    bins, positions = sizes.number("num_mel_bins"), sizes.number("max_source_positions")
    width = sizes.number("input_feat_per_channel", "feature_projection_input_dim")
    if bins and positions and sizes.find("input_feat_per_channel") is None:
        return Input((batch, bins, 2 * positions))
    return Input((batch, FRAMES, width or bins or 80))


def series(sizes: Sizes, batch: int) -> dict[str, Any]:
    """Values of the past and the future, and what is known of their times."""
    past, future = sizes.number("context_length"), sizes.number("prediction_length")
    if past is None:
        return {}
    lags = sizes.find("lags_sequence")
    past += max(lags) if lags else 0
    channels = sizes.number("num_input_channels") or (sizes.number("input_size") or 1)
    wide = (channels,) if channels > 1 or sizes.find("num_input_channels") is not None else ()
    times = sizes.number("num_time_features") or 0
    static = sizes.number("num_static_categorical_features") or 0
    known: dict[str, Any] = {
        "past_values": Input((batch, past, *wide)), "past_time_features": Input((batch, past, times)),
        "past_observed_mask": ones(batch, past, *wide), "observed_mask": ones(batch, past, *wide),
        "static_categorical_features": Input((batch, static), "int64"),
    }
    if future is not None:
        known.update(future_values=Input((batch, future, *wide)), future_time_features=Input((batch, future, times)))
    return known


def pair(size: Any) -> tuple[int, int]:
    """Height and width of a size that a config gives as one number, two, or by name."""
    if isinstance(size, Mapping):
        size = (size.get("height") or size.get("shortest_edge"), size.get("width") or size.get("shortest_edge"))
    if isinstance(size, (list, tuple)):
        return int(size[0]), int(size[-1])
    return int(size), int(size)


def first_of(size: Any) -> Any:
    """The number, or the first of several."""
    return size[0] if isinstance(size, (list, tuple)) and size else size


def required(model: Any) -> list[str]:
    """Arguments without a default."""
    empty, several = inspect.Parameter.empty, (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters.values()
    return [argument.name for argument in parameters if argument.default is empty and argument.kind not in several]


# ---- diffusers

# Latents, images and videos where the config does not say their sizes; words of the prompt's hidden states.
_LATENT, _PICTURE, _LATENT_FRAMES, _PICTURE_FRAMES, _WAVE, _PROMPT, _WIDTH = 64, 256, 5, 9, 1024, 128, 768
_IN = ("in_channels", "in_features")
_TIMES = 6  # height and width as they were, of the crop's corner, and as they shall be
_TEXT = ("encoder_hid_dim", "caption_channels", "text_embed_dim", "text_dim", "cap_feat_dim", "joint_attention_dim",
         "cross_attention_dim")


def diffusion_forms(model: Any, batch: int, seq: Optional[int]) -> Iterator[dict[str, Any]]:
    """Arguments by name, with each form that the sample may have."""
    config = model.config
    words, text = prompt_sizes(config, seq)
    latents, side = samples(model, batch)
    prompt = Input((batch, words, text or _WIDTH))
    pooled = Input((batch, config.get("pooled_projection_dim") or _WIDTH))
    one = Input((batch,))
    sample = next(iter(inspect.signature(model.forward).parameters))
    for form in latents:
        known: dict[str, Any] = {
            **dict.fromkeys(("sample", "hidden_states", "x", sample), form), "class_labels": Input((batch,), "int64"),
            **dict.fromkeys(("timestep", "timesteps", "timestep_r", "r_timestep", "t"), Input((batch,), "int64")),
            **dict.fromkeys(("original_size", "target_size", "crop_coords"), Input((batch, 2))),
            **dict.fromkeys(("encoder_hidden_states", "text_hidden_states", "source_hidden_states", "image_embeds"),
                            prompt),
            **dict.fromkeys(("pooled_projections", "pooled_embeds"), pooled), "guidance": one,
            "encoder_attention_mask": ones(batch, words), "encoder_hidden_states_mask": ones(batch, words),
            "controlnet_cond": Input((batch, 3, 8 * side[0], 8 * side[1])), "txt_ids": Input((words, 3)),
            "input_ids": Input((batch, words), "int64"), "attention_mask": ones(batch, words),
        }
        known.update(added_times(config, batch))
        if len(form.shape) == 3:
            rows = form.shape[1]
            high, wide = side[0] // 2, side[1] // 2
            known.update(controlnet_cond=form, img_ids=Input((rows, 3)), img_shapes=[[(1, high, wide)]] * batch,
                         num_frames=1, height=high, width=wide)
        yield known


def added_times(config: Any, batch: int) -> dict[str, Any]:
    """Sizes and crops of a picture, or the rate of a video, as numbers that are embedded each."""
    each, whole = config.get("addition_time_embed_dim"), config.get("projection_class_embeddings_input_dim")
    if not each or not whole:
        return {}
    if config.get("addition_embed_type") == "text_time":
        return {"added_cond_kwargs": {"time_ids": Input((batch, _TIMES)),
                                      "text_embeds": Input((batch, whole - _TIMES * each))}}
    return {"added_time_ids": Input((batch, whole // each))}


def diffusion_arguments(model: Any, known: Mapping[str, Any]) -> list[str]:
    """Names of the arguments that a pass has: those without a default, and others that the config asks for."""
    config, needed = model.config, required(model)
    given = {"timestep", "timesteps", "img_ids", "txt_ids", "img_shapes", "num_frames", "height", "width",
             "encoder_hidden_states_mask", "added_cond_kwargs"}
    given |= {"encoder_hidden_states"} if prompt_sizes(config, None)[1] is not None else set()
    given |= {"pooled_projections"} if config.get("pooled_projection_dim") else set()
    given |= {"guidance"} if config.get("guidance_embeds") else set()
    names = inspect.signature(model.forward).parameters
    return [name for name in names if name in needed or (name in given and name in known)]


def prompt_sizes(config: Any, seq: Optional[int]) -> tuple[int, Optional[int]]:
    """Words of a prompt, and the width of their hidden states where the config has it."""
    words = seq or config.get("max_text_seq_length") or config.get("max_sequence_length") or _PROMPT
    return int(words), next((first_of(config[name]) for name in _TEXT if config.get(name)), None)


def diffusion_size(model: Any, sample: Input, seq: Optional[int], name: str) -> Optional[int]:
    """A size by its name in documentation."""
    config, shape = model.config, sample.shape
    words, text = prompt_sizes(config, seq)
    stated = first_of(config.get(name))
    sizes = {"batch": shape[0], "channel": shape[1] if len(shape) > 3 else shape[-1], "frames": _LATENT_FRAMES,
             "height": shape[-2], "width": shape[-1], "seq": words, "len": words, "dim": text or _WIDTH,
             "hidden_size": text or _WIDTH}
    if isinstance(stated, int):
        return stated
    return next((size for part, size in sizes.items() if part in name), None)


def samples(model: Any, batch: int) -> tuple[list[Input], tuple[int, int]]:
    """Forms of what is denoised or encoded, the likeliest first, by the first layer that may take it: one of as many
    channels, else one of rows of several times its channels, as patches of a picture are.
    """
    import torch

    config, nn = model.config, torch.nn
    pictures = "Autoencoder" in type(model).__name__
    channels = int(config.get("in_channels") or 3)
    side = pair(config.get("sample_size") or (_PICTURE if pictures else _LATENT))
    if config.get("sample_height") and config.get("sample_width"):
        side = int(config["sample_height"]), int(config["sample_width"])
    shown, apart = config.get("sample_frames"), config.get("temporal_compression_ratio") or 1
    frames = (int(shown) - 1) // int(apart) + 1 if shown else _PICTURE_FRAMES if pictures else _LATENT_FRAMES
    image, video = Input((batch, channels, *side)), Input((batch, channels, frames, *side))
    wave = Input((batch, channels, side[1] if side[1] > _WAVE else _WAVE))
    by_frame = Input((batch, frames, channels, *side))
    last = Input((batch, frames, *side, channels))
    rows = Input((batch, side[0] * side[1] // 4, channels))
    orders = {nn.Conv3d: [video, image], nn.Conv2d: [image, by_frame, video], nn.Conv1d: [wave, rows],
              nn.Linear: [rows, image, video, by_frame, last]}
    layers = [layer for layer in model.modules() if type(layer) in orders]
    exact = [layer for layer in layers if channels in (getattr(layer, name, None) for name in _IN)]
    patches = [layer for layer in layers if type(layer) is nn.Linear and layer.in_features % channels == 0]
    convolutions = [layer for layer in layers if type(layer) is not nn.Linear]
    first = next(iter(exact or patches or convolutions), None)
    forms = orders[nn.Conv2d if first is None else type(first)]
    stated = documented_sizes(model, next(iter(inspect.signature(model.forward).parameters)))
    if stated is not None and len(stated[1]) == 2 and isinstance(config.get(stated[1][1]), int):
        forms = [Input((batch, config[stated[1][1]])), *forms]
    return forms, side
