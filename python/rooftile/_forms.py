"""What models of transformers take: the form of each argument, by its name and the sizes in the config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

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
    tokens = seq if seq is not None else min(TOKENS, most) if most else TOKENS
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
