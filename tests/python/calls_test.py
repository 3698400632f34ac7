"""The modules that a step calls, and the capture that is made of them."""

import pathlib
import sys
import tempfile
import textwrap
import unittest
import warnings
from collections import Counter
from unittest import mock

from support import environment, python

try:
    import torch
    from torch import nn

    from rooftile._calls import Watch
    from rooftile._capture import CaptureError
except ModuleNotFoundError:
    torch = None

DDP = """
import sys
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
if sys.argv[1] == "ddp":
    model = nn.parallel.DistributedDataParallel(net)
else:
    from torch.distributed.fsdp import fully_shard
    model = fully_shard(net)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"rank {dist.get_rank()} ", end="")  # at once, beside another process
dist.destroy_process_group()
"""


def watched(step):
    """A step that ran under a watch."""
    watch = Watch()
    step()
    watch.find()
    step()
    watch.take()
    step()
    watch.close()
    return watch


def most_alive(captured):
    """Bytes at the peak, and at the end."""
    alive = peak = 0
    for event in captured.events:
        if not hasattr(event, "name"):
            alive += event.bytes
            peak = max(peak, alive)
    return peak, alive


def products(captured, phase="forward"):
    return [call for call in captured.calls if call.name in ("aten::addmm", "aten::mm") and call.phase == phase]


@unittest.skipIf(torch is None, "torch is not installed")
class Calls(unittest.TestCase):
    def setUp(self):
        self.encoder, self.decoder, self.loss = nn.Linear(16, 8), nn.Linear(8, 16), nn.MSELoss()
        parameters = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.optimizer = torch.optim.AdamW(parameters)

    def step(self):
        x = torch.randn(4, 16)
        self.loss(self.decoder(self.encoder(x).relu()), x).backward()
        self.optimizer.step()

    def test_modules_of_a_loop_are_one_step(self):
        captured = watched(self.step).capture()
        self.assertEqual([call.module for call in products(captured)], ["Linear", "Linear_2"])
        self.assertEqual(captured.optimizer.name, "AdamW")
        self.assertEqual(captured.parameters, 16 * 8 + 8 + 8 * 16 + 16)
        self.assertIn("aten::mse_loss", [call.name for call in captured.calls])
        self.assertEqual(len(products(captured, "backward")), 3)  # the first layer's input has no gradient

    def test_a_module_that_the_loop_makes_anew(self):
        def step():
            x = torch.randn(4, 16)
            nn.Sequential(self.encoder, nn.ReLU(), self.decoder)(x).square().sum().backward()
            self.optimizer.step()

        captured = watched(step).capture()
        self.assertEqual(len(products(captured)), 2)
        self.assertEqual(len(products(captured, "backward")), 3)

    def test_two_passes_before_the_gradients_are_one_batch(self):
        def twice():
            a, b = (self.encoder(torch.randn(4, 16)) for _ in range(2))
            (a - b).square().sum().backward()
            self.optimizer.step()

        captured = watched(twice).capture()
        self.assertEqual(len(products(captured)), 2)
        self.assertFalse([note for note in captured.notes if "gathers" in note])

    def test_what_a_game_gives_follows_from_what_was_said(self):
        def play():
            for _ in range(3):  # nobody differentiates it
                self.encoder(torch.randn(1, 16))
            self.step()

        captured = watched(play).capture()
        first, second, third, *_ = products(captured)
        self.assertEqual(second.reads, first.writes)
        self.assertEqual(third.reads, second.writes)

    def test_lines_are_those_of_the_loop(self):
        captured = watched(self.step).capture()  # not this one, where the capture is asked for
        lines = {call.source.rpartition(":")[2] for call in products(captured)}
        self.assertEqual(lines, {str(self.step.__code__.co_firstlineno + 2)})

    def test_one_call_feeds_another(self):
        def step():
            self.decoder(self.encoder(torch.randn(4, 16))).sum().backward()

        captured = watched(step).capture()
        self.assertEqual(len([call for call in captured.calls if call.name == "aten::sum" and call.phase == "loss"]), 1)
        self.assertEqual(captured.optimizer.kind, "sgd")
        self.assertIn("counted as SGD", " ".join(captured.notes))

    def test_gradients_are_those_of_the_loop(self):
        class Flow(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(16, 8)

            def forward(self, x):
                y = self.fc(x)
                return y, self.fc.bias.sum(), y.mean()  # a number that is no loss

        flow = Flow()
        for loss, products_of_gradient in ((lambda y, number, mean: (y + number).square().sum(), 1),
                                           (lambda y, number, mean: number, 0), (lambda y, number, mean: mean, 1)):
            captured = watched(lambda: loss(*flow(torch.randn(4, 16))).backward()).capture()  # noqa: B023
            self.assertEqual(len(products(captured, "backward")), products_of_gradient)
        ends = [call.name for call in captured.calls if call.phase == "loss"]
        self.assertEqual(ends, [])  # the mean alone, not the sum of what it is computed from

    def test_forward_that_the_loop_calls_itself(self):
        class Layer(nn.Linear):
            def forward(self, x):
                return nn.functional.relu(x @ self.weight.t())

        layer = Layer(16, 8)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step():
            layer.forward(torch.randn(4, 16)).sum().backward()
            optimizer.step()

        captured = watched(step).capture()
        self.assertEqual([call.module for call in products(captured)], [""])
        self.assertEqual(captured.parameters, 16 * 8 + 8)
        self.assertNotIn("forward", vars(layer))

    def test_weights_in_no_module_that_is_called(self):
        weight, relu = nn.Parameter(torch.randn(16, 16)), nn.ReLU()
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step():
            relu(torch.randn(4, 16) @ weight).sum().backward()
            optimizer.step()

        with self.assertRaisesRegex(CaptureError, "in no module that a step calls"):
            watched(step).capture()
        optimizer.add_param_group({"params": list(self.encoder.parameters())})

        def step_of_both():
            relu(self.encoder(torch.randn(4, 16)) @ weight[:8]).sum().backward()
            optimizer.step()

        notes = watched(step_of_both).capture().notes
        self.assertTrue(any(note.startswith("65% of the weights") for note in notes), notes)

    def test_parts_of_one_network_have_its_names(self):
        network = nn.Sequential(self.encoder, nn.ReLU(), self.decoder)
        captured = watched(lambda: network(torch.randn(4, 16)).sum().backward()).capture()
        self.assertEqual([call.module for call in products(captured)], ["0", "2"])
        self.assertEqual(captured.model, "Sequential")

    def test_modules_without_gradients_are_no_part(self):
        transform = nn.ReLU()

        def step():
            for _ in range(100):
                transform(torch.randn(4))
            self.step()

        self.assertEqual(len(watched(step).capture().calls), len(watched(self.step).capture().calls))

    def test_a_step_of_several_batches(self):
        def step():
            for _ in range(40):
                self.decoder(self.encoder(torch.randn(4, 16))).sum().backward()

        captured = watched(step).capture()
        self.assertEqual(len(products(captured)), 2)
        self.assertIn("a step gathers 40 batches; shown is a step of one of them", captured.notes)

    def test_too_many_calls(self):
        def step():
            for size in range(1, 120):
                self.encoder(torch.randn(size, 16)).sum().backward()

        with self.assertRaisesRegex(CaptureError, "makes 119 calls of modules that differ"):
            watched(step).capture()

    def test_what_the_loop_computes_joins_calls(self):
        """Stages of an equation solver: each gets a sum of what others gave."""
        field = nn.Linear(16, 16)

        def step():
            state = torch.randn(4, 16)
            first = field(state)
            second = field(state + 0.5 * first)
            field(state + 0.1 * first + 0.9 * second).sum().backward()

        forward = products(watched(step).capture())
        self.assertEqual(len(forward), 3)
        for before, after in zip(forward, forward[1:]):
            self.assertTrue(set(before.writes) & set(after.reads))

    def test_equal_calls_of_a_long_loop_are_counted(self):
        """As many operators, values and bytes as where each call is captured."""
        cell, head = nn.GRUCell(16, 16), nn.Linear(16, 16)

        def step():
            state = torch.zeros(4, 16)
            for _ in range(50):
                state = cell(torch.randn(4, 16), state)
            with torch.no_grad():
                for _ in range(70):
                    head(torch.randn(1, 16))
            head(state).sum().backward()

        watch = watched(step)
        captured = watch.capture()
        with mock.patch("rooftile._calls.MOST_CALLS", 1000), mock.patch("rooftile._calls.MOST_KINDS", 1000):
            whole = watch.capture()
        self.assertEqual(Counter((call.name, call.phase) for call in captured.calls),
                         Counter((call.name, call.phase) for call in whole.calls))
        for of in (lambda call: len(call.writes), lambda call: len(call.reads)):
            self.assertLess(abs(sum(map(of, captured.calls)) - sum(map(of, whole.calls))), 200)
        (peak, end), (true_peak, true_end) = most_alive(captured), most_alive(whole)
        self.assertAlmostEqual(peak / true_peak, 1, delta=0.1)
        self.assertEqual(end, true_end)
        written = [name for call in captured.calls for name in call.writes]
        self.assertEqual(len(written), len(set(written)))
        self.assertIn("GRUCell is called 50 times in a step: 3 of these calls are captured, and the others counted "
                      "like an equal one", captured.notes)

    def test_all_optimizers_of_a_step_count(self):
        other = torch.optim.SGD(self.decoder.parameters(), lr=0.1)

        def step():
            self.step()
            other.step()

        optimizer = watched(step).capture().optimizer
        self.assertEqual(optimizer.name, "AdamW + SGD")
        self.assertEqual(optimizer.parameters, 16 * 8 + 8 + 2 * (8 * 16 + 16))
        self.assertIn("all counted as AdamW", optimizer.note)

    def test_losses_that_the_model_gives_itself(self):
        class Model(nn.Module):
            def __init__(self, layer):
                super().__init__()
                self.layer = layer

            def forward(self, x, labels=None):
                return {"logits": self.layer(x), "loss": self.layer(x).square().mean()}

        model = Model(self.encoder)
        captured = watched(lambda: model(x=torch.randn(4, 16), labels=None)["loss"].backward()).capture()
        self.assertEqual(len(products(captured, "backward")), 1)  # not through the logits

    def test_modules_that_take_no_hooks(self):
        class Closed(nn.Linear):
            def register_forward_pre_hook(self, *_args, **_kwargs):
                raise TypeError("no hooks")

        closed, watch = Closed(4, 4), Watch()
        watch.find()
        closed(torch.ones(1, 4))
        watch.guard(watch.take)
        closed(torch.ones(1, 4))
        with self.assertRaisesRegex(CaptureError, "no hooks"):
            watch.capture()

    def test_compiled_modules(self):
        compiled = []

        def backend(graph, _inputs):
            compiled.append(graph)
            return graph.forward

        network = torch.compile(nn.Sequential(self.encoder, nn.ReLU()), backend=backend)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            captured = watched(lambda: network(torch.randn(4, 16)).sum().backward()).capture()
        self.assertEqual(len(compiled), 1)
        self.assertEqual([call.module for call in products(captured)], ["0"])
        self.assertIn("torch.compile is left out", " ".join(captured.notes))

    def test_nothing_changes(self):
        self.decoder.eval()
        weights = self.encoder.weight.detach().clone()
        watch = watched(lambda: self.decoder(self.encoder(torch.randn(4, 16))).sum().backward())
        gradient, state = self.encoder.weight.grad.clone(), torch.get_rng_state()
        watch.capture()
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        self.assertTrue(torch.equal(weights, self.encoder.weight))
        self.assertTrue(torch.equal(gradient, self.encoder.weight.grad))
        self.assertFalse(self.decoder.training)
        self.assertFalse(self.encoder._forward_pre_hooks or self.encoder._forward_hooks)


@unittest.skipIf(torch is None or not torch.distributed.is_available(), "torch.distributed is not installed")
class Distributed(unittest.TestCase):
    """Two processes on a CPU, as torchrun starts them."""

    def run_ranks(self, kind):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        script = pathlib.Path(folder.name) / "train.py"
        script.write_text(textwrap.dedent(DDP))
        done = python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rooftile", "run",
                      "--steps", "2", "--gpu", "h100", "-o", "out", "train.py", kind, cwd=folder.name,
                      env=environment(OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split()), ["0", "1", "rank", "rank"])
        traces = sorted(path.name for path in (script.parent / "out").glob("rank*"))
        self.assertEqual(traces, ["rank0.json.gz", "rank1.json.gz"])
        self.assertEqual(done.stderr.count("rooftile: recorded 2 steps"), 1)
        return done.stderr

    def test_replicas(self):
        errors = self.run_ranks("ddp")
        self.assertIn("Note: DistributedDataParallel is left out: its communication is not recorded", errors)
        self.assertIn("Expected time", errors)

    @unittest.skipIf(sys.version_info < (3, 10), "torch with fully_shard is not installed")
    def test_shards(self):
        errors = " ".join(self.run_ranks("fsdp").split())
        self.assertIn("Note: fully_shard is left out: weights are whole, in their own precision", errors)
        self.assertIn(f"{(64 * 256 + 256 + 256 * 64 + 64) / 1e3:.1f} k parameters", errors)  # not a rank's half
        self.assertNotIn("Warning", errors)


if __name__ == "__main__":
    unittest.main()
