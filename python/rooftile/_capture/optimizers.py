"""What an optimizer's step does, by its class and flags; the step itself is not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

# Class name in lower case: kind in Rooftile, tensors of state as large as the parameters.
_KINDS = {
    "adam": ("adam", 2.0), "adamw": ("adamw", 2.0), "nadam": ("adamw", 2.0), "radam": ("adamw", 2.0),
    "adamax": ("adamw", 2.0), "lamb": ("adamw", 2.0), "lion": ("momentum", 1.0),
    "adagrad": ("momentum", 1.0), "rmsprop": ("momentum", 1.0), "adadelta": ("adamw", 2.0),
    "muon": ("momentum", 1.0), "sparseadam": ("adam", 2.0), "adafactor": ("adafactor", 0.01),
}


@dataclass
class OptimizerStep:
    name: str  # the class
    kind: str  # whose memory traffic it has
    state: float  # elements for each parameter
    parameters: int
    fused: Optional[bool] = None
    foreach: Optional[bool] = None
    untouched: int = 0  # parameters in rows for which a sparse gradient has nothing
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"class": self.name, "kind": self.kind, "parameters": self.parameters,
                 "state_per_parameter": self.state}
        for flag in ("fused", "foreach"):
            if getattr(self, flag) is not None:
                found[flag] = getattr(self, flag)
        if self.untouched > 0:
            found["untouched"] = self.untouched
        return found


def _momentum(group: Mapping[str, Any]) -> bool:
    return bool(group.get("momentum", 0))


def describe(optimizer: Any, trainable: int) -> OptimizerStep:
    """`optimizer`: an instance, a class, a name, several of them, or None for AdamW. `trainable`: parameters that the
    step updates.
    """
    if isinstance(optimizer, (list, tuple)):
        return together([describe(one, trainable) for one in optimizer])
    if optimizer is None:
        return OptimizerStep("AdamW", "adamw", 2.0, trainable, note="no optimizer given: AdamW assumed")
    groups = getattr(optimizer, "param_groups", None)
    name = optimizer if isinstance(optimizer, str) else getattr(optimizer, "__name__", None)
    name = name or type(optimizer).__name__
    group = groups[0] if groups else {}
    if groups:
        trainable = sum(p.numel() for g in groups for p in g["params"] if p.requires_grad)
    flags: dict[str, Any] = {flag: group.get(flag) for flag in ("fused", "foreach")}
    key = name.lower()
    if key == "sgd":
        kind, state = ("momentum", 1.0) if _momentum(group) else ("sgd", 0.0)
        return OptimizerStep(name, kind, state, trainable, **flags)
    if key in ("adam", "adamw") and group.get("amsgrad"):
        return OptimizerStep(name, _KINDS[key][0], 3.0, trainable, **flags)
    if key == "rmsprop" and group.get("momentum"):
        return OptimizerStep(name, "adamw", 2.0, trainable, **flags)
    if key in _KINDS:
        kind, state = _KINDS[key]
        return OptimizerStep(name, kind, state, trainable, **flags)
    return OptimizerStep(name, "adamw", 2.0, trainable, note=f"optimizer {name} is not known: counted as AdamW",
                         **flags)


def together(steps: Sequence[OptimizerStep]) -> OptimizerStep:
    """Several optimizers of one step as one, of the kind that has the most parameters."""
    largest = max(steps, key=lambda step: step.parameters)
    if len(steps) == 1:
        return largest
    parameters = sum(step.parameters for step in steps)
    state = sum(step.state * step.parameters for step in steps) / max(parameters, 1)
    notes = [step.note for step in steps if step.note]
    if any(step.kind != largest.kind for step in steps):
        notes.append(f"several optimizers, all counted as {largest.name}")
    same = {flag: getattr(largest, flag) for flag in ("fused", "foreach")
            if all(getattr(step, flag) == getattr(largest, flag) for step in steps)}
    names = " + ".join(dict.fromkeys(step.name for step in steps))
    return OptimizerStep(names, largest.kind, state, parameters, note="; ".join(notes), **same)
