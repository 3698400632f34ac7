"""What the tests of the Python package share. They run the package from the sources and the program that
ROOFTILE_PROGRAM names.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "python"
VOCABULARY = "gemm vocab bf16 m=4096 n=50257 k=768"
ALIGNED = "gemm vocab bf16 m=4096 n=50304 k=768"
TRAINING_SCRIPT = """import torch
from torch import nn
model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    print(loss.item())
    optimizer.step()
"""


def environment(**more: str) -> dict:
    """The environment of a child that imports the package from the sources."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE), **more}


def python(*words: str, **options) -> subprocess.CompletedProcess:
    """Runs Python with the package on its path."""
    options.setdefault("env", environment())
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=300, check=False, **options
    )
