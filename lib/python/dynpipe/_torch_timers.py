# SPDX-License-Identifier: BSD-3-Clause
"""What layers of PyTorch cost: dynpipe.torch.Timers."""
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, List, MutableMapping, Optional

import torch

from . import Load, Run
from ._torch_state import Layer, state_bytes


class _HostClock:
    """The thread's time: workers that share a core do not look slow. PyTorch goes backward in the thread that calls backward(); where
    its operations have threads of their own (torch.set_num_threads), theirs are taken to be as busy."""
    work, wall = staticmethod(time.thread_time_ns), staticmethod(time.monotonic_ns)

    def ns(self, begin, end) -> int:
        return end - begin


class _DeviceClock:
    """Events in the stream that the layers are in: the device's time, whenever the host has asked for it."""

    def work(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    wall = work

    def ns(self, begin, end) -> int:
        end.synchronize()
        return int(begin.elapsed_time(end) * 1e6)


def _first_tensor(x: Any) -> Optional[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        return x
    if isinstance(x, (tuple, list)):
        return next((t for t in map(_first_tensor, x) if t is not None), None)
    return None


class _Watch:
    """One layer's hooks, and what they have seen in this step."""

    def __init__(self, timers: "Timers", module: torch.nn.Module):
        self.timers, self.module = timers, module
        self.spans: Dict[str, List[tuple]] = {"fwd": [], "bwd": []}
        self.began = None
        self.measured = None  # for what act_bytes was found
        self.act_bytes = 0
        self.hooks = [module.register_forward_pre_hook(self.before), module.register_forward_hook(self.after)]

    def before(self, _module, args):
        self.timers._stop_saving()  # of a forward pass that ended by an exception
        x = _first_tensor(args)
        if x is not None and x.requires_grad:
            # The gradient of the input is complete: this layer's backward pass is over, the one in front begins.
            self.timers._hooks.append(x.register_hook(lambda _g: self.timers._ends(self)))
        key = (x is not None and x.requires_grad, None if x is None else x.shape, tuple(p.requires_grad for p in self.module.parameters()))
        if key != self.measured and torch.is_grad_enabled():
            self.measured = key
            self.start_saving()
        self.began = self.timers.clock.work()

    def after(self, _module, _args, output):
        if self.began is not None:
            self.spans["fwd"].append((self.began, self.timers.clock.work()))
            self.began = None
        self.timers._stop_saving()
        y = _first_tensor(output)
        if y is not None and y.requires_grad:
            self.timers._hooks.append(y.register_hook(lambda _g: self.timers._begins(self)))

    def start_saving(self):
        """What autograd keeps of this layer, without its weights; once for each shape and set of trained weights."""
        own = {t.data_ptr() for t in list(self.module.parameters()) + list(self.module.buffers())}
        self.act_bytes = 0

        def kept(t):
            if t.data_ptr() not in own:
                own.add(t.data_ptr())
                self.act_bytes += t.numel() * t.element_size()
            return t.detach()  # a tensor that kept itself would never be freed

        self.timers._saving = torch.autograd.graph.saved_tensors_hooks(kept, lambda t: t)
        self.timers._saving.__enter__()

    def total_ns(self, way: str) -> int:
        return sum(self.timers.clock.ns(a, b) for a, b in self.spans[way])


class Timers:
    """Time and memory of this worker's layers, from boundary to boundary.

    Forward passes are seen by hooks of modules. Backward passes are seen by hooks of the tensors between layers, because hooks of modules
    come too late, or not at all, where an input needs no gradient (PyTorch 1.13). The last pass of a backward() has no tensor
    in front of it: `with timers.backward()` around backward() ends it. The optimizer and waiting have no hooks, so they have context
    managers, too.
    Layers that are computed again in the backward pass (torch.utils.checkpoint) would count twice: report() loads of your own there.

    layers: the worker's, as it trains them; looked at anew in every begin(). device: of the layers. sparse: count weights that are not
    zero in each report.
    """

    def __init__(self, layers: MutableMapping[int, Layer], device: Any = "cpu", sparse: bool = False):
        self.layers, self.device, self.sparse = layers, torch.device(device), sparse
        self.clock = _DeviceClock() if self.device.type == "cuda" else _HostClock()
        self._watches: Dict[int, _Watch] = {}
        self._open: Optional[tuple] = None  # (watch, begin): whose backward pass runs
        self._hooks: List[Any] = []         # of tensors: a trainer may use one again
        self._saving: Any = None            # what counts the bytes that the layer keeps that goes forward
        self._parts: Dict[str, List[tuple]] = {}
        self.begin()

    def begin(self) -> None:
        """A step begins: what was measured before is forgotten."""
        for i, watch in list(self._watches.items()):
            if i not in self.layers or self.layers[i][0] is not watch.module:
                for hook in watch.hooks:
                    hook.remove()
                del self._watches[i]
        for i, (module, _) in self.layers.items():
            watch = self._watches.get(i) or _Watch(self, module)
            watch.spans = {"fwd": [], "bwd": []}
            self._watches[i] = watch
        for hook in self._hooks:
            hook.remove()
        self._stop_saving()
        self._open, self._hooks, self._parts = None, [], {"optimizer": [], "waiting": []}
        self._began = time.monotonic_ns()

    def _stop_saving(self) -> None:
        if self._saving is not None:
            self._saving.__exit__(None, None, None)
            self._saving = None

    def _begins(self, watch: _Watch) -> None:
        # Where the output of one layer is the input of the next, this is the moment in which that one ends.
        self._close()
        self._open = (watch, self.clock.work())

    def _ends(self, watch: _Watch) -> None:
        if self._open and self._open[0] is watch:
            self._close()

    def _close(self) -> None:
        if self._open:
            watch, began = self._open
            watch.spans["bwd"].append((began, self.clock.work()))
            self._open = None

    @contextmanager
    def backward(self):
        """Around each call of backward()."""
        try:
            yield
        finally:
            self._close()

    @contextmanager
    def _part(self, name: str, stamp: Callable):
        began = stamp()
        try:
            yield
        finally:
            self._parts[name].append((began, stamp()))

    def optimizer(self):
        """Around the optimizers' steps."""
        return self._part("optimizer", self.clock.work)

    def waiting(self):
        """Around what waits for other workers: a receive, a sum over all."""
        return self._part("waiting", self.clock.wall)

    def loads(self) -> List[Load]:
        """The costs of the layers in this step, in their order."""
        out = []
        for i in sorted(self.layers):
            watch, (module, optimizer) = self._watches[i], self.layers[i]
            params = sum(p.numel() for p in module.parameters())
            nnz = sum(int(torch.count_nonzero(p)) for p in module.parameters()) if self.sparse else params
            n = max(1, len(watch.spans["fwd"]))
            bwd = watch.total_ns("bwd") // n
            out.append(Load(fwd_ns=watch.total_ns("fwd") // n, bwd_input_ns=bwd, state_bytes=state_bytes(module, optimizer),
                            act_bytes=watch.act_bytes if bwd else 0, params=params, nnz=nnz))
        return out

    def report(self, run: Run, step: int, loss: float = float("nan")) -> None:
        """`step` steps are completed: tell the daemon what the last one cost. loss: where this worker knows it."""
        parts = {name: sum(self.clock.ns(a, b) for a, b in spans) for name, spans in self._parts.items()}
        memory = torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0
        run.report(step, wall_ns=time.monotonic_ns() - self._began, wait_ns=parts["waiting"], optimizer_ns=parts["optimizer"],
                   mem_bytes=memory, loss=loss, loads=self.loads())
