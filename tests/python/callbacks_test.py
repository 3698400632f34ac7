"""Callbacks with the real libraries, on a CPU."""

import contextlib
import importlib.util
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from profile_test import steps_of

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} not installed")


class Callbacks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.errors = io.StringIO()

    def check_result(self, callback, steps):
        self.assertEqual(len(steps_of(callback.profile.trace)), steps)
        self.assertIn(f"rooftile: recorded {steps} steps", self.errors.getvalue())
        self.assertEqual(callback.profile.report.inputs[0], str(self.folder / "rank0.json.gz"))
        self.assertTrue((self.folder / "report.txt").exists())


@needs("torch", "lightning")
class Lightning(Callbacks):
    def test_batches_are_steps(self):
        import lightning.pytorch as lightning
        import torch

        import rooftile.lightning

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 1)

            def training_step(self, batch, index):
                return self.layer(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        callback = rooftile.lightning.Callback(steps=3, folder=self.folder)
        data = torch.utils.data.DataLoader(torch.randn(32, 8), batch_size=2)
        with contextlib.redirect_stderr(self.errors):
            lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[callback], logger=False,
                              accumulate_grad_batches=2, enable_checkpointing=False, enable_progress_bar=False,
                              enable_model_summary=False, default_root_dir=self.folder).fit(Model(), data)
        self.check_result(callback, 3)


@needs("torch", "transformers", "accelerate")
class Transformers(Callbacks):
    def test_steps_of_the_trainer(self):
        import torch
        import transformers

        import rooftile.transformers

        config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=64, n_positions=16)
        data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(32)]
        callback = rooftile.transformers.Callback(steps=3, folder=self.folder)
        arguments = transformers.TrainingArguments(
            output_dir=str(self.folder / "out"), max_steps=9, per_device_train_batch_size=2, report_to=[],
            use_cpu=True, disable_tqdm=True, save_strategy="no", gradient_accumulation_steps=2)
        with contextlib.redirect_stderr(self.errors), contextlib.redirect_stdout(io.StringIO()):
            transformers.Trainer(transformers.GPT2LMHeadModel(config), arguments, train_dataset=data,
                                 callbacks=[callback]).train()
        self.check_result(callback, 3)


@needs("torch", "accelerate")
class Accelerate(Callbacks):
    def test_loop_of_the_documentation(self):
        import accelerate
        import torch

        import rooftile

        with mock.patch.dict(os.environ, {"ACCELERATE_USE_CPU": "true"}):
            accelerator = accelerate.Accelerator()
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(torch.randn(32, 8), batch_size=2)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        with rooftile.profile(steps=3, folder=self.folder) as p:
            for batch in loader:
                loss = model(batch).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        self.assertEqual(len(steps_of(p.trace)), 3)


@needs("torch", "onnx", "onnxruntime")
class OneProcess(unittest.TestCase):
    """Libraries that bring a protobuf of their own run beside the package."""

    def test_onnx_model_next_to_its_libraries(self):
        import numpy
        import onnx
        import onnxruntime
        import torch  # noqa: F401

        import rooftile

        helper, kind = onnx.helper, onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"], name="head")], "g",
            [helper.make_tensor_value_info("x", kind, ["N", 64])],
            [helper.make_tensor_value_info("y", kind, ["N", 101])],
            [onnx.numpy_helper.from_array(numpy.ones((64, 101), "float32"), "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self.assertEqual(session.get_outputs()[0].shape, ["N", 101])
        report = rooftile.check(model, gpu="a100", dims={"N": 4096})
        self.assertEqual(report.operations[0].dims, "m=4096 n=101 k=64 layout=nn")
        curve = rooftile.sweep(model, gpu="a100", batch="1:4").curves[0]
        self.assertEqual(len(curve.rows), 3)

    def test_a_module_is_captured(self):
        import torch

        import rooftile

        report = rooftile.check(torch.nn.Linear(8, 8), torch.ones(2, 8), gpu="a100")
        self.assertEqual(report.inputs, ("Linear",))  # not the file that hands it over
        self.assertEqual(len(report.operations), 1)

    def test_a_module_is_swept_as_it_was_captured(self):
        import torch

        import rooftile

        model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.Sigmoid(), torch.nn.Dropout())
        result = rooftile.sweep(model, (64, 256), gpu="a100", mode="train", batch=(64, 131072))
        self.assertEqual((result.inputs, result.mode), (("Sequential",), "training"))
        rows = result.curves[0].rows
        self.assertEqual([rows[0].batch, rows[-1].batch], [64, 131072])
        # Where all is memory-bound, twice the samples take twice the time.
        self.assertAlmostEqual(rows[-1].time_s.expected / rows[-2].time_s.expected, 2, delta=0.1)


if __name__ == "__main__":
    unittest.main()
