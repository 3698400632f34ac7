"""The modules that a training step calls, and what they are called with: what a capture of the step is made of.

A loop calls its networks, and often its loss, as modules; what else it computes is not seen. Values that one call
gives to another one join the two, so that gradients flow as in the loop.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, cast
from weakref import ReferenceType, ref

from ._lines import line_of_caller

if TYPE_CHECKING:
    from ._capture.writer import Capture

# Steps that call more than this are loops over tokens or games: of equal calls, three are captured.
MOST_CALLS = 32
# What differs in more ways takes too long to capture, and more operators too long to read.
MOST_KINDS = 96
MOST_OPERATORS = 300_000
# Of the history of an input.
MOST_NODES = 1000


@dataclass(frozen=True)
class Output:
    """A tensor that an earlier call gave: the number of the call, and which of its tensors."""

    call: int
    index: int


@dataclass
class Call:
    """One call of a module from outside of all modules.

    args, kwargs: as given, tensors without their history; an `Output` stands for what an earlier call gave.
    gradients: whether autograd recorded it.
    autocast: the type of the CPU's autocast, None where it was off.
    line: of the program, where it stands.
    turn: how many times gradients were computed before it.
    shapes: of all tensors that it got.
    origins: for each of them the output that the loop computed it from, as far as it has a history.
    """

    module: Any
    args: Any
    kwargs: Any
    gradients: bool
    autocast: Any
    line: str = ""
    turn: int = 0
    shapes: tuple[Any, ...] = ()
    origins: tuple[Optional[Output], ...] = ()

    def key(self) -> tuple[Any, ...]:
        """Calls of one key do the same work."""
        return (id(self.module), self.gradients, self.autocast, self.shapes)


class Watch:
    """Follows the calls of one step; `find` comes a step before `take`."""

    def __init__(self) -> None:
        self.problem: Optional[str] = None
        self._optimizers: list[Any] = []
        self._roots: dict[int, tuple[ReferenceType[Any], list[Any]]] = {}  # with the parts
        self._undo: list[Callable[[], None]] = []
        self._depth = 0
        self._calls: list[Call] = []
        self._made: dict[int, tuple[Output, Any]] = {}  # tensors live on, so that no other one gets their id
        self._nodes: dict[Any, Output] = {}  # of autograd
        self._differentiated: set[Output] = set()
        self._turn = 0
        self._has_new_gradients = False

    def guard(self, action: Callable[[], None]) -> None:
        """The program and the recording go on, whatever a module does not allow."""
        try:
            action()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
            self.close()

    def find(self) -> None:
        """From now on, notes which modules are called."""
        from torch.nn.modules import module as modules

        def enter(module: Any, _args: Any) -> None:
            if self._depth == 0:
                self._roots[id(module)] = ref(module), [*module.children()]
            self._depth += 1

        def leave(_module: Any, _args: Any, _result: Any) -> None:
            self._depth = max(0, self._depth - 1)

        self._follow_optimizers()
        self._undo.append(without_warning("Using `torch.compile"))  # of hooks on all modules, which are these
        self._keep(modules.register_module_forward_pre_hook(enter))
        self._keep(modules.register_module_forward_hook(leave, always_call=True))

    def take(self) -> None:
        """From now on, notes what these modules are called with."""
        self.close()
        for module in uncalled(self._roots, weights_of(self._optimizers)):
            self._undo.append(self._follow_forward(module))
        self._optimizers.clear()
        self._follow_optimizers()
        for module in lasting(self._roots.values()):
            self._keep(module.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True))
            self._keep(module.register_forward_hook(self._after, with_kwargs=True, always_call=True))

    def close(self) -> None:
        """Ends the watch; what was seen is kept."""
        for undo in self._undo:
            undo()
        self._undo.clear()
        self._made.clear()
        self._nodes.clear()
        self._depth = 0

    def _keep(self, handle: Any) -> None:
        self._undo.append(handle.remove)

    def _follow_optimizers(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._keep(register_optimizer_step_post_hook(self._note_optimizer))

    def _follow_forward(self, module: Any) -> Callable[[], None]:
        """Programs may call `forward` itself, without the module's hooks."""
        forward, before = module.forward, vars(module).get("forward")

        def followed(*args: Any, **kwargs: Any) -> Any:
            result = None
            self._before(module, args, kwargs)
            try:
                result = forward(*args, **kwargs)
            finally:
                self._after(module, args, kwargs, result)
            return result

        def undo() -> None:
            if before is not None:
                module.forward = before
            else:
                del module.forward

        module.forward = followed
        return undo

    def _note_optimizer(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if all(optimizer is not known for known in self._optimizers):
            self._optimizers.append(optimizer)

    def _before(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        self._depth += 1
        if self._depth > 1:
            return
        given = list(tensors_in((args, kwargs), torch.Tensor))
        shapes, origins = tuple(tuple(value.shape) for value in given), tuple(map(self._origin, given))
        args, kwargs = mapped((args, kwargs), torch.Tensor, self._taken)
        if not has_part(module, (args, kwargs)):
            return
        self._turn += self._has_new_gradients
        self._has_new_gradients = False
        half = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        self._calls.append(
            Call(module, args, kwargs, torch.is_grad_enabled(), half, line_of_caller(), self._turn, shapes,
                 origins))

    def _taken(self, tensor: Any) -> Any:
        known = self._made.get(id(tensor))
        if known is not None:
            return known[0]
        return tensor.detach().requires_grad_(tensor.requires_grad)

    def _origin(self, tensor: Any) -> Optional[Output]:
        """The latest of the outputs that a tensor was computed from."""
        found: list[Output] = []
        nodes, seen = [tensor.grad_fn], {None}
        while nodes and len(seen) < MOST_NODES:
            node = nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self._nodes:
                found.append(self._nodes[node])
            else:
                nodes += [before for before, _ in node.next_functions]
        return max(found, key=lambda output: output.call, default=None)

    def _after(self, module: Any, _args: Any, _kwargs: Any, result: Any) -> None:
        import torch

        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._calls and self._calls[-1].module is module:
            for index, tensor in enumerate(tensors_in(result, torch.Tensor)):
                output = Output(len(self._calls) - 1, index)
                self._made[id(tensor)] = (output, tensor)
                if tensor.requires_grad:
                    self._nodes[tensor.grad_fn] = output
                    self._keep(tensor.register_hook(partial(self._note_gradient, output)))

    def _note_gradient(self, output: Output, _gradient: Any) -> None:
        self._differentiated.add(output)
        self._has_new_gradients = True

    def capture(self) -> Optional[Capture]:
        """The step of training that these calls make; None where no module was called with gradients.

        Raises CaptureError where it cannot be run without the loop.
        """
        from ._capture import CaptureError

        if self.problem is not None:
            raise CaptureError(self.problem)
        if not any(call.gradients for call in self._calls):
            return None
        calls, batches = one_batch(self._calls)
        kinds = sum(stand_in == number for number, stand_in in enumerate(stand_ins(calls, self._differentiated)))
        if kinds > MOST_KINDS:
            raise CaptureError(
                f"a step makes {kinds} calls of modules that differ, and up to {MOST_KINDS} are captured")
        weights = weights_of(self._optimizers)
        inside = {id(weight) for call in calls for weight in call.module.parameters()}
        seen = sum(size for key, size in weights.items() if key in inside)
        if weights and seen == 0:
            raise CaptureError("the weights that the optimizer changes are in no module that a step calls")
        captured = captured_calls(calls, self._optimizers or "SGD", self._differentiated)
        if weights and seen < sum(weights.values()) / 2:
            rest = 1 - seen / sum(weights.values())
            captured.notes.append(f"{rest:.0%} of the weights that the optimizer changes are in no module that a step "
                                  "calls: what uses them is not among the operations")
        if not self._optimizers:
            captured.notes.append("no optimizer made a step: what the program does to its weights is counted as SGD")
        if batches > 1:
            captured.notes.append(f"a step gathers {batches} batches; shown is a step of one of them")
        return captured


def without_warning(message: str) -> Callable[[], None]:
    """Warnings that begin so are not shown until the result is called."""
    warnings.filterwarnings("ignore", message, UserWarning)
    entry = warnings.filters[0]

    def undo() -> None:
        if entry in warnings.filters:
            cast("list[Any]", warnings.filters).remove(entry)

    return undo


def weights_of(optimizers: Sequence[Any]) -> dict[int, int]:
    """Elements of the weights that they change, by identity."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return {id(weight): weight.numel() for group in groups for weight in group["params"]}


def lasting(called: Iterable[tuple[ReferenceType[Any], list[Any]]]) -> Iterator[Any]:
    """Modules that were called and are still there; the parts of one that the loop makes anew for each call."""
    found: dict[int, Any] = {}
    for reference, parts in called:
        module = reference()
        found.update((id(kept), kept) for kept in (parts if module is None else [module]))
    return iter(found.values())


def uncalled(called: Mapping[int, Any], weights: Mapping[int, int]) -> list[Any]:
    """Modules with some of the weights that are in no other module, and are not called."""
    import torch

    found = [value for value in gc.get_objects() if issubclass(type(value), torch.nn.Module)]
    inner = {id(part) for module in found for part in vars(module).get("_modules", {}).values()}
    return [module for module in found if id(module) not in inner and id(module) not in called
            and "_parameters" in vars(module) and any(id(weight) in weights for weight in module.parameters())]


def has_part(module: Any, given: Any) -> bool:
    """Whether a call belongs to the training: transforms of samples are modules, too."""
    import torch

    if next(module.parameters(), None) is not None:
        return True
    found = tensors_in(given, torch.Tensor)
    return any(isinstance(value, Output) or value.requires_grad for value in found)


def one_batch(calls: Sequence[Call]) -> tuple[list[Call], int]:
    """The calls of the first batch, and how many such batches there are, where a step gathers the gradients of several,
    one after the other.
    """
    turns: dict[int, list[Call]] = {}
    for call in calls:
        turns.setdefault(call.turn, []).append(call)
    first, *rest = turns.values()
    keys = [call.key() for call in first]
    if any([call.key() for call in turn] != keys for turn in rest):
        return list(calls), 1
    return first, len(turns)


def captured_calls(calls: Sequence[Call], optimizer: Any, differentiated: Collection[Output] = ()) -> Capture:
    """A capture of these calls, one after the other, with the gradients of what the loop differentiated; where that is
    not known, of what none of them takes.
    """
    import torch

    from ._capture import CaptureError, capture
    from ._capture.recorder import Caller, called_at
    from ._capture.repeats import count_of, unrolled
    from ._capture.step import unwrapped
    from ._capture.whole import came_from

    notes: list[str] = []
    names = module_names([unwrapped(call.module, notes) for call in calls])
    stands_for = stand_ins(calls, differentiated)
    times = Counter(stands_for)
    kinds = {key: number for number, key in enumerate({call.key(): None for call in calls})}

    class Step(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            for call in calls:
                module = unwrapped(call.module, [])
                if id(module) in names:
                    self.add_module(names[id(module)], module)
            self.order = [names[id(unwrapped(call.module, []))] for call in calls]

        def forward(self, given: Mapping[int, Any]) -> list[Any]:
            """What differentiates: the results that no later call takes."""
            results: list[list[Any]] = []
            used: set[Output] = set()

            def value_of(output: Output) -> Any:
                used.add(output)
                return results[output.call][output.index]

            whole: dict[int, Any] = {}
            for number, (call, name) in enumerate(zip(calls, self.order)):
                if stands_for[number] != number:
                    results.append(results[stands_for[number]])
                    continue
                args, kwargs = mapped(given[number], Output, value_of)
                before = last_alike(calls, number, differentiated)
                for value, origin in zip(tensors_in(given[number], torch.Tensor), call.origins):
                    if isinstance(value, Output):
                        continue
                    if origin is not None:
                        came_from([value], results[origin.call][origin.index:])
                    elif before is not None:
                        came_from([value], results[before])
                with torch.set_grad_enabled(call.gradients), autocast(call.autocast), \
                        called_at(Caller(call.line, times[number], kinds[call.key()])):
                    whole[number] = getattr(self, name)(*args, **kwargs)
                results.append(list(tensors_in(whole[number], torch.Tensor)))
            ends = [tensor for number in whole for index, tensor in enumerate(results[number])
                    if tensor.requires_grad and Output(number, index) in differentiated]
            if ends:
                return outermost(ends)
            taken = {stands_for[output.call] for output in used}
            return [tensor for number, result in whole.items() if number not in taken for tensor in ends_of(result)]

    step = Step()
    was_training = {module: module.training for module in step.modules()}
    try:
        captured = capture(step, (), mode="train", loss=total, optimizer=optimizer,
                           kwargs={"given": {number: (calls[number].args, calls[number].kwargs) for number in times}})
    finally:
        for module, training in was_training.items():
            module.training = training
    networks = [name for name in dict.fromkeys(step.order) if any(True for _ in getattr(step, name).parameters())]
    captured.model = " + ".join(networks or dict.fromkeys(step.order))
    if len(networks) == 1:  # its parts are named as in the script
        captured.rename_modules(lambda path: path.partition(".")[2] if path.startswith(networks[0]) else path)
    operators = count_of(captured.events)
    if operators > MOST_OPERATORS:
        raise CaptureError(f"a step runs {operators:,} operators, and up to {MOST_OPERATORS:,} are read")
    captured.events = unrolled(captured.events)
    for name, count in Counter(step.order).items():
        alone = sum(step.order[number] == name for number in times)
        if alone < count:
            notes.append(f"{name} is called {count} times in a step: {alone} of these calls are captured, and the "
                         "others counted like an equal one")
    captured.notes += [*dict.fromkeys(notes), "what the loop computes outside of modules is not among the operations"]
    return captured


def stand_ins(calls: Sequence[Call], differentiated: Collection[Output]) -> list[int]:
    """For each call the one that is captured for it: mostly itself. Of more than three equal ones in a long loop it is
    the second: gradients of the first and the last begin and end what is added up.
    """
    found = list(range(len(calls)))
    if len(calls) <= MOST_CALLS:
        return found
    learnt = {output.call for output in differentiated}
    alike: dict[Any, list[int]] = {}
    for number, call in enumerate(calls):
        alike.setdefault((call.key(), number in learnt), []).append(number)
    for _, second, *others in (numbers for numbers in alike.values() if len(numbers) > 3):
        for number in others[:-1]:
            found[number] = second
    return found


def last_alike(calls: Sequence[Call], number: int, differentiated: Collection[Output]) -> Optional[int]:
    """The call before this one that did the same, where neither is differentiated: what a game or a text gave to the
    one, it made of what the other one said.
    """
    learnt = {output.call for output in differentiated}
    told = [at for at, call in enumerate(calls[:number + 1])
            if at not in learnt and call.key() == calls[number].key() and (learnt or not call.gradients)]
    return told[-2] if told[-1:] == [number] and len(told) > 1 else None


def autocast(dtype: Any) -> Any:
    """The CPU's autocast of a type, which stands for CUDA's while capturing; nothing for None."""
    import torch

    return contextlib.nullcontext() if dtype is None else torch.autocast("cpu", dtype)


def ends_of(result: Any) -> list[Any]:
    """Of what a call gives, the loss if it makes one, else all that has a gradient."""
    import torch

    found = [tensor for tensor in tensors_in(result, torch.Tensor) if tensor.requires_grad]
    return [tensor for tensor in found if tensor.dim() == 0] or found


def outermost(tensors: Sequence[Any]) -> list[Any]:
    """Those that no other one was computed from: a logit got its gradient from the loss."""
    inner: set[Any] = set()
    for tensor in tensors:
        nodes = [tensor.grad_fn] if tensor.grad_fn is not None else []
        while nodes:
            for node, _ in nodes.pop().next_functions:
                if node is not None and node not in inner:
                    inner.add(node)
                    nodes.append(node)
    return [tensor for tensor in tensors if tensor.grad_fn not in inner]


def total(ends: Sequence[Any]) -> Any:
    """One number to differentiate."""
    from ._capture import CaptureError

    if not ends:
        raise CaptureError("no module that the step calls has a gradient")
    sums = [end if end.dim() == 0 else end.sum() for end in ends]
    return sum(sums[1:], sums[0])


def module_names(modules: Sequence[Any]) -> dict[int, str]:
    """Names by identity: the class, with a number for others of the same class."""
    names: dict[int, str] = {}
    count: Counter[str] = Counter()
    for module in modules:
        if id(module) in names:
            continue
        name = type(module).__name__
        count[name] += 1
        names[id(module)] = name if count[name] == 1 else f"{name}_{count[name]}"
    return names


def mapped(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """The same structure with every value of the kind changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, kind, change) for item in value))
    if type(value) in (list, tuple):
        return type(value)(mapped(item, kind, change) for item in value)
    if type(value) is dict:
        return {key: mapped(item, kind, change) for key, item in value.items()}
    return value


def tensors_in(value: Any, kind: type) -> Iterator[Any]:
    """Values of the kind, in a structure that calls take or give."""
    if isinstance(value, (kind, Output)):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item, kind)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, kind)


def save(captured: Capture, folder: Path) -> Path:
    """Writes the capture beside the trace."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.rooftile.json"
    captured.save(str(path))
    return path
