"""A captured network has the findings of the same network's config.json or ONNX file, or more."""

import importlib.util
import json
import pathlib
import tempfile
import unittest

import rooftile
from build_test import has


def advised(report):
    """Rules that propose a change; those that only inform depend on shares of the whole time."""
    return {finding.rule for finding in report.findings if finding.level in ("error", "warning", "advice")}


@unittest.skipUnless(has("torch") and has("transformers"), "torch or transformers is not installed")
class OfConfigs(unittest.TestCase):
    def compare(self, config, model, shape, dtype, mode):
        import torch
        import transformers

        settings = getattr(transformers, config)()
        made = getattr(transformers, model)
        argument, is_text = made.main_input_name, made.main_input_name == "input_ids"
        sizes = {"batch": shape[0], **({"seq": shape[1]} if is_text else {})}
        with tempfile.TemporaryDirectory() as folder:
            words = {**settings.to_dict(), "architectures": [model]}
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(words, default=str))
            described = rooftile.check(folder, gpu="h100", mode=mode, dtype="bf16", **sizes)
        kwargs = {argument: rooftile.Input(shape, dtype)}
        if mode == "train":
            kwargs["labels"] = rooftile.Input(shape if is_text else shape[:1], "int64")
        if is_text:
            kwargs["use_cache"] = False
        with torch.device("meta"):
            module = made(settings)
        captured = rooftile.check(module, gpu="h100", mode=mode, dtype="bf16", kwargs=kwargs)
        self.assertTrue(advised(described))
        self.assertLessEqual(advised(described), advised(captured))

    def test_gpt2(self):
        self.compare("GPT2Config", "GPT2LMHeadModel", (8, 1024), "int64", "train")

    def test_resnet50(self):
        self.compare("ResNetConfig", "ResNetForImageClassification", (32, 3, 224, 224), "fp32", "inference")

    def test_vit(self):
        self.compare("ViTConfig", "ViTForImageClassification", (32, 3, 224, 224), "fp32", "train")


@unittest.skipUnless(has("torch") and importlib.util.find_spec("onnx"), "torch or onnx is not installed")
class OfOnnx(unittest.TestCase):
    def test_lstm(self):
        import torch
        from onnx import TensorProto, helper

        length, batch, features, hidden = 50, 64, 1024, 1024

        def tensor(name, *shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        weights = [tensor("w", 1, 4 * hidden, features), tensor("r", 1, 4 * hidden, hidden),
                   tensor("b", 1, 8 * hidden)]
        node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=hidden)
        graph = helper.make_graph([node], "lstm", [tensor("x", length, batch, features), *weights],
                                  [tensor("y", length, 1, batch, hidden)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        read = rooftile.check(model, gpu="h100", dtype="bf16")
        captured = rooftile.check(torch.nn.LSTM(features, hidden), rooftile.Input((length, batch, features)),
                                  gpu="h100", dtype="bf16")
        self.assertIn("recurrent", {operation.kind for operation in captured.operations})
        self.assertTrue(advised(read))
        self.assertLessEqual(advised(read), advised(captured))


if __name__ == "__main__":
    unittest.main()
