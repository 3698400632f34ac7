"""Models that libraries build without weights, through the program."""

import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Optional

import rooftile
from rooftile import Input, _build, _documented, _forms
from support import environment, python


def has(name):
    """Whether a library can be used here; timm cannot without torchvision."""
    if importlib.util.find_spec(name) is None:
        return False
    return python("-c", f"import {name}").returncode == 0


@contextlib.contextmanager
def config(**settings):
    """The folder of a config.json."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(settings))
        yield folder


SQUEEZEBERT = {"model_type": "squeezebert", "architectures": ["SqueezeBertForMaskedLM"], "vocab_size": 1000,
               "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
               "q_groups": 1, "k_groups": 1, "v_groups": 1, "post_attention_groups": 1, "intermediate_groups": 1,
               "output_groups": 1, "embedding_size": 64}

REGNET = {"model_type": "regnet", "architectures": ["RegNetForImageClassification"], "embedding_size": 8,
          "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "groups_width": 8}


@unittest.skipUnless(has("torch") and has("transformers"), "torch or transformers is not installed")
class Captures(unittest.TestCase):
    """What the program reads."""

    def header(self, settings, **wanted):
        with config(**settings) as folder:
            out = pathlib.Path(folder) / "out.json"
            _build.captured(f"{folder}/config.json", _build.Wanted(**wanted), str(out))
            return json.loads(out.read_text())["rooftileCapture"]

    def test_sizes(self):
        found = self.header(SQUEEZEBERT, batch=3, seq=16, mode="train", dtype="bf16")
        self.assertEqual((found["model"], found["mode"], found["batch"]), ("SqueezeBertForMaskedLM", "train", 3))
        self.assertEqual(found["input_bytes"], 3 * 16 * 8 * 2)  # words and labels
        self.assertEqual(found["notes"][0], "built by transformers without weights")

    def test_what_was_assumed(self):
        notes = self.header(REGNET, seq=16, states_batch=False)["notes"]
        self.assertIn("batch 1 assumed; set it with --batch", notes)
        self.assertIn("the model has no sequence length to set, --seq 16 has no effect", notes)

    def test_text_of_a_model_that_also_takes_images(self):
        parts = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
        found = self.header({
            "model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
            "text_config": {"model_type": "llama", "vocab_size": 32100, **parts},
            "vision_config": {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14, **parts}})
        self.assertIn("text alone: images are not captured", found["notes"])

    def test_classes_that_no_automatic_class_makes(self):
        found = self.header({"model_type": "siglip2_text_model", "hidden_size": 32, "intermediate_size": 64,
                             "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 20})
        self.assertEqual(found["input_bytes"], 20 * 8)

    def test_inputs_that_other_networks_feed(self):
        found = self.header({"model_type": "bridgetower_vision_model", "hidden_size": 64, "num_hidden_layers": 1,
                             "image_size": 32, "patch_size": 16})
        self.assertEqual(found["input_bytes"], 3 * 32 * 32 * 4)

    def test_inputs_that_an_error_names(self):
        small = {"hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        found = self.header({"model_type": "bros", "max_position_embeddings": 20, **small})
        self.assertEqual(found["input_bytes"], 20 * 8 + 20 * 4 * 8)  # words and their boxes

    def test_images_as_rows_of_patches(self):
        found = self.header({"model_type": "qwen2_vl_vision", "depth": 1, "embed_dim": 32, "hidden_size": 32,
                             "num_heads": 2, "mlp_ratio": 2, "patch_size": 14, "spatial_merge_size": 2}, batch=2)
        self.assertEqual(found["input_bytes"], 2 * 16 * 16 * (3 * 2 * 14 * 14) * 4 + 2 * 3 * 8)
        self.assertEqual(found["notes"], ["built by transformers without weights"])  # not on real values

    def test_patches_as_a_convolution_takes_them(self):
        found = self.header({"model_type": "kimi_k25_vision", "num_hidden_layers": 1, "hidden_size": 64,
                             "num_attention_heads": 4, "intermediate_size": 64, "patch_size": 14})
        self.assertEqual(found["input_bytes"], 16 * 16 * (3 * 14 * 14) * 4 + 3 * 8)
        self.assertIn("inputs found by trying: pixel_values [256, 3, 14, 14], grid_thw [1, 3]", found["notes"])

    def test_models_without_a_pass_of_their_own(self):
        parts = {"num_layers": 1, "num_heads": 2, "hidden_size": 16}
        with self.assertRaisesRegex(_build.BuildError, r"BarkModel has no pass of its own.*check\(model\.semantic, "):
            self.header({"model_type": "bark", **{f"{part}_config": {**parts, "model_type": f"bark_{part}"} for part in
                                                  ("semantic", "coarse_acoustics", "fine_acoustics")}})

    def test_series_in_time(self):
        found = self.header({"model_type": "patchtst", "context_length": 32, "num_input_channels": 3, "d_model": 16,
                             "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32}, batch=2)
        self.assertEqual(found["input_bytes"], 2 * 32 * 3 * 4)

    def test_several_choices(self):
        found = self.header({"model_type": "canine", "architectures": ["CanineForMultipleChoice"], "hidden_size": 48,
                             "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
                             "num_hash_functions": 4, "num_hash_buckets": 64}, seq=128)
        self.assertEqual(found["input_bytes"], 4 * 128 * 8)


@unittest.skipUnless(has("torch"), "torch is not installed")
class InputsByTrying(unittest.TestCase):
    """What a model says by its errors and its documentation."""

    def forms(self, model, known=None):
        sizes = {"batch": 2, "batch_size": 2, "sequence_length": 8, "seq_len": 8, "width": 5}
        return _documented.Forms(model, known or {}, sizes.get)

    def taken(self, model, known):
        forms = self.forms(model, known)
        built = _build.Built(model, [_build.Given(known, [], forms)])
        given, _ = _build.first_that_runs(built, _build.Wanted())
        return {name: value.shape for name, value in given.kwargs.items()}

    def test_a_layer_takes_another_size(self):
        from torch import nn

        for layer, given, taken in ((nn.Linear(6, 4), (2, 8, 5), (2, 8, 6)), (nn.LayerNorm(6), (2, 5, 5), (2, 5, 6)),
                                    (nn.Conv1d(6, 4, 3), (2, 5, 5), (2, 6, 5)),
                                    (nn.Conv2d(3, 4, 2, 2), (8, 12), (8, 3, 2, 2))):
            with self.subTest(layer=layer):
                self.assertEqual(self.taken(nn.Sequential(layer), {"input": Input(given)}), {"input": taken})

    def test_channels_at_another_place(self):
        from torch import nn

        found = self.taken(nn.Sequential(nn.Conv2d(3, 4, 1)), {"input": Input((2, 5, 3, 8))})
        self.assertEqual(found, {"input": (2, 3, 5, 8)})

    def test_an_argument_that_goes_with_another(self):
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 1)

            def forward(self, sample, condition):
                return self.one(sample) + self.two(condition)

        found = self.taken(Model(), {"sample": Input((2, 4, 8, 8)), "condition": Input((2, 3, 64, 64))})
        self.assertEqual(found["condition"], (2, 4, 8, 8))

    def test_arguments_that_only_their_documentation_tells(self):
        import torch
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(5, 4)

            def forward(self, x, other: torch.Tensor = None, states: torch.Tensor = None):
                """Adds.

                other (`torch.FloatTensor` of shape `(batch_size, unknown)`, *optional*)
                states (`torch.FloatTensor` of shape `(batch_size, 2 * sequence_length, width)`, *optional*)
                """
                return self.layer(x).sum() + self.layer(states).sum()

        found = self.taken(Model(), {"x": Input((2, 5))})
        self.assertEqual(found, {"x": (2, 5), "states": (2, 16, 5)})

    def test_as_many_axes_as_a_statement_takes_apart(self):
        from torch import nn

        class Model(nn.Module):
            def forward(self, x):
                batch, frames, channels, height, width = x.shape
                return x.reshape(batch * frames * channels, height * width)

        self.assertEqual(self.taken(Model(), {"x": Input((2, 3, 5, 5))})["x"], (2, 1, 3, 5, 5))

    def test_sizes_that_an_error_names(self):
        from torch import nn

        class Model(nn.Module):
            def forward(self, x, cond):
                if x.shape[-1] != 7:
                    raise ValueError(f"x has {x.shape[-1]} columns, expected 7")
                return x + cond

        found = self.taken(Model(), {"x": Input((2, 5)), "cond": Input((2, 3))})
        self.assertEqual(found, {"x": (2, 7), "cond": (2, 7)})

    def test_a_size_that_an_error_only_depends_on(self):
        import torch
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(25, 4)

            def forward(self, x, cond):
                return self.layer(torch.cat([x.repeat(1, 1, 2), cond.flatten(1)[:, None].expand(-1, 8, -1)], -1))

        found = self.taken(Model(), {"x": Input((2, 8, 4)), "cond": Input((2, 3, 5))})
        self.assertEqual(found, {"x": (2, 8, 5), "cond": (2, 3, 5)})

    def test_samples_with_the_channels_first(self):
        from torch import nn

        class Model(nn.Module):
            def forward(self, x):
                return nn.functional.conv1d(x.repeat(1, 4, 1), x.new_empty(7, 8, 1))

        self.assertEqual(self.taken(Model(), {"x": Input((2, 64, 3))}), {"x": (2, 2, 64)})

    def test_as_many_axes_as_what_an_argument_is_joined_with(self):
        import torch
        from torch import nn

        class Model(nn.Module):
            def forward(self, x, cond):
                if x.shape[1] != 4:
                    raise ValueError("x has no 4 channels")
                return torch.cat([x, cond], dim=1)

        found = self.taken(Model(), {"x": Input((2, 4, 3, 8, 8)), "cond": Input((2, 1, 9, 9))})
        self.assertEqual(found, {"x": (2, 4, 3, 8, 8), "cond": (2, 1, 3, 8, 8)})

    def test_an_argument_that_is_missing_further_inside(self):
        from torch import nn

        class Pooling(nn.Module):
            def forward(self, states, mask):
                return states * mask.to(states.dtype)[..., None]

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.pooling = Pooling()

            def forward(self, x, attention_mask=None):
                return self.pooling(x, attention_mask)

        model = Model()
        forms = self.forms(model, {"x": Input((2, 8, 5)), "attention_mask": Input((2, 8), "bool")})
        built = _build.Built(model, [_build.Given({"x": Input((2, 8, 5))}, [], forms)])
        given, _ = _build.first_that_runs(built, _build.Wanted())
        self.assertEqual(given.kwargs["attention_mask"], Input((2, 8), "bool"))

    def test_indices_of_a_table(self):
        from torch import nn

        built = _build.Built(nn.Embedding(9, 4), [_build.Given({"input": Input((2, 5))}, [])])
        given, _ = _build.first_that_runs(built, _build.Wanted())
        self.assertEqual(given.kwargs["input"], Input((2, 5), "int64", 9))

    def test_arguments_in_a_dictionary(self):
        import torch
        from torch import nn

        class Sizes(nn.Module):
            def forward(self, resolution, aspect_ratio):
                return resolution.flatten().sum() + aspect_ratio.flatten().sum()

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.sizes = Sizes()

            def forward(self, x, added: Optional[dict[str, torch.Tensor]] = None):
                if added is None:
                    raise ValueError("added cannot be None")
                return self.sizes(**{"resolution": None, "aspect_ratio": None, **added})

        model = Model()
        built = _build.Built(model, [_build.Given({"x": Input((2, 5))}, [], self.forms(model))])
        given, _ = _build.first_that_runs(built, _build.Wanted())
        self.assertEqual(given.kwargs["added"], {"resolution": Input((2, 2)), "aspect_ratio": Input((2, 1))})

    def test_lists_of_samples(self):
        import torch
        from torch import nn

        class Model(nn.Module):
            def forward(self, x: list[torch.Tensor], mask: torch.BoolTensor, steps: int, other: str):
                return x

        forms = self.forms(Model())
        self.assertEqual(forms.get("x"), [Input((8, 1))] * 2)
        self.assertEqual((forms.get("mask"), forms.get("steps"), forms.get("other")), (Input((2, 8), "bool"), 1, None))

    def test_the_choice_that_comes_furthest_is_changed_first(self):
        from torch import nn

        model = nn.Sequential(nn.Linear(4, 4), nn.Conv1d(3, 3, 1))
        choices = [_build.Given({"input": Input(shape)}, []) for shape in ((2, 7), (2, 5, 4))]
        given, _ = _build.first_that_runs(_build.Built(model, choices), _build.Wanted())
        self.assertEqual(given.kwargs["input"].shape, (2, 3, 4))

    def test_sound_with_an_axis_for_its_channel(self):
        from torch import nn

        class Model(nn.Module):
            def forward(self, input_values):
                """input_values (`torch.FloatTensor` of shape `(batch_size, channels, num_samples)`)"""

        found = _documented.Forms(Model(), {"input_values": Input((2, 16000))}, {}.get).get("input_values")
        self.assertEqual(found.shape, (2, 1, 16000))

    def test_an_index_behind_the_last(self):
        from torch import nn

        class Model(nn.Module):
            def forward(self, places):
                return places[:, 3] + places[:, 0]

        self.assertEqual(self.taken(Model(), {"places": Input((16, 3))}), {"places": (16, 4)})

    def test_the_reason_is_that_of_the_try_that_came_furthest(self):
        from torch import nn

        from rooftile._capture import CaptureError

        model = nn.Sequential(nn.Linear(4, 4), nn.Flatten(), nn.Linear(3, 3))
        choices = [_build.Given({"input": Input(shape)}, []) for shape in ((), (2, 7, 4))]
        with self.assertRaisesRegex(CaptureError, "28"):
            _build.first_that_runs(_build.Built(model, choices), _build.Wanted())


@unittest.skipUnless(has("torch"), "torch is not installed")
class FormsOfSamples(unittest.TestCase):
    """The first layer that may take a sample says which form it has."""

    def first(self, layer, **config):
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.time, self.into, self.config = nn.Linear(6, 6), layer, config

            def forward(self, hidden_states, timestep, encoder_hidden_states=None, guidance=None):
                return hidden_states

        return next(_forms.diffusion_forms(Model(), 2, None))

    def test_images_videos_and_rows(self):
        from torch import nn

        sizes = {"in_channels": 4, "sample_size": 16}
        for layer, shape in ((nn.Conv2d(4, 8, 3), (2, 4, 16, 16)), (nn.Conv3d(4, 8, 3), (2, 4, 5, 16, 16)),
                             (nn.Linear(4, 8), (2, 64, 4)), (nn.Conv1d(4, 8, 3), (2, 4, 1024))):
            with self.subTest(layer=layer):
                self.assertEqual(self.first(layer, **sizes)["hidden_states"].shape, shape)

    def test_a_layer_of_as_many_channels_before_one_of_several_times_them(self):
        from torch import nn

        into = nn.ModuleList([nn.Linear(32, 8), nn.Conv2d(4, 8, 3)])
        self.assertEqual(self.first(into, in_channels=4, sample_size=16)["hidden_states"].shape, (2, 4, 16, 16))

    def test_what_the_config_has(self):
        from torch import nn

        found = self.first(nn.Conv3d(4, 8, 3), in_channels=4, sample_height=6, sample_width=10, sample_frames=49,
                           temporal_compression_ratio=4, text_embed_dim=32, max_text_seq_length=7, guidance_embeds=True)
        self.assertEqual(found["hidden_states"].shape, (2, 4, 13, 6, 10))
        self.assertEqual(found["encoder_hidden_states"].shape, (2, 7, 32))
        self.assertEqual((found["timestep"].shape, found["guidance"].shape), ((2,), (2,)))


    def test_numbers_that_go_with_pictures_and_videos(self):
        # Stable Diffusion XL: six numbers of 256 values, and 1280 of the text; Stable Video Diffusion: three.
        taken = _forms.added_times({"addition_time_embed_dim": 256, "addition_embed_type": "text_time",
                                    "projection_class_embeddings_input_dim": 2816}, 2)["added_cond_kwargs"]
        self.assertEqual((taken["time_ids"].shape, taken["text_embeds"].shape), ((2, 6), (2, 1280)))
        taken = _forms.added_times({"addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 768}, 2)
        self.assertEqual(taken["added_time_ids"].shape, (2, 3))
        self.assertEqual(_forms.added_times({}, 2), {})


@unittest.skipUnless(has("torch") and has("transformers"), "torch or transformers is not installed")
class Transformers(unittest.TestCase):
    def test_folder(self):
        with config(**SQUEEZEBERT) as folder:
            report = rooftile.check(folder, gpu="h100", batch=4, seq=32)
            kinds = {operation.kind for operation in report.operations}
        self.assertEqual(report.inputs, (f"{folder}/config.json",))
        self.assertIn("built by transformers without weights", report.notes)
        self.assertLessEqual({"gemm", "norm", "embedding"}, kinds)

    def test_training_step(self):
        with config(**SQUEEZEBERT) as folder:
            report = rooftile.check(f"{folder}/config.json", gpu="h100", mode="train", batch=2, seq=32)
        self.assertIn("no loss given: the output's own is taken", report.notes)
        self.assertGreater(report.memory.optimizer_bytes, 0)

    def test_a_model_that_it_does_not_have_either(self):
        with config(model_type="foo") as folder, self.assertRaisesRegex(rooftile.Error, "has no model type 'foo'"):
            rooftile.check(folder, gpu="h100")


class WithoutLibraries(unittest.TestCase):
    def test_the_package_to_install_is_named(self):
        with config(model_type="foo") as folder, tempfile.TemporaryDirectory() as hidden:
            for name in ("transformers", "timm"):
                (pathlib.Path(hidden) / "sitecustomize.py").write_text(
                    "import importlib.util\nfind = importlib.util.find_spec\nimportlib.util.find_spec = lambda name, "
                    "*rest: None if name in ('transformers', 'timm') else find(name, *rest)\n")
                target = folder if name == "transformers" else "timm:resnet50"
                done = subprocess.run(
                    [os.environ["ROOFTILE_PROGRAM"], "check", target, "--gpu", "h100"], capture_output=True, text=True,
                    check=False, env=environment(ROOFTILE_PYTHON=sys.executable,
                                                 PYTHONPATH=f"{hidden}:{environment()['PYTHONPATH']}"))
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, f"{name} builds it, without weights, where it is installed: "
                                              f".* -m pip install .*{name}")


@unittest.skipUnless(has("timm"), "timm cannot be imported")
class Timm(unittest.TestCase):
    def test_name(self):
        report = rooftile.check("timm:resnet18", gpu="h100", batch=8, dtype="bf16")
        self.assertEqual(report.inputs, ("timm:resnet18",))
        self.assertEqual(sum(o.count for o in report.operations if o.kind == "conv"), 20)
        with self.assertRaisesRegex(rooftile.Error, "timm .* has no model resnet51"):
            rooftile.check("timm:resnet51", gpu="h100")


if __name__ == "__main__":
    unittest.main()
