"""A capture as a file: a profiler trace without times, behind a header.

docs/formats/capture.md describes it.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, Union

from .optimizers import OptimizerStep
from .recorder import Call, MemoryChange

VERSION = 1
SUFFIX = ".rooftile.json"


@dataclass
class Capture:
    """A recorded pass. `save` writes what `rooftile check` reads."""

    model: str
    mode: str
    parameters: int
    trainable: int
    weight_bytes: int  # parameters and buffers
    weight_dtype: str
    input_bytes: int
    batch: Optional[int]
    events: list[Union[Call, MemoryChange]]
    optimizer: Optional[OptimizerStep] = None
    notes: list[str] = field(default_factory=list)
    host_reads: dict[str, int] = field(default_factory=dict)
    real_values: bool = False  # ran on real CPU tensors
    torch: str = ""
    allow_tf32: bool = False  # for fp32 products

    @property
    def calls(self) -> list[Call]:
        return [event for event in self.events if isinstance(event, Call)]

    def rename_modules(self, name: Callable[[str], str]) -> None:
        """Gives every path of a module another name."""
        for call in self.calls:
            call.module = name(call.module)

    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = {
            "version": VERSION, "model": self.model, "mode": self.mode, "torch": self.torch,
            "parameters": self.parameters, "trainable_parameters": self.trainable,
            "weight_bytes": self.weight_bytes, "weight_dtype": self.weight_dtype,
            "input_bytes": self.input_bytes, "notes": self.notes, "host_reads": self.host_reads,
        }
        if self.allow_tf32:
            header["allow_tf32"] = True
        if self.batch is not None:
            header["batch"] = self.batch
        if self.optimizer is not None:
            header["optimizer"] = self.optimizer.as_json()
        return header

    def save(self, path: Union[str, Path], in_memory: bool = False) -> str:
        """Writes the file, compressed if its name ends in .gz; returns the path.

        in_memory: reports name the model's class, and not the file, which nobody asked for.
        """
        path = str(path)
        opened: Callable[..., Any] = gzip.open if path.endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8") as file:
            header = {**self.header(), **({"in_memory": True} if in_memory else {})}
            write = json.JSONEncoder(separators=(",", ":")).encode
            file.write('{"rooftileCapture":' + write(header) + ',\n"traceEvents":[\n')
            for number, event in enumerate(self.events):
                file.write(",\n" if number else "")
                file.write(write(_as_event(event, number)))
            file.write("\n]}\n")
        return path


def _as_event(event: Union[Call, MemoryChange], number: int) -> dict[str, Any]:
    if isinstance(event, MemoryChange):
        return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": number,
                "args": {"Bytes": event.bytes, "Addr": event.address, "Device Type": 1, "Device Id": 0}}
    args: dict[str, Any] = {
        "Input Dims": event.dims, "Input type": event.types, "Input Strides": event.strides,
        "Concrete Inputs": event.values, "Output Dims": event.out_dims,
        "Output Strides": event.out_strides, "Output type": event.out_types, "Phase": event.phase}
    for name, value in (("Module Hierarchy", event.module), ("Source", event.source),
                        ("Reads", event.reads), ("Writes", event.writes),
                        ("Weights", event.weights)):
        if value:
            args[name] = value
    if event.sequence >= 0:
        args["Sequence number"] = event.sequence
    return {"ph": "X", "cat": "cpu_op", "name": event.name, "ts": number, "dur": 0, "args": args}
