"""Captures of networks, on a CPU and without their weights' values."""

import collections
import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

HAS_TORCH = importlib.util.find_spec("torch") is not None

if HAS_TORCH:
    import torch
    from torch import nn

    from rooftile._capture import CaptureError, Input, capture

    class Block(nn.Module):
        def __init__(self, mask=False):
            super().__init__()
            self.norm = nn.LayerNorm(64)
            self.qkv = nn.Linear(64, 192)
            self.bias = nn.Parameter(torch.zeros(1, 4, 16, 16)) if mask else None

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).view(x.shape[0], 16, 3, 4, 16).permute(2, 0, 3, 1, 4)
            causal = self.bias is None
            out = nn.functional.scaled_dot_product_attention(q, k, v, self.bias, 0.1, causal)
            return x + out.transpose(1, 2).reshape(x.shape)

    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            x = self.fc(x)
            return x * 2 if x.sum().item() > 0 else x * 3

    class OnCuda(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            noise = torch.randn(x.shape, device="cuda").to("cuda:0").cuda()
            return self.fc(x.to(torch.device("cuda")) + noise)

    class Steers(nn.Module):
        """Calls of torch.cuda around the layers."""

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            torch.cuda.set_device(0)
            with torch.cuda.device(torch.cuda.current_device()), torch.cuda.nvtx.range("fc"):
                x = self.fc(x.to(torch.device("cuda", 0)))
            torch.cuda.synchronize()
            return x

    @functools.lru_cache(maxsize=4)
    def positions(length):
        return torch.arange(length)[:, None] * torch.ones(8)

    class Cached(nn.Module):
        def __init__(self, reads):
            super().__init__()
            self.fc, self.reads = nn.Linear(8, 8), reads

        def forward(self, x):
            x = self.fc(x + positions(x.shape[0]))
            return x * 2 if self.reads and x.sum().item() > 0 else x

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(100, 8)
            self.out = nn.Linear(8, 100, bias=False)
            self.out.weight = self.table.weight

        def forward(self, x):
            return self.out(self.table(x))

    class Recurrent(nn.Module):
        def __init__(self, kind, packed=False):
            super().__init__()
            self.rnn, self.packed = kind(8, 16, 2, batch_first=True), packed

        def forward(self, x):
            if self.packed:
                x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
                return self.rnn(x)[0].data
            return self.rnn(x)[0]

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(2))

        def forward(self, x):
            from torch.utils.checkpoint import checkpoint

            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    class Custom(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            return Cube.apply(self.fc(x))


    def made(function):
        """A module of one layer, whose pass is this function."""
        class Made(nn.Module):
            forward = function

            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

        return Made()


SHARDED = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).resolve().parents[2] / "python")!r})
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from rooftile._capture import Input, capture

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = nn.Sequential(nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 4))
net[1].weight.requires_grad_(False)
model = fully_shard(nn.Sequential(fully_shard(net[0]), net[1]))
before = model(torch.ones(2, 8))
weights, kind, hooks = list(model.parameters()), type(model), list(model._forward_hooks.values())
found = capture(model, Input((2, 8)), mode="train")
assert (found.parameters, found.trainable) == (8 * 16 + 16 + 16 * 4 + 4, 8 * 16 + 16 + 4), found
assert found.model == "Sequential" and not found.real_values, found.notes
assert [call.dims[1] for call in found.calls if call.name == "aten::addmm"] == [[2, 8], [2, 16]]
assert all(a is b for a, b in zip(weights, model.parameters())) and type(model) is kind
assert list(model._forward_hooks.values()) == hooks and torch.equal(model(torch.ones(2, 8)), before)
dist.destroy_process_group()
"""


def counts(found):
    return collections.Counter(call.name.partition("::")[2] for call in found.calls)


def train(model, inputs, **options):
    return capture(model, inputs, mode="train", **options)


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Capture(unittest.TestCase):
    def test_linear_step(self):
        found = train(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), Input((2, 8)))
        self.assertEqual(found.parameters, 8 * 16 + 16 + 16 * 4 + 4)
        self.assertEqual(found.batch, 2)
        self.assertFalse(found.real_values)
        first = found.calls[0]
        self.assertEqual((first.name, first.module, first.phase), ("aten::addmm", "0", "forward"))
        self.assertEqual(first.dims[1], [2, 8])
        self.assertEqual(first.strides[2], [1, 8])  # the weight, transposed
        self.assertEqual(first.source, "")  # a line of who captures is none of the module
        line = capture(Block(), Input((2, 16, 64))).calls[0].source
        self.assertRegex(line, f"capture_test.py:{Block.forward.__code__.co_firstlineno + 1}$")
        gradients = [call for call in found.calls if call.name == "aten::mm"]
        self.assertEqual([call.module for call in gradients], ["2", "2", "0"])
        self.assertIn(first.sequence, [call.sequence for call in gradients])

    def test_inference_has_no_backward_pass(self):
        found = capture(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), Input((2, 8)))
        self.assertEqual(counts(found), {"addmm": 1})
        self.assertIsNone(found.optimizer)

    def test_inference_in_another_precision(self):
        for model in (Tied(), Recurrent(nn.LSTM), nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8))):
            with self.subTest(model=type(model).__name__):
                inputs = Input((2, 5), "int64") if isinstance(model, Tied) else \
                    Input((2, 5, 8) if isinstance(model, Recurrent) else (2, 4, 8))
                found = capture(model, inputs, dtype="bf16")
                self.assertFalse(found.real_values, found.notes)
                self.assertEqual(found.weight_dtype, "bfloat16")
                self.assertEqual({t for c in found.calls for t in c.out_types if t == "float"}, set(), found.calls)

    def test_the_module_stays_as_it_was(self):
        model = nn.Linear(8, 8)
        before = model.weight.clone()
        train(model, Input((2, 8)))
        self.assertTrue(torch.equal(model.weight, before))
        self.assertIsNone(model.weight.grad)

    def test_memory_is_balanced(self):
        found = train(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), Input((2, 8)))
        live = {}
        for event in found.events:
            if hasattr(event, "address"):
                if event.bytes < 0:
                    self.assertEqual(live.pop(event.address), -event.bytes)
                else:
                    live[event.address] = event.bytes
        # What is left are the gradients of the weights.
        self.assertEqual(sum(live.values()), 4 * found.parameters)

    def test_attention_is_one_operator(self):
        for dtype, mask, name in (("bf16", False, "flash"), (None, False, "efficient"), ("bf16", True, "efficient")):
            with self.subTest(dtype=dtype, mask=mask):
                found = counts(train(Block(mask), Input((2, 16, 64)), dtype=dtype))
                self.assertEqual(found[f"_scaled_dot_product_{name}_attention"], 1)
                self.assertEqual(found[f"_scaled_dot_product_{name}_attention_backward"], 1)
                self.assertEqual(found["bmm"], 0)

    def test_autocast_follows_cudas_lists(self):
        calls = train(Block(), Input((2, 16, 64)), dtype="bf16").calls
        types = {call.name.partition("::")[2]: call.types[0] for call in calls if call.phase == "forward"}
        self.assertEqual(types["native_layer_norm"], "float")
        self.assertEqual(types["addmm"], "c10::BFloat16")
        model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
        call = next(c for c in train(model, Input((2, 8)), dtype="fp16").calls if "native_layer_norm" in c.name)
        self.assertEqual(call.types[0], "float")  # the CPU's own list leaves it in 16 bits

    def test_the_programs_own_autocast_for_cuda_counts(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

            def forward(self, x):
                with torch.autocast("cuda", torch.bfloat16):
                    return self.fc(x)

        call = next(c for c in train(Own(), Input((2, 8))).calls if c.name == "aten::addmm")
        self.assertEqual(call.types[1], "c10::BFloat16")
        self.assertFalse(torch.is_autocast_enabled("cpu"))

    def test_dropout_has_a_mask_of_bytes(self):
        found = train(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), Input((2, 8)))
        call = next(c for c in found.calls if c.name == "aten::native_dropout")
        self.assertEqual(call.out_types, ["float", "bool"])
        self.assertEqual(counts(found)["native_dropout_backward"], 1)

    def test_recurrent_layers_are_one_operator(self):
        for kind, mode in ((nn.LSTM, "2"), (nn.GRU, "3"), (nn.RNN, "1")):
            with self.subTest(kind=kind.__name__):
                found = train(Recurrent(kind), Input((2, 5, 8)))
                call = next(c for c in found.calls if c.name == "aten::_cudnn_rnn")
                self.assertEqual(call.values[6:8], [mode, "16"])
                self.assertEqual(call.types[1], "TensorList<float>")
                self.assertEqual(counts(found)["_cudnn_rnn_backward"], 1)

    def test_packed_sequences_run_on_values(self):
        found = train(Recurrent(nn.LSTM, packed=True), Input((2, 5, 8)))
        self.assertEqual(counts(found)["_cudnn_rnn"], 1)

    def test_branch_on_a_value_runs_on_values_and_says_so(self):
        found = train(Branch(), Input((2, 8)))
        self.assertTrue(found.real_values)
        self.assertTrue(any("real CPU tensors" in note for note in found.notes), found.notes)
        self.assertEqual(sum(found.host_reads.values()), 1)

    def test_values_that_no_weight_decides(self):
        def forward(net, x, lengths):
            here = net.positions[:x.shape[1]] < lengths[:, None]
            total = sum(lengths.cpu().numpy().tolist()) + torch.ones_like(x)[0, 0, 0].item()
            if here.all() or total != 16 or lengths.tolist() != [3, 5, 7]:
                return net.fc(x).relu()
            kept = net.fc(x)[here]
            return kept.sum() + torch.masked_select(x, here[..., None]).sum() + here.nonzero().sum()

        model = made(forward)
        model.register_buffer("positions", torch.arange(10))
        model.register_buffer("seen", torch.tensor(3))
        before = torch.get_rng_state()
        found = train(model, (Input((3, 9, 8)), torch.tensor([3, 5, 7])))
        self.assertFalse(found.real_values, found.notes)
        shapes = {call.name: call.out_dims for call in found.calls if call.phase == "forward"}
        self.assertEqual(shapes["aten::index"], [[3 + 5 + 7, 8]])
        self.assertEqual(shapes["aten::masked_select"], [[(3 + 5 + 7) * 8]])
        self.assertEqual(shapes["aten::nonzero"], [[3 + 5 + 7, 2]])
        self.assertTrue(torch.equal(before, torch.get_rng_state()))

    def test_dice_and_checks_for_what_is_not_finite(self):
        def forward(net, x):
            x = net.fc(x)
            if torch.isinf(x).any() or torch.isnan(x).any():
                x = x.clamp(-1, 1)
            return x if torch.rand([]) < 2 else x.relu()

        model = made(forward)
        before = torch.get_rng_state()
        found = train(model, Input((2, 8)))
        self.assertFalse(found.real_values, found.notes)
        self.assertFalse({"clamp", "relu"} & set(counts(found)))
        self.assertTrue(torch.equal(before, torch.get_rng_state()))

    def test_values_that_are_drawn_in_place(self):
        def forward(net, x):
            kept = torch.zeros(2).uniform_(1, 2) > 0.5
            kept |= torch.empty(2).fill_(1.0).bernoulli_() > 2
            for _ in range(int(torch.bernoulli(kept.float()).sum()) + int((torch.rand_like(x)[0] < 2).sum())):
                x = net.fc(x)
            return x

        found = train(made(forward), Input((2, 8)))
        self.assertFalse(found.real_values, found.notes)
        self.assertEqual(counts(found)["addmm"], 2 + 8)

    def test_known_values_at_unknown_places_are_unknown(self):
        def forward(net, x):
            x = net.fc(x)
            return x if torch.arange(2)[x[:, 0].argsort()].sum() == 1 else x.relu()

        self.assertTrue(train(made(forward), Input((2, 8))).real_values)

    def test_results_of_known_values_with_weights_are_unknown(self):
        def forward(net, x):
            noise = torch.randn(4, 8)
            norm = nn.functional.batch_norm(noise, None, None, net.fc.bias, training=True)
            return net.fc(norm) if norm.sum().abs() < 1e-3 else net.fc(x).relu()

        found = train(made(forward), Input((2, 8)))
        self.assertTrue(found.real_values)
        self.assertNotIn("relu", counts(found))

    def test_sparse_tables_have_no_known_values(self):
        def forward(net, x):
            table = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2))
            return torch.sparse.mm(table, net.fc(x))

        self.assertFalse(train(made(forward), Input((2, 8))).real_values)

    def test_counters_of_a_module_are_its_own(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        self.assertFalse(train(model, Input((4, 8))).real_values)
        self.assertEqual(model[1].num_batches_tracked.item(), 0)

    def test_what_weights_are_written_into_has_no_known_value(self):
        def forward(net, x):
            table = torch.zeros(2, 2)
            table[0, 0] = net.fc(x).sum().detach()
            return net.fc(x) * (2 if table[0].sum() > 0 else 3)

        self.assertTrue(train(made(forward), Input((2, 8))).real_values)

    def test_integers_of_modules_without_weights(self):
        from rooftile._capture.values import WeightsOnMeta

        with WeightsOnMeta():
            model = made(lambda net, x: net.fc(x)[:, :net.sizes.tolist()[1]])
            model.register_buffer("sizes", torch.tensor([2, 5]))
        self.assertTrue(model.fc.weight.is_meta)
        self.assertFalse(train(model, Input((2, 8))).real_values)

    def test_needs_values_but_has_none(self):
        with torch.device("meta"):
            model = Branch()
        with self.assertRaisesRegex(CaptureError, "needs values, and the module has none"):
            train(model, Input((2, 8)))

    def test_modules_on_the_meta_device(self):
        with torch.device("meta"):
            model = Tied()
        found = train(model, Input((2, 4), "int64", high=100))
        self.assertEqual(found.parameters, 800)
        self.assertFalse(found.real_values)

    def test_cuda_means_the_device_of_the_recording(self):
        found = train(OnCuda(), Input((2, 8)))
        self.assertFalse(found.real_values)
        self.assertEqual(counts(found)["addmm"], 1)

    def test_calls_that_steer_a_gpu_do_nothing(self):
        synchronize = torch.cuda.synchronize
        self.assertEqual(counts(train(Steers(), Input((2, 8))))["addmm"], 1)
        self.assertIs(torch.cuda.synchronize, synchronize)

    def test_streams_and_events(self):
        def forward(net, x):
            stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
            event.record()
            with torch.cuda.stream(stream):
                x = net.fc(x)
            torch.cuda.current_stream().wait_stream(stream)
            x.record_stream(stream)
            return x if torch.cuda.get_device_capability() >= (8, 0) else x.half()

        record_stream = torch.Tensor.record_stream
        found = train(made(forward), Input((2, 8)))
        self.assertFalse(found.real_values)
        self.assertEqual(counts(found)["addmm"], 1)
        self.assertEqual(torch.Tensor.record_stream, record_stream)

    def test_programs_that_insist_on_a_gpu(self):
        def forward(net, x):
            assert x.is_cuda
            return net.fc(x)

        found = train(made(forward), Input((2, 8)))
        self.assertFalse(found.real_values)
        self.assertEqual(counts(found)["addmm"], 1)
        self.assertFalse(torch.zeros(1).is_cuda)

    def test_gpus_by_number_and_old_types(self):
        def forward(net, x):
            assert x.is_cuda
            x = x.to(x.get_device()).type("torch.cuda.FloatTensor") + torch.ones(8, device=f"cuda:{x.get_device()}")
            x = x + torch.cuda.FloatTensor(2, 8).zero_() + torch.zeros(8, device=0)
            x = x + torch.ones(8, device=torch.device(0))
            return net.fc(x.type(torch.cuda.FloatTensor))

        of_cuda = torch.cuda.FloatTensor
        found = train(made(forward), Input((2, 8)))
        self.assertFalse(found.real_values, found.notes)
        self.assertEqual(counts(found)["addmm"], 1)
        self.assertIs(torch.cuda.FloatTensor, of_cuda)

    def test_what_programs_ask_of_autocast(self):
        asked = []

        def forward(net, x):
            with torch.autocast("cuda", torch.bfloat16):
                asked.append((torch.is_autocast_enabled(), torch.get_autocast_dtype("cuda")))
            return net.fc(x)

        train(made(forward), Input((2, 8)))
        self.assertEqual(asked, [(True, torch.bfloat16)])
        self.assertFalse(torch.is_autocast_enabled())

    def test_caches_keep_no_fake_tensor(self):
        train(Cached(False), Input((3, 8)))
        self.assertEqual(positions(3).sum().item(), 24.0)
        positions.cache_clear()
        self.assertTrue(train(Cached(True), Input((3, 8))).real_values)

    def test_checkpoints_run_again(self):
        found = train(Checkpointed(), Input((2, 8)))
        again = [call for call in found.calls if call.phase == "recompute"]
        self.assertEqual(sum(call.name == "aten::addmm" for call in again), 2)
        self.assertTrue(all(call.module.startswith("layers.") for call in again))

    def test_custom_functions_and_hooks(self):
        model = Custom()
        model.fc.weight.register_hook(lambda grad: grad.clamp(-1, 1))
        self.assertEqual(counts(train(model, Input((2, 8))))["clamp"], 1)

    def test_functions_that_a_module_holds_call_the_copy(self):
        class Held(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleDict({"fc": nn.Linear(8, 8)})
                layers = self.layers
                self.mlp = lambda x: layers.fc(x) if hasattr(layers, "fc") else layers["fc"](x)
                self.register_forward_hook(lambda module, args, out: layers["fc"](out))

            def forward(self, x):
                return self.mlp(x)

        model = Held()
        captured = capture(model, torch.ones(2, 8), mode="train")
        self.assertNotIn("aten::t", [call.name for call in captured.calls])
        self.assertEqual(captured.parameters, 72)
        self.assertIsNone(model.layers["fc"].weight.grad)
        products = [call.module for call in captured.calls if call.name == "aten::addmm"]
        self.assertEqual(products, ["layers.fc", "layers.fc"])

    def test_what_cannot_be_copied_is_shared(self):
        class Fixed(dict):
            def __setitem__(self, key, value):
                raise TypeError("fixed")

            update = __setitem__

        model = made(lambda net, x: net.fc(x) + net.shift)
        model.config = Fixed(act=lambda x: x)
        model.lock, model.parts = threading.Lock(), [model, (number for number in range(3))]
        model.shift = model.fc.weight.sum(0)  # has a history
        found = train(model, Input((2, 8)))
        self.assertEqual(counts(found)["addmm"], 1)
        self.assertIsNone(model.fc.weight.grad)
        self.assertIsNotNone(model.shift.grad_fn)

    def test_train_by_another_meaning(self):
        class Trained(nn.Linear):
            def train(self, x, y):
                raise AssertionError("not to be called")

        found = train(nn.Sequential(Trained(8, 8), nn.Dropout(0.5)), Input((2, 8)))
        self.assertEqual(counts(found)["native_dropout"], 1)

    def test_modules_that_refuse_copies(self):
        class Refuses(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

            def __deepcopy__(self, memo):
                raise RuntimeError("not to be copied")

            def forward(self, x):
                return self.fc(x)

        model = nn.Sequential(Refuses(), nn.Linear(8, 4))
        found = train(model, Input((2, 8)))
        self.assertEqual((counts(found)["addmm"], found.real_values), (2, False))
        self.assertIsNone(model[0].fc.weight.grad)
        self.assertNotIn("__deepcopy__", vars(model[0]))

    def test_graphs_are_copied(self):
        net = torch.fx.symbolic_trace(made(lambda net, x: torch.broadcast_tensors(net.fc(x), x)[0]))
        found = train(net, Input((2, 8)))
        self.assertFalse(found.real_values, found.notes)

    def test_tensors_that_are_no_buffers(self):
        with torch.device("meta"):
            model = made(lambda net, x: net.fc(x) * net.scale + net.tables["shift"])
            model.scale, model.tables = torch.ones(8), {"shift": torch.ones(8)}
        found = train(model, Input((2, 8)))
        self.assertFalse(found.real_values)
        self.assertEqual(counts(found)["mul"], 2)
        self.assertTrue(model.scale.is_meta)

    def test_results_in_objects(self):
        def forward(net, x):
            return types.SimpleNamespace(parts=[{"scores": net.fc(x)}])

        self.assertEqual(counts(train(made(forward), Input((2, 8))))["mm"], 1)

    def test_nested_tensors(self):
        def forward(net, short, long):
            return net.fc(torch.nested.as_nested_tensor([short, long], layout=torch.jagged)).values()

        found = train(made(forward), (Input((4, 8)), Input((7, 8))))
        products = [call for call in found.calls if call.name in ("aten::addmm", "aten::mm")]
        self.assertEqual(products[0].out_dims, [[11, 8]])

    def test_inference_mode(self):
        def forward(net, x):
            with torch.inference_mode():
                return net.fc(x).matmul(x.t())

        self.assertEqual(counts(capture(made(forward), Input((2, 8)))), {"addmm": 1, "mm": 1})

    def test_flex_attention_is_one_operator(self):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        class Flex(nn.Module):
            def __init__(self, mask):
                super().__init__()
                self.qkv, self.mask = nn.Linear(64, 192), mask

            def forward(self, x):
                q, k, v = self.qkv(x).view(2, 128, 3, 4, 16).permute(2, 0, 3, 1, 4)
                mask = self.mask and create_block_mask(self.mask, None, None, 128, 128, device="cuda")
                return torch.compile(flex_attention)(q, k, v, block_mask=mask)

        cases = ((None, "False", False), (lambda b, h, q, k: q >= k, "True", False),
                 (lambda b, h, q, k: (q >= k) & (q - k < 32), "False", True))
        for mask, causal, noted in cases:
            with self.subTest(mask=mask):
                found = train(Flex(mask), Input((2, 128, 64)), dtype="bf16")
                self.assertFalse(found.real_values, found.notes)
                (call,) = [c for c in found.calls if c.name == "aten::_scaled_dot_product_flash_attention"]
                self.assertEqual(call.values[4], causal)
                self.assertEqual(counts(found)["_scaled_dot_product_flash_attention_backward"], 1)
                self.assertEqual(any("flex_attention" in note for note in found.notes), noted)

    def test_wrappers_are_opened(self):
        found = train(nn.DataParallel(nn.Linear(8, 8)), Input((2, 8)))
        self.assertIn("DataParallel is left out: its communication is not recorded", found.notes)
        found = train(torch.compile(nn.Linear(8, 8)), Input((2, 8)))
        self.assertTrue(any("torch.compile" in note for note in found.notes))

    def test_shards_are_whole_for_the_capture_alone(self):
        done = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_optimizers(self):
        model = nn.Linear(8, 8)
        cases = (
            (torch.optim.SGD(model.parameters(), 0.1), "sgd", 0.0),
            (torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), "momentum", 1.0),
            (torch.optim.Adam(model.parameters(), fused=False), "adam", 2.0),
            (torch.optim.AdamW, "adamw", 2.0),
            ("adafactor", "adafactor", 0.01),
        )
        for optimizer, kind, state in cases:
            with self.subTest(kind=kind):
                step = train(model, Input((2, 8)), optimizer=optimizer).optimizer
                self.assertEqual((step.kind, step.state, step.parameters), (kind, state, 72))

    def test_rows_without_a_gradient(self):
        for layer in (nn.Embedding, nn.EmbeddingBag):
            for sparse, untouched in ((False, 0), (True, (100 - 8) * 4)):
                with self.subTest(layer=layer, sparse=sparse):
                    step = train(layer(100, 4, sparse=sparse), Input((2, 4), "int64", high=100)).optimizer
                    self.assertEqual((step.parameters, step.untouched), (400, untouched))
                    self.assertEqual(step.as_json().get("untouched", 0), untouched)

    def test_frozen_weights(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        model[0].requires_grad_(False)
        found = train(model, Input((2, 8)))
        self.assertEqual((found.parameters, found.trainable), (144, 72))
        self.assertEqual(counts(found)["mm"], 1)  # no gradient passes into the frozen layer

    def test_inputs_by_name_and_nested(self):
        class Named(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)

            def forward(self, pair, scale=1.0):
                return self.fc(pair[0] + pair[1]["x"]) * scale

        found = capture(Named(), {"pair": (Input((2, 8)), {"x": Input((2, 8))})}, kwargs={"scale": 2.0})
        self.assertEqual(counts(found)["addmm"], 1)

    def test_inputs_in_objects(self):
        batch = types.SimpleNamespace(x=torch.ones(3, 8), parts={"lengths": torch.tensor([2, 3, 1])}, name="batch")
        found = train(made(lambda net, batch: net.fc(batch.x)[:batch.parts["lengths"].tolist()[0]]), (batch,))
        self.assertFalse(found.real_values, found.notes)
        self.assertEqual((found.batch, found.input_bytes), (3, 3 * 8 * 4 + 3 * 8))
        self.assertIs(type(batch.x), torch.Tensor)

    def test_branches_and_loops_as_operators(self):
        def forward(net, x):
            from torch._higher_order_ops.while_loop import while_loop

            number, x = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, net.fc(x)), (torch.tensor(0), x))
            return torch.cond(number > 2, lambda x: net.fc(x).sin(), lambda x: net.fc(x).cos(), (x,))

        found = train(made(forward), Input((2, 8)))
        self.assertFalse(found.real_values, found.notes)
        self.assertEqual((counts(found)["addmm"], counts(found)["sin"]), (4, 1))

    def test_refuses_with_the_reason(self):
        class Wrong(nn.Module):
            def forward(self, x):
                raise KeyError("nothing")

        with self.assertRaisesRegex(CaptureError, "does not run.*nothing"):
            capture(Wrong(), Input((2, 8)))
        with self.assertRaisesRegex(CaptureError, "call the module once before"):
            capture(nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()), Input((2, 8)))
        with self.assertRaisesRegex(CaptureError, "no gradient"):
            train(nn.Identity(), Input((2, 8)))
        with self.assertRaisesRegex(CaptureError, r"the input is empty: its shape is \(0, 8\)"):
            capture(nn.Linear(8, 8), Input((0, 8)))
        with self.assertRaises(ValueError):
            capture(nn.Identity(), Input((2, 8)), mode="decode")

    def test_refuses_types_that_only_shape_functions_take(self):
        def copied(index, value):
            return torch.zeros(4, 8).index_copy(0, index, value)

        class Calls(nn.Module):
            def __init__(self, function):
                super().__init__()
                self.function = function

            def forward(self, *args):
                return self.function(*args)

        halves = Input((4, 8), "bf16")
        index, target = Input((4,), "int64", high=4), Input((4, 8))
        with self.assertRaisesRegex(CaptureError, r"run in 0 \(Linear\): RuntimeError: mat1 and mat2 must"):
            capture(nn.Sequential(nn.Linear(8, 8)).bfloat16(), target)
        with self.assertRaisesRegex(CaptureError, "same dtype"):
            capture(nn.Linear(8, 8), Input((4, 8), "int64"))
        with self.assertRaisesRegex(CaptureError, "in Calls, at .*capture_test.py:[0-9]+: RuntimeError: index_copy"):
            capture(Calls(copied), (index, halves))
        with self.assertRaisesRegex(CaptureError, "expected Float"):
            capture(Calls(nn.functional.binary_cross_entropy), (target, halves))
        self.assertEqual(capture(Calls(torch.Tensor.add), (target, halves)).events[-1].name, "aten::add")

    def test_operators_that_every_device_runs_as_others(self):
        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.twice = nn.Bilinear(8, 8, 2)

            def forward(self, x):
                near = torch.cdist(x, x[:30])
                logits = self.twice(x, x)
                return near.sum() + nn.functional.binary_cross_entropy_with_logits(logits, torch.ones(40, 2))

        for options in ({"mode": "inference"}, {"mode": "train"}):
            names = counts(capture(Loss(), Input((40, 8)), **options))
            self.assertFalse({"_euclidean_dist", "_trilinear", "binary_cross_entropy_with_logits"} & set(names))
            self.assertGreaterEqual(names["bmm"], 4)  # two for each output of the bilinear layer
            self.assertEqual(names["log_sigmoid_forward"], 1)
            self.assertGreaterEqual(names["mm"], 1)  # of distances

    def test_a_module_that_is_converted_in_the_pass(self):
        class Router(nn.Module):
            def __init__(self):
                super().__init__()
                self.classifier = nn.Linear(8, 4, bias=False)

            def forward(self, x):
                self.classifier = self.classifier.to(torch.bfloat16)
                return self.classifier(x.bfloat16())

        model = Router()
        found = train(model, Input((2, 8)))
        self.assertFalse(found.real_values)
        self.assertIs(model.classifier.weight.dtype, torch.float32)
        (product,) = [call for call in found.calls if call.name == "aten::mm" and call.phase == "forward"]
        self.assertEqual((product.types[1], product.weights), ("c10::BFloat16", [1]))

    def test_a_list_of_known_numbers(self):
        class Ragged(nn.Module):
            def forward(self, x, lengths):
                most = torch.tensor([length.max() for length in lengths.split(2)])
                return x[:, : int(most.max())]

        found = capture(Ragged(), (Input((2, 8)), torch.tensor([3, 1, 5, 2])))
        self.assertFalse(found.real_values)

    def test_types_of_tensors_that_a_program_makes(self):
        from torch.nn.attention.bias import causal_lower_right

        class Attend(nn.Module):
            def forward(self, x):
                return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=causal_lower_right(8, 8))

        found = capture(Attend(), Input((2, 4, 8, 16)))
        self.assertFalse(found.real_values)
        self.assertEqual([call.name for call in found.calls if "attention" in call.name],
                         ["aten::_scaled_dot_product_efficient_attention"])
        self.assertIs(type(torch.Tensor([1.0])), torch.Tensor)
        self.assertNotIn("__new__", vars(torch.Tensor))

    def test_a_refusal_leaves_no_log(self):
        log = "torch._subclasses.fake_tensor"
        with self.assertRaisesRegex(AssertionError, "no logs"), self.assertLogs(log), self.assertRaises(CaptureError):
            capture(nn.Linear(8, 8), Input((4, 7)))

    def test_tf32_where_the_program_allows_it(self):
        self.assertNotIn("allow_tf32", capture(nn.Linear(8, 8), Input((2, 8))).header())
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            self.assertTrue(capture(nn.Linear(8, 8), Input((2, 8))).header()["allow_tf32"])
        finally:
            torch.set_float32_matmul_precision(before)

    def test_file(self):
        found = train(Tied(), Input((2, 4), "int64", high=100), optimizer="sgd")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("model.rooftile.json", "model.rooftile.json.gz"):
                path = found.save(pathlib.Path(folder) / name)
                if name.endswith(".gz"):
                    continue
                read = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.assertEqual(next(iter(read)), "rooftileCapture")
        header = read["rooftileCapture"]
        self.assertEqual((header["version"], header["parameters"]), (1, 800))
        self.assertEqual(header["optimizer"]["kind"], "sgd")
        names = [event["name"] for event in read["traceEvents"]]
        self.assertIn("aten::embedding", names)
        self.assertIn("[memory]", names)

    @unittest.skipUnless("ROOFTILE_PROGRAM" in os.environ, "ROOFTILE_PROGRAM names no program")
    def test_the_program_reads_it(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.h = nn.ModuleList(Block() for _ in range(3))
                self.head = nn.Linear(64, 32)

            def forward(self, x):
                for layer in self.h:
                    x = layer(x)
                return self.head(x)

        found = train(Net(), Input((2, 16, 64)))
        with tempfile.TemporaryDirectory() as folder:
            path = found.save(pathlib.Path(folder) / "net.rooftile.json.gz")
            run = subprocess.run([os.environ["ROOFTILE_PROGRAM"], "ops", path, "--gpu", "h100", "--format", "json"],
                                 capture_output=True, text=True, check=True)
        report = json.loads(run.stdout)
        self.assertEqual(report["skipped"], {})
        rows = [row for row in report["ops"] if row["kind"] == "gemm"]
        # Forward, and both gradients; the first layer's input has none, but its norm's weight does.
        self.assertEqual(sum(row["flop"] * row["count"] for row in rows), 3 * 2 * 32 * 64 * (3 * 192 + 32))
        self.assertIn(("h.*.qkv", 3), [(row["name"], row["count"]) for row in rows if row["phase"] == "forward"])


@unittest.skipUnless(HAS_TORCH and "ROOFTILE_PROGRAM" in os.environ, "needs torch and ROOFTILE_PROGRAM")
class SameAsExported(unittest.TestCase):
    """An inference pass that is captured and the same module exported are the same operations."""

    KEYS = ("name", "kind", "dims", "dtype", "count", "bytes", "flop")

    def rows(self, path):
        run = subprocess.run([os.environ["ROOFTILE_PROGRAM"], "ops", path, "--gpu", "h100", "--format", "json"],
                             capture_output=True, text=True, check=True)
        report = json.loads(run.stdout)
        self.assertEqual(report["skipped"], {})
        return [tuple(row[key] for key in self.KEYS) for row in report["ops"]]

    def expect_same(self, model, *inputs):
        model.eval()
        with tempfile.TemporaryDirectory() as folder:
            captured = self.rows(capture(model, inputs).save(pathlib.Path(folder) / "m.rooftile.json"))
            archive = f"{folder}/m.pt2"
            torch.export.save(torch.export.export(model, inputs, strict=False), archive)
            self.assertEqual(captured, self.rows(archive))

    def test_transformer_with_layers_that_repeat(self):
        class Gpt(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(100, 64)
                self.h = nn.ModuleList(Block() for _ in range(3))
                self.head = nn.Linear(64, 100, bias=False)

            def forward(self, tokens):
                x = self.table(tokens)
                for layer in self.h:
                    x = layer(x)
                return self.head(x).softmax(-1)

        self.expect_same(Gpt(), torch.zeros(2, 16, dtype=torch.int64))

    def test_attention_in_parts(self):
        class Parts(nn.Module):
            def __init__(self):
                super().__init__()
                self.q, self.k = nn.Linear(64, 64), nn.Linear(64, 64)

            def forward(self, x):
                heads = (x.shape[0], x.shape[1], 4, 16)
                q, k = self.q(x).view(heads).transpose(1, 2), self.k(x).view(heads).transpose(1, 2)
                scores = (q @ k.transpose(-1, -2) / 4).softmax(-1)
                out = (scores @ k).transpose(1, 2).reshape(x.shape)
                return nn.functional.pad(out, (0, 4)).mean(1).clamp(min=0).to(torch.float16)

        self.expect_same(Parts(), torch.randn(2, 8, 64))

    def test_convolutions_in_both_layouts(self):
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, stride=2, bias=False), nn.GroupNorm(4, 32), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(32, 10))
        x = torch.randn(2, 3, 32, 32)
        self.expect_same(model, x)
        self.expect_same(model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last))

    def test_recurrent_layers_and_tables(self):
        class Words(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.bags = nn.Embedding(50, 32), nn.EmbeddingBag(1000, 96, mode="sum")
                self.rnn = nn.LSTM(32, 48, 2, batch_first=True, bidirectional=True)
                self.out = nn.utils.parametrizations.weight_norm(nn.Linear(96, 8))

            def forward(self, words, bags):
                return self.out(self.rnn(self.words(words))[0].mean(1) + self.bags(bags))

        self.expect_same(Words(), torch.zeros(4, 9, dtype=torch.int64), torch.zeros(4, 6, dtype=torch.int64))

    def test_loss_and_multi_head_attention(self):
        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads, self.out = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 11)

            def forward(self, x, labels):
                scores = self.out(self.heads(x, x, x, need_weights=False)[0])
                return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())

        self.expect_same(Loss(), torch.randn(4, 20, 16), torch.zeros(4, 20, dtype=torch.int64))


if __name__ == "__main__":
    unittest.main()
