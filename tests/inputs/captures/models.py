#!/usr/bin/env python3
"""Networks whose captures lie in this folder. Writes them again:

    PYTHONPATH=python python tests/inputs/captures/models.py

Other releases of PyTorch may run other operators: read the difference of the goldens.
"""

import pathlib

import torch
from torch import nn

from rooftile._capture import Input, capture

HERE = pathlib.Path(__file__).resolve().parent


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.mlp_norm(x))


class Gpt(nn.Module):
    """An odd vocabulary."""

    def __init__(self, vocabulary=50257, width=768, heads=12, layers=4):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        for block in self.h:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


class Convolutions(nn.Module):
    """Biases before batch norms."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(self.stage(*sizes) for sizes in ((3, 64), (64, 128), (128, 256)))
        self.head = nn.Linear(256, 1000)

    @staticmethod
    def stage(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                             nn.MaxPool2d(2))

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


class Speech(nn.Module):
    """Weight norm, packed sequences and CTC."""

    def __init__(self):
        super().__init__()
        self.front = nn.utils.parametrizations.weight_norm(nn.Conv1d(80, 256, 5, padding=2))
        self.rnn = nn.GRU(256, 512, 2, bidirectional=True)
        self.out = nn.Linear(1024, 29)

    def forward(self, x, lengths, labels):
        x = self.front(x).relu().permute(2, 0, 1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])
        scores = self.out(out).log_softmax(-1)
        return nn.functional.ctc_loss(scores, labels, lengths, torch.full((len(lengths),), labels.shape[1]))


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(100000, 64, mode="sum") for _ in range(4))
        self.top = nn.Sequential(nn.Linear(4 * 64 + 13, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense, sparse):
        rows = [table(sparse[:, at]) for at, table in enumerate(self.tables)]
        return self.top(torch.cat([dense, *rows], 1)).sigmoid()


def tokens():
    return Input((8, 512), "int64", high=50257)


CAPTURES = {
    "gpt_train": lambda: capture(Gpt(), (tokens(), tokens()), mode="train", dtype="bf16"),
    "convolutions_train": lambda: capture(Convolutions(), Input((32, 3, 128, 128)), mode="train",
                                          optimizer=torch.optim.SGD, dtype="fp16"),
    "speech_train": lambda: capture(
        Speech(), (Input((8, 80, 400)), torch.arange(400, 240, -20), Input((8, 40), "int64", high=28)), mode="train"),
    "recommender": lambda: capture(Recommender(), (Input((2048, 13)), Input((2048, 4, 8), "int64", high=100000))),
}


def main():
    for name, make in CAPTURES.items():
        torch.manual_seed(0)
        print(make().save(HERE / f"{name}.rooftile.json.gz"))


if __name__ == "__main__":
    main()
