"""The zoo: networks by family, each with inputs for one training step, none with weights.

Every entry is a function that returns (module, inputs); `TRAPS` holds what is known to trip tools
that record programs.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from rooftile._capture import Input

ZOO = {}


def entry(name):
    def keep(make):
        ZOO[name] = make
        return make
    return keep


def image(batch=8, size=224):
    return Input((batch, 3, size, size))


def tokens(batch=4, length=256, high=1000):
    return Input((batch, length), "int64", high=high)


# torchvision


def _torchvision(name, size=224, **options):
    @entry(f"torchvision/{name}")
    def make():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options), image(size=size)


for _name in ("resnet18", "resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "densenet121",
              "vgg16", "vit_b_16", "swin_t", "regnet_y_400mf", "shufflenet_v2_x1_0", "maxvit_t"):
    _torchvision(_name)
_torchvision("inception_v3", size=299)


@entry("torchvision/r3d_18")
def _():
    import torchvision

    return torchvision.models.video.r3d_18(weights=None), Input((2, 3, 8, 112, 112))


@entry("torchvision/deeplabv3_resnet50")
def _():
    import torchvision

    model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)
    return model, image(2, 256)


@entry("torchvision/fasterrcnn_resnet50_fpn")
def _():
    import torchvision

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, min_size=128, max_size=128,
        rpn_pre_nms_top_n_train=64, rpn_post_nms_top_n_train=32)
    targets = [{"boxes": torch.tensor([[10.0, 10.0, 60.0, 60.0]]), "labels": torch.tensor([1])}]
    return model, ([torch.rand(3, 128, 128)], targets)


# timm


def _timm(name, size=224, **options):
    @entry(f"timm/{name}")
    def make():
        import timm

        return timm.create_model(name, **options), image(size=size)


for _name in ("vit_small_patch16_224", "deit3_small_patch16_224", "convnextv2_nano", "mixer_b16_224", "beit_base_patch16_224",
              "efficientformer_l1", "resnetv2_50", "tf_efficientnetv2_s", "coatnet_0_rw_224", "swinv2_cr_tiny_224",
              "eva02_tiny_patch14_224", "xcit_nano_12_p16_224", "mobilevit_s"):
    _timm(_name)


# transformers


def _transformers(name, model, config, inputs, **options):
    @entry(f"transformers/{name}")
    def make():
        import transformers

        made = getattr(transformers, config)(**options)
        return getattr(transformers, model)(made), inputs()


def _language(high=1000, length=256, batch=4):
    return lambda: {"input_ids": tokens(batch, length, high), "labels": tokens(batch, length, high)}


_SMALL = dict(hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
              num_key_value_heads=2, vocab_size=32000)

_transformers("gpt2", "GPT2LMHeadModel", "GPT2Config", _language(), **{})
_transformers("llama-gqa", "LlamaForCausalLM", "LlamaConfig", _language(), **_SMALL)
_transformers("mistral-window", "MistralForCausalLM", "MistralConfig", _language(), sliding_window=128, **_SMALL)
_transformers("qwen3", "Qwen3ForCausalLM", "Qwen3Config", _language(), head_dim=64, **_SMALL)
_transformers("gemma2", "Gemma2ForCausalLM", "Gemma2Config", _language(), head_dim=64, **_SMALL)
_transformers("phi3", "Phi3ForCausalLM", "Phi3Config", _language(), pad_token_id=0, **_SMALL)
_transformers("mixtral-moe", "MixtralForCausalLM", "MixtralConfig", _language(), num_local_experts=4, **_SMALL)
_transformers("qwen3-moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", _language(), num_experts=8,
              num_experts_per_tok=2, moe_intermediate_size=256, head_dim=64, **_SMALL)
_transformers("deepseek-v3-mla", "DeepseekV3ForCausalLM", "DeepseekV3Config", _language(), hidden_size=512,
              intermediate_size=1024, moe_intermediate_size=256, num_hidden_layers=4, num_attention_heads=8,
              num_key_value_heads=8, n_routed_experts=8, n_group=2, topk_group=1, num_experts_per_tok=2,
              first_k_dense_replace=1, q_lora_rank=256, kv_lora_rank=128, vocab_size=32000)
_transformers("mamba", "MambaForCausalLM", "MambaConfig", _language(length=32, batch=2), hidden_size=256, num_hidden_layers=2,
              vocab_size=8000)
_transformers("bert", "BertForMaskedLM", "BertConfig", _language(), **{})
_transformers("roberta", "RobertaForMaskedLM", "RobertaConfig", _language(), num_hidden_layers=4)
_transformers("deberta-v2", "DebertaV2ForMaskedLM", "DebertaV2Config", _language(), num_hidden_layers=4,
              hidden_size=768, num_attention_heads=12, intermediate_size=3072, relative_attention=True,
              pos_att_type=["p2c", "c2p"], vocab_size=32000)
_transformers("albert-shared", "AlbertForMaskedLM", "AlbertConfig", _language(), hidden_size=768,
              intermediate_size=3072, num_attention_heads=12)
_transformers("longformer", "LongformerForMaskedLM", "LongformerConfig", _language(length=256, batch=2),
              num_hidden_layers=2, attention_window=[64, 64])
_transformers("t5", "T5ForConditionalGeneration", "T5Config", _language(), num_layers=4,
              decoder_start_token_id=0, pad_token_id=0)
_transformers("bart", "BartForConditionalGeneration", "BartConfig", _language(), encoder_layers=3, decoder_layers=3)
_transformers("whisper-audio", "WhisperForConditionalGeneration", "WhisperConfig",
              lambda: {"input_features": Input((2, 80, 3000)), "labels": tokens(2, 64)}, encoder_layers=2,
              decoder_layers=2)
_transformers("wav2vec2-audio", "Wav2Vec2ForCTC", "Wav2Vec2Config",
              lambda: {"input_values": Input((2, 16000)), "labels": Input((2, 12), "int64", high=30)},
              num_hidden_layers=4, vocab_size=32, layerdrop=0.0)  # a layer dropped at random would count in one run alone
_transformers("hubert-audio", "HubertModel", "HubertConfig", lambda: {"input_values": Input((2, 16000))},
              num_hidden_layers=4, layerdrop=0.0)
_transformers("vit", "ViTForImageClassification", "ViTConfig", lambda: {"pixel_values": image()}, **{})
_transformers("clip", "CLIPModel", "CLIPConfig",
              lambda: {"input_ids": tokens(8, 77), "pixel_values": image(), "return_loss": True}, **{})
_transformers("dinov2", "Dinov2ForImageClassification", "Dinov2Config", lambda: {"pixel_values": image()},
              num_hidden_layers=6)
_transformers("segformer", "SegformerForSemanticSegmentation", "SegformerConfig",
              lambda: {"pixel_values": image(2, 256)}, **{})
_transformers("detr-detection", "DetrForObjectDetection", "DetrConfig",
              lambda: {"pixel_values": image(2, 256)}, use_timm_backbone=True, use_pretrained_backbone=False)
_transformers("yolos-detection", "YolosForObjectDetection", "YolosConfig", lambda: {"pixel_values": Input((2, 3, 512, 864))},
              num_hidden_layers=4)


# diffusers


@entry("diffusers/unet-sd")
def _():
    import diffusers

    model = diffusers.UNet2DConditionModel(sample_size=32, cross_attention_dim=768, attention_head_dim=8)
    return model, (Input((2, 4, 32, 32)), Input((2,), "int64"), Input((2, 77, 768)))


@entry("diffusers/dit")
def _():
    import diffusers

    model = diffusers.DiTTransformer2DModel(num_layers=4)
    return model, {"hidden_states": Input((2, 4, 32, 32)), "timestep": Input((2,), "int64"),
                   "class_labels": Input((2,), "int64")}


@entry("diffusers/vae")
def _():
    import diffusers

    return diffusers.AutoencoderKL(block_out_channels=(64, 128), down_block_types=("DownEncoderBlock2D",) * 2,
                                   up_block_types=("UpDecoderBlock2D",) * 2), image(2, 64)


# torchaudio


@entry("torchaudio/conformer")
def _():
    import torchaudio

    return torchaudio.models.Conformer(80, 4, 256, 4, 31), (Input((4, 200, 80)), torch.full((4,), 200))


@entry("torchaudio/conv-tasnet")
def _():
    import torchaudio

    return torchaudio.models.ConvTasNet(), Input((2, 1, 8000))


@entry("torchaudio/deepspeech")
def _():
    import torchaudio

    return torchaudio.models.DeepSpeech(80), Input((4, 1, 100, 80))


# Graphs and recommenders


@entry("pyg/gcn")
def _():
    from torch_geometric.nn import GCNConv

    class Gcn(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = GCNConv(64, 128), GCNConv(128, 16)

        def forward(self, x, edges):
            return self.second(self.first(x, edges).relu(), edges)

    return Gcn(), (Input((1000, 64)), Input((2, 5000), "int64", high=1000))


@entry("pyg/gat")
def _():
    from torch_geometric.nn import GAT

    return GAT(64, 128, 2, 16, heads=4), (Input((1000, 64)), Input((2, 5000), "int64", high=1000))


@entry("recommender/dlrm")
def _():
    class Dlrm(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(10000, 64, mode="sum") for _ in range(8))
            self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(36 + 64, 256), nn.ReLU(), nn.Linear(256, 1))

        def forward(self, dense, sparse):
            x = self.bottom(dense)
            rows = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
            products = torch.bmm(rows, rows.transpose(1, 2))
            i, j = torch.tril_indices(9, 9, -1)
            return self.top(torch.cat([x, products[:, i, j]], 1)).sigmoid()

    return Dlrm(), (Input((512, 13)), Input((512, 8, 4), "int64", high=10000))


# Traps


class Item(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        x = self.layer(x)
        return x * 2 if x.sum().item() > 0 else x * 3


class BooleanMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(x[x[:, 0] > 0])


class NamesCuda(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        noise = torch.randn(x.shape, device="cuda").to("cuda:0").cuda()
        return self.layer(x.to(torch.device("cuda")) + noise)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.out = nn.Linear(64, 1000, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x):
        return self.out(self.table(x))


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(4))
        self.reentrant = reentrant

    def forward(self, x):
        x = x * torch.ones((), requires_grad=True)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return x


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


class CustomFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return Square.apply(self.layer(x))


class PackedLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.rnn = nn.LSTM(32, 64, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, 10)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.table(x), lengths, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(out.mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(64, 128, 2, batch_first=True)
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


class Numpy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        scale = float(x.detach().cpu().numpy().std())
        return self.layer(x) / max(scale, 1.0)


class NewParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(x) + nn.Parameter(torch.zeros(64))


def _with_hooks():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    model[0].register_forward_hook(lambda module, args, out: out * 2)
    model[2].register_full_backward_hook(lambda module, into, out: None)
    model[0].weight.register_hook(lambda grad: grad.clamp(-1, 1))
    return model


def _data_parallel():
    return nn.DataParallel(nn.Linear(64, 64))


def _distributed():
    """As DistributedDataParallel, without a process group."""
    class DistributedDataParallel(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args):
            raise RuntimeError("no process group")

    return DistributedDataParallel(nn.Linear(64, 64))


class MemoryEfficientMask(nn.Module):
    """Attention with a mask that is trained, and dropout."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.bias = nn.Parameter(torch.zeros(1, 4, 32, 32))

    def forward(self, x):
        q, k, v = self.qkv(x).view(x.shape[0], 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
        out = nn.functional.scaled_dot_product_attention(q, k, v, self.bias, dropout_p=0.1)
        return out.transpose(1, 2).reshape(x.shape)


class UsesAutocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x):
        with torch.autocast("cuda", torch.bfloat16):
            return self.norm(self.layer(x)).softmax(-1)


def _row():
    return Input((32, 64))


TRAPS = {
    "item": lambda: (Item(), _row()),
    "boolean-mask": lambda: (BooleanMask(), _row()),
    "names-cuda": lambda: (NamesCuda(), _row()),
    "tied-weights": lambda: (Tied(), tokens(4, 32)),
    "checkpoint": lambda: (Checkpointed(False), Input((32, 128))),
    "checkpoint-reentrant": lambda: (Checkpointed(True), Input((32, 128))),
    "hooks": lambda: (_with_hooks(), _row()),
    "custom-function": lambda: (CustomFunction(), _row()),
    "packed-lstm": lambda: (PackedLstm(), (tokens(4, 20, 100), torch.tensor([20, 15, 8, 3]))),
    "lstm": lambda: (Recurrent(nn.LSTM), Input((16, 50, 64))),
    "gru": lambda: (Recurrent(nn.GRU), Input((16, 50, 64))),
    "numpy": lambda: (Numpy(), _row()),
    "new-parameter": lambda: (NewParameter(), _row()),
    "compiled": lambda: (torch.compile(nn.Sequential(nn.Linear(64, 64), nn.ReLU())), _row()),
    "data-parallel": lambda: (_data_parallel(), _row()),
    "distributed": lambda: (_distributed(), _row()),
    "attention-bias": lambda: (MemoryEfficientMask(), Input((8, 32, 64))),
    "own-autocast": lambda: (UsesAutocast(), _row()),
}
for _name, _make in TRAPS.items():
    ZOO[f"trap/{_name}"] = _make


# A second set, made after the first one passed.


_transformers("olmoe", "OlmoeForCausalLM", "OlmoeConfig", _language(), num_experts=8, num_experts_per_tok=2,
              **{**_SMALL, "intermediate_size": 256, "vocab_size": 50304})
_transformers("gpt-oss-moe", "GptOssForCausalLM", "GptOssConfig", _language(), num_local_experts=4,
              num_experts_per_tok=2, head_dim=64, **_SMALL)
_transformers("falcon-mqa", "FalconForCausalLM", "FalconConfig", _language(), hidden_size=512, num_hidden_layers=4,
              num_attention_heads=8, vocab_size=32000)
_transformers("bloom-alibi", "BloomForCausalLM", "BloomConfig", _language(), hidden_size=512, n_layer=4, n_head=8,
              vocab_size=32000)
_transformers("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", _language(), head_dim=64, **_SMALL)
_transformers("mamba2", "Mamba2ForCausalLM", "Mamba2Config", _language(length=64, batch=2), hidden_size=256,
              num_hidden_layers=2, num_heads=8, head_dim=64, vocab_size=8000, n_groups=1, chunk_size=32)
_transformers("electra", "ElectraForMaskedLM", "ElectraConfig", _language(), num_hidden_layers=4)
_transformers("xlnet", "XLNetLMHeadModel", "XLNetConfig", _language(length=128), n_layer=4, d_model=512, n_head=8,
              d_inner=2048)
_transformers("resnet", "ResNetForImageClassification", "ResNetConfig", lambda: {"pixel_values": image()})
_transformers("swin", "SwinForImageClassification", "SwinConfig", lambda: {"pixel_values": image()})
_transformers("mobilevit", "MobileViTForImageClassification", "MobileViTConfig",
              lambda: {"pixel_values": image(4, 256)})
_transformers("rt-detr-detection", "RTDetrForObjectDetection", "RTDetrConfig",
              lambda: {"pixel_values": image(2, 256)}, anchor_image_size=None)
_transformers("conditional-detr", "ConditionalDetrForObjectDetection", "ConditionalDetrConfig",
              lambda: {"pixel_values": image(2, 256)}, use_timm_backbone=False, use_pretrained_backbone=False,
              backbone=None, backbone_config={"model_type": "resnet", "out_features": ["stage4"]})
_transformers("blip-vision-language", "BlipForConditionalGeneration", "BlipConfig",
              lambda: {"input_ids": tokens(2, 32), "labels": tokens(2, 32), "pixel_values": image(2, 384)})
_transformers("patchtst-series", "PatchTSTForPrediction", "PatchTSTConfig",
              lambda: {"past_values": Input((8, 512, 7)), "future_values": Input((8, 96, 7))},
              num_input_channels=7, context_length=512, prediction_length=96)


def _diffusers(name, model, inputs, **options):
    @entry(f"diffusers/{name}")
    def make():
        import diffusers

        return getattr(diffusers, model)(**options), inputs()


_diffusers("unet-ddpm", "UNet2DModel", lambda: (Input((2, 3, 64, 64)), Input((2,), "int64")), sample_size=64,
           block_out_channels=(64, 128, 128), down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
           up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"), norm_num_groups=16)
_diffusers("sd3-mmdit", "SD3Transformer2DModel",
           lambda: {"hidden_states": Input((2, 16, 32, 32)), "encoder_hidden_states": Input((2, 77, 256)),
                    "pooled_projections": Input((2, 128)), "timestep": Input((2,))},
           sample_size=32, num_layers=3, attention_head_dim=32, num_attention_heads=8, joint_attention_dim=256,
           caption_projection_dim=256, pooled_projection_dim=128)
_diffusers("pixart-dit", "PixArtTransformer2DModel",
           lambda: {"hidden_states": Input((2, 4, 32, 32)), "encoder_hidden_states": Input((2, 20, 64)),
                    "timestep": Input((2,), "int64"),
                    "added_cond_kwargs": {"resolution": None, "aspect_ratio": None}},
           num_layers=3, attention_head_dim=32, num_attention_heads=8, caption_channels=64, cross_attention_dim=256,
           sample_size=32, use_additional_conditions=False)


@entry("pyg/sage")
def _():
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(64, 128, 3, 16), (Input((1000, 64)), Input((2, 5000), "int64", high=1000))


@entry("pyg/gin-pooled")
def _():
    from torch_geometric.nn import GIN, global_add_pool

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.out = GIN(64, 128, 3), nn.Linear(128, 2)

        def forward(self, x, edges, graph):
            return self.out(global_add_pool(self.layers(x, edges), graph, 32))

    return Pooled(), (Input((1000, 64)), Input((2, 5000), "int64", high=1000), Input((1000,), "int64", high=32))


class DeepFm(nn.Module):
    """Factorization machine and network over one table of all fields."""

    def __init__(self, fields=26, width=16):
        super().__init__()
        self.first, self.table = nn.Embedding(100000, 1), nn.Embedding(100000, width)
        self.deep = nn.Sequential(nn.Linear(fields * width, 400), nn.ReLU(), nn.Dropout(0.5), nn.Linear(400, 1))

    def forward(self, x):
        rows = self.table(x)
        pairs = (rows.sum(1) ** 2 - (rows ** 2).sum(1)).sum(1, keepdim=True) / 2
        return (self.first(x).sum(1) + pairs + self.deep(rows.flatten(1))).sigmoid()


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.EmbeddingBag(50000, 64, mode="mean"), nn.EmbeddingBag(20000, 64, mode="sum")
        self.user, self.item = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, users, user_begins, items, item_begins):
        scores = self.user(self.users(users, user_begins)) @ self.item(self.items(items, item_begins)).T
        return nn.functional.cross_entropy(scores, torch.arange(len(scores)))


class Scaled(torch.autograd.Function):
    """Two results, a gradient of products of its own."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w, x.mean(0)

    @staticmethod
    def backward(ctx, grad, mean):
        x, w = ctx.saved_tensors
        return grad @ w.T + mean / len(x), x.T @ grad


class OwnGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.out = nn.Parameter(torch.randn(128, 256)), nn.Linear(256, 8)

    def forward(self, x):
        y, mean = Scaled.apply(x, self.weight)
        return self.out(y) + mean.sum()


def _checkpointed_gpt2():
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4))
    model.gradient_checkpointing_enable()
    return model, _language()()


def _compiled_inside():
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    model[0] = torch.compile(model[0])
    model.forward = torch.compile(model.forward)
    return model, _row()


def _real_ddp():
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))), _row()


class PlacesOnCuda(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.anchors = torch.arange(64.0)

    def forward(self, x):
        device = "cuda:0"
        mask = torch.ones(64, 64, device=device).tril_()
        x = x.cuda(non_blocking=True).to(device=device, dtype=torch.float32)
        with torch.cuda.device(0):
            y = self.layer(x) @ mask + self.anchors.to(device)
        torch.cuda.synchronize()
        return y + torch.full_like(y, 0.5, device=device) + torch.tensor([1.0], device=torch.device("cuda", 0))


class TiedDecoder(nn.Module):
    """Weights that three layers share, one of them transposed."""

    def __init__(self):
        super().__init__()
        self.table, self.rows = nn.Embedding(2000, 64), nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        for row in self.rows[1:]:
            row.weight = self.rows[0].weight

    def forward(self, x):
        x = self.table(x)
        for row in self.rows:
            x = row(x).relu()
        return x @ self.table.weight.T


class Speech(nn.Module):
    """Weight norm, packed sequences and CTC."""

    def __init__(self):
        super().__init__()
        self.front = nn.utils.parametrizations.weight_norm(nn.Conv1d(40, 64, 5, padding=2))
        self.rnn, self.out = nn.GRU(64, 96, 2, bidirectional=True), nn.Linear(192, 29)

    def forward(self, x, lengths, labels):
        x = self.front(x).relu().permute(2, 0, 1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])
        scores = self.out(out).log_softmax(-1)
        return nn.functional.ctc_loss(scores, labels, lengths, torch.full((len(lengths),), labels.shape[1]))


def _encoder_with_mask():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 3)

        def forward(self, x, mask):
            return self.layers(x, src_key_padding_mask=mask)

    return Encoder(), (Input((8, 50, 128)), Input((8, 50), "bool"))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pair = nn.LSTMCell(32, 64), nn.Bilinear(64, 64, 8)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 64)
        for step in range(12):
            h, c = self.cell(x[:, step], (h, c))
        return self.pair(h, c) + torch.einsum("bi,bj,ij->b", h, c, self.cell.weight_hh[:64])[:, None]


class SparseGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 32)

    def forward(self, x, places):
        graph = torch.sparse_coo_tensor(places, torch.ones(places.shape[1]), (len(x), len(x)))
        return torch.sparse.mm(graph, self.layer(x))


SECOND = {
    "recommender/deepfm": lambda: (DeepFm(), Input((512, 26), "int64", high=100000)),
    "recommender/two-towers": lambda: (
        TwoTowers(), (Input((512,), "int64", high=50000), torch.arange(0, 512, 8),
                      Input((256,), "int64", high=20000), torch.arange(0, 256, 4))),
    "trap/own-gradient": lambda: (OwnGradient(), Input((32, 128))),
    "trap/checkpointed-gpt2": _checkpointed_gpt2,
    "trap/compiled-inside": _compiled_inside,
    "trap/real-ddp": _real_ddp,
    "trap/places-on-cuda": lambda: (PlacesOnCuda(), _row()),
    "trap/tied-decoder": lambda: (TiedDecoder(), tokens(4, 32, 2000)),
    "trap/speech": lambda: (Speech(), (Input((4, 40, 100)), torch.tensor([100, 90, 70, 40]),
                                       torch.randint(1, 29, (4, 12)))),
    "trap/encoder-with-mask": _encoder_with_mask,
    "trap/cells": lambda: (Cells(), Input((16, 12, 32))),
    "trap/sparse-graph": lambda: (SparseGraph(), (Input((200, 64)), torch.randint(0, 200, (2, 800)))),
}
for _name, _make in SECOND.items():
    ZOO[_name] = _make
