# SPDX-License-Identifier: BSD-3-Clause
"""libdynpipe for trainers in Python: a run of a pipeline whose layers move, and whose freed devices go back to Slurm.

    run = dynpipe.join(cut=cut, steps=steps, microbatches=m, tokens_per_microbatch=n)
    with run:
        for step in range(steps):
            ...                              # train one step
            run.report(step + 1, wall_ns=..., loads=[...])
            ...                              # the leader's run.pending() rides on a sum that all workers make anyway
            # where it is not 0: prepare, move, agree, decide, done: dynpipe.torch.Mover does that for PyTorch
            if run.leaving:
                run.wait_leave()
                sys.exit(0)

lib/dynpipe.h says what a trainer has to keep to. This module calls it by ctypes: it needs the shared object libdynpipe.so.1
and Python's standard library. Without a daemon a run works, and does nothing. A run is for one thread at a time.
"""
import ctypes as _c
import enum
import errno
import logging
import math
import os
import threading
import time
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._abi import LibraryError

__all__ = ["ABI", "Answer", "Busy", "Change", "Ended", "Error", "Event", "How", "LibraryError", "Load", "Plan", "Refused", "Run", "State",
           "freeze", "join", "on_log", "owner_of", "prune", "version"]

ABI = _abi.ABI
# A signal is served between two calls of the library, so none may take longer than this.
SLICE_MS = 100
_MS_MAX = 2 ** 32 - 1


class Error(Exception):
    """Something that the library said no to; the text is its reason."""


class Refused(Error):
    """The daemon refuses this worker, which must not train in this run."""


class Ended(Error):
    """This process must end: nobody can say whether its hand-over was committed, or what it refused was."""


class Busy(Error):
    """Another thread is inside of the run."""


class Answer(enum.IntEnum):
    """enum dynpipe_answer"""
    ABORT, COMMIT, AGAIN, END, BUSY = 0, 1, 2, -1, -2


class State(enum.IntEnum):
    """enum dynpipe_state"""
    IDLE = 0      # nothing is kept
    KEEPING = 1   # go on, but keep the layers that were given away
    LEAVING = 2   # this worker has no layers, and waits
    LEAVE = 3     # now


class How(enum.IntEnum):
    """enum dynpipe_how: how a run ends for a worker."""
    COMPLETED, DRAINED, FAILED, SAVED = 0, 1, 2, 3


class Event(enum.IntEnum):
    """enum dynpipe_event"""
    PRUNED, SAVED, EVAL, RESUMED, FAILED, FROZEN = 0, 1, 2, 3, 4, 7


@dataclass(frozen=True)
class Change:
    """What is known to come at the boundary behind `step` completed steps; made by prune() and freeze()."""
    step: int
    kind: int
    value: float


def prune(step: int, sparsity: float) -> Change:
    """From then on all prunable weights together have this sparsity, 0 to less than 1."""
    return Change(step, 1, sparsity)


def freeze(step: int, layers: int) -> Change:
    """From then on so many layers, from layer 0 on, only go forward."""
    return Change(step, 2, layers)


@dataclass
class Load:
    """What one layer cost in one step: means over its microbatches, of one microbatch. Times are the device's (struct dynpipe_load)."""
    fwd_ns: int = 0
    bwd_input_ns: int = 0   # the whole backward pass where it is not split
    bwd_weight_ns: int = 0
    state_bytes: int = 0    # weights, gradients, optimizer's state
    act_bytes: int = 0      # kept from forward to backward; 0 with no backward time: the layer is frozen
    params: int = 0         # of the dense layer
    nnz: int = 0            # those that are left


@dataclass(frozen=True)
class Plan:
    """A layout to hand over to, or a proposal. Layer i belongs to worker s where cut[s] <= i < cut[s + 1]."""
    migration: int
    old_cut: Tuple[int, ...]   # [n_workers + 1]
    cut: Tuple[int, ...]       # [n_workers + 1]
    gone: Tuple[bool, ...]     # [n_workers]: leaves, or has left
    now_ns: float              # of a proposal: predicted time of a step in the layout in force ...
    then_ns: float             # ... and in this one

    def moves(self) -> List[Tuple[int, int, int]]:
        """(layer, from, to) of each layer that has another owner, in the order of layers."""
        both = ((i, owner_of(self.old_cut, i), owner_of(self.cut, i)) for i in range(self.cut[-1]))
        return [m for m in both if m[1] != m[2]]


def owner_of(cut: Sequence[int], layer: int) -> int:
    """The worker that has the layer in this layout."""
    for worker in range(len(cut) - 1):
        if cut[worker] <= layer < cut[worker + 1]:
            return worker
    raise ValueError(f"layer {layer} is none of the layout's {cut[-1]}")


def version() -> str:
    """The library's release."""
    return _abi.library().dynpipe_version().decode()


_LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO}
_tell = None  # the library keeps a pointer to it


def on_log(tell: Optional[Callable[[int, str], None]]) -> None:
    """tell(level, line) hears the library's lines for people; level as in module logging. None: nobody does. Without this call they
    go to the logger "dynpipe". tell may not call the library."""
    global _tell

    def called(_arg, level, line):
        tell(_LEVELS.get(level, logging.INFO), (line or b"").decode(errors="replace"))

    fn = _abi.LOG_FN(called) if tell else _abi.LOG_FN()
    _abi.library().dynpipe_on_log(fn, None)
    _tell = fn


def _number(name: str, value, most: int) -> int:
    """ctypes takes the lower bits of what is too large, without a word."""
    value = int(value)
    if not 0 <= value <= most:
        raise ValueError(f"{name} is {value}: it must be 0 to {most}")
    return value


def _environment(name: str, variable: str, value: Optional[int]) -> int:
    if value is None:
        found = os.environ.get(variable, "")
        if not found.isdigit():
            raise ValueError(f"{name} is not given, and {variable} does not say it")
        value = int(found)
    return _number(name, value, 2 ** 32 - 1)


def _text(value: Optional[str]) -> Optional[bytes]:
    if value is None:
        return None
    if "\0" in value:
        raise ValueError("a text for libdynpipe may not contain a zero byte")
    return os.fsencode(value)


def _slices(timeout: Optional[float]):
    """Milliseconds to wait in the next call of the library, as often as there is time left; at least once. None: for ever."""
    end = None if timeout is None else time.monotonic() + timeout
    left = SLICE_MS
    while True:
        if end is not None:
            left = max(0, math.ceil((end - time.monotonic()) * 1000))
        yield min(left, SLICE_MS)
        if end is not None and time.monotonic() >= end:
            return


def _loads(loads: Sequence[Load]):
    n = _number("the number of loads", len(loads), _abi.MAX_LAYERS)
    array = (_abi.LoadStruct * max(1, n))()
    for k, load in enumerate(loads):
        for name, _ in _abi.LoadStruct._fields_:
            setattr(array[k], name, _number(f"{name} of load {k}", getattr(load, name), 2 ** 64 - 1))
    return array, n


def join(*, cut: Sequence[int], steps: int, microbatches: int, tokens_per_microbatch: int, rank: Optional[int] = None,
         world: Optional[int] = None, step: int = 0, schedule: str = "gpipe", can_move: bool = True, can_leave: bool = True,
         equal_cost: bool = False, boundary_bytes: int = 0, mem_limit_bytes: int = 0, changes: Sequence[Change] = (), leave_s: int = 0,
         doubt_s: int = 0, device: str = "cpu", trainer: Optional[str] = None, checkpoint_dir: Optional[str] = None,
         socket: Optional[str] = None, timeout: float = 20.0) -> "Run":
    """Join the run of this Slurm job, and wait for the daemon's answer for at most `timeout` seconds.

    cut: [world + 1], rising from 0 to the number of layers. rank, world: of the run; without them SLURM_PROCID and SLURM_NTASKS. steps: of
    the whole run; step: completed. socket: of the daemon; None: DYNPIPE_SOCKET, and without that there is no daemon. The others are the
    fields of struct dynpipe_run. A daemon that is absent is no error. Raises Refused, ValueError (an argument is wrong), LibraryError.
    """
    rank, world = _environment("rank", "SLURM_PROCID", rank), _environment("world", "SLURM_NTASKS", world)
    if not 1 <= world <= _abi.MAX_WORKERS or len(cut) != world + 1:
        raise ValueError(f"cut has {len(cut)} numbers and there are {world} workers: it must have one more than workers, "
                         f"of which there may be {_abi.MAX_WORKERS}")
    if schedule not in ("gpipe", "1f1b"):
        raise ValueError(f"schedule is '{schedule}': it must be 'gpipe' or '1f1b'")
    cuts = (_abi.u32 * (world + 1))(*[_number("cut", n, _abi.MAX_LAYERS) for n in cut])
    change = (_abi.Change * max(1, len(changes)))(
        *[_abi.Change(_number("step of a change", x.step, 2 ** 64 - 1), x.value, x.kind, 0) for x in changes])
    s = _abi.RunStruct(size=_c.sizeof(_abi.RunStruct), traits=can_move * 1 + can_leave * 2 + equal_cost * 4, rank=rank, n_workers=world,
                       n_layers=cuts[world], schedule=int(schedule == "1f1b"), cut=cuts, change=change if changes else None,
                       n_changes=len(changes), device=_text(device), trainer=_text(trainer), checkpoint_dir=_text(checkpoint_dir),
                       socket=_text(socket))
    for name, value, most in (("microbatches", microbatches, 2 ** 32 - 1), ("tokens_per_microbatch", tokens_per_microbatch, 2 ** 32 - 1),
                              ("step", step, 2 ** 64 - 1), ("steps_total", steps, 2 ** 64 - 1), ("leave_s", leave_s, 2 ** 32 - 1),
                              ("boundary_bytes", boundary_bytes, 2 ** 64 - 1), ("mem_limit_bytes", mem_limit_bytes, 2 ** 64 - 1),
                              ("doubt_s", doubt_s, 2 ** 32 - 1)):
        setattr(s, name, _number(name, value, most))
    lib = _abi.library()
    if _tell is None:
        on_log(logging.getLogger("dynpipe").log)
    return Run(lib, _join_handle(lib, s, timeout), rank, world, cuts[world])


def _join_handle(lib, s, timeout: float) -> int:
    """dynpipe_join() cannot be called in slices, since a second call is a second worker. So another thread waits in it: this one can
    be interrupted. Nobody else has the handle meanwhile; whoever comes too late for it says goodbye."""
    why = _c.create_string_buffer(512)
    answer, lock, state = [], threading.Lock(), {"given_up": False}

    def call():
        _c.set_errno(0)
        handle = lib.dynpipe_join(_c.byref(s), min(_MS_MAX, math.ceil(timeout * 1000)), why, len(why))
        code = _c.get_errno()
        with lock:
            answer.append((handle, code))
            if handle and state["given_up"]:
                lib.dynpipe_leave(handle, How.FAILED, b"interrupted while it joined")

    waits = threading.Thread(target=call, name="dynpipe-join", daemon=True)
    waits.start()
    try:
        while waits.is_alive():
            waits.join(SLICE_MS / 1000)
    except BaseException:
        with lock:
            state["given_up"] = True
            if answer and answer[0][0]:
                lib.dynpipe_leave(answer[0][0], How.FAILED, b"interrupted while it joined")
        raise
    handle, code = answer[0]
    if handle:
        return handle
    reason = why.value.decode(errors="replace") or os.strerror(code)
    if code == errno.EINVAL:
        raise ValueError(reason)
    if code == errno.ENOMEM:
        raise MemoryError(reason)
    raise (Refused if code == errno.EACCES else Error)(reason)


class Run:
    """One worker's part in a run; made by join(). As a context manager it says goodbye at its end: COMPLETED, or FAILED with the
    exception's text. SystemExit with status 0 is no failure."""

    def __init__(self, lib, handle: int, rank: int, n_workers: int, n_layers: int):
        self._lib, self._d = lib, handle
        self.rank, self.n_workers, self.n_layers = rank, n_workers, n_layers

    def _call(self, name: str, *args):
        if self._d is None:
            raise Error("this worker has left the run")
        return getattr(self._lib, "dynpipe_" + name)(self._d, *args)

    @property
    def why(self) -> str:
        """Why the last call said what it said; empty where there is nothing to say."""
        return (self._call("why") or b"").decode(errors="replace")

    @property
    def connected(self) -> bool:
        """Is the daemon there?"""
        return bool(self._call("is_connected"))

    @property
    def fd(self) -> int:
        """For select(): readable when poll() has something to read. -1: not connected now."""
        return self._call("fd")

    def poll(self) -> None:
        """Read, answer, reconnect; report() and state do it, too."""
        self._call("poll")

    def report(self, step: int, *, wall_ns: int, loads: Sequence[Load], wait_ns: int = 0, optimizer_ns: int = 0, busy_ns: int = 0,
               mem_bytes: int = 0, loss: float = math.nan, grad_norm: float = math.nan) -> bool:
        """One finished step: `step` are completed, this one included; loads are those of this worker's layers, in order.
        Times in ns. Returns whether a report was sent now. Raises ValueError where the number of loads or the step is wrong."""
        s = _abi.StepStruct(size=_c.sizeof(_abi.StepStruct), loss=loss, grad_norm=grad_norm)
        for name, value in (("step", step), ("wall_ns", wall_ns), ("wait_ns", wait_ns), ("optimizer_ns", optimizer_ns),
                            ("busy_ns", busy_ns), ("mem_bytes", mem_bytes)):
            setattr(s, name, _number(name, value, 2 ** 64 - 1))
        array, n = _loads(loads)
        sent = self._call("report", _c.byref(s), array, n)
        if sent < 0:
            raise ValueError(self.why or f"a report of step {step} with {n} layers was not taken")
        return sent > 0

    def forget(self) -> None:
        """What came between two boundaries (an evaluation, a checkpoint) is not the cost of a layer."""
        self._call("forget")

    def expect(self, step: int, first_layer: int, loads: Sequence[Load]) -> None:
        """What layers are expected to cost once `step` steps are completed; no loads: takes back what was said of that step."""
        array, n = _loads(loads)
        if self._call("expect", _number("step", step, 2 ** 64 - 1), _number("first_layer", first_layer, _abi.MAX_LAYERS), array, n) < 0:
            raise ValueError(self.why)

    def event(self, kind: Union[Event, int], step: int, value: float = 0.0, text: Optional[str] = None) -> None:
        """Tell the daemon of something that people look for later."""
        if self._call("event", int(kind), _number("step", step, 2 ** 64 - 1), value, _text(text)) < 0:
            raise ValueError(self.why or f"an event of kind {int(kind)} was not taken")

    @property
    def leads(self) -> bool:
        """Does this worker say for all which hand-over begins?"""
        return self._call("leads") == 1

    def pending(self) -> int:
        """The leader: the hand-over that the daemon asks for, to be begun at this boundary by all workers. 0: none, and of all others."""
        return self._call("pending")

    def prepare(self, m: int, timeout: float = 20.0) -> Optional[Plan]:
        """The layout that hand-over m is to make; None: this worker's daemon does not ask for it: agree on a no, then decide(m, None)."""
        s = _abi.PlanStruct(size=_c.sizeof(_abi.PlanStruct))
        for ms in _slices(timeout):
            got = self._call("prepare", _number("m", m, 2 ** 64 - 1), _c.byref(s), ms)
            if got == 1:
                return self._plan(s)
            if got == Answer.BUSY:
                raise Busy("prepare: another thread is inside of this run")
        return None

    def decide(self, m: int, digest: Optional[bytes], why: Optional[str] = None, timeout: Optional[float] = None) -> bool:
        """Vote, and wait for what was decided. digest: SHA-256 over the digests of all layers that move, in layer order: yes. None: no,
        for the reason `why`. Returns True where the new layout is in force, False where the old one stays. Raises Ended, Busy, and
        TimeoutError after `timeout` seconds (None: as long as the run's doubt_s): call again with the same arguments."""
        if digest is not None and len(digest) != 32:
            raise ValueError(f"digest has {len(digest)} bytes: SHA-256 has 32")
        bits = (_abi.u8 * 32).from_buffer_copy(digest) if digest is not None else None
        reason = _text(why)
        for ms in _slices(timeout):
            answer = self._call("decide", _number("m", m, 2 ** 64 - 1), int(digest is not None), bits, reason, ms)
            if answer in (Answer.COMMIT, Answer.ABORT):
                return answer == Answer.COMMIT
            if answer == Answer.BUSY:
                raise Busy("decide: another thread is inside of this run")
            if answer != Answer.AGAIN:
                raise Ended(self.why or f"what was decided of hand-over {m} cannot be known")
        raise TimeoutError(f"what was decided of hand-over {m} was not known within {timeout} s")

    def done(self, m: int, pause_ns: int, transfer_ns: int = 0) -> None:
        """The worker has switched, or gone on with the old layout: after a commit and after an abort. pause_ns: since the boundary."""
        self._call("done", _number("m", m, 2 ** 64 - 1), _number("pause_ns", pause_ns, 2 ** 64 - 1),
                   _number("transfer_ns", transfer_ns, 2 ** 64 - 1))

    @property
    def state(self) -> State:
        """To be asked at every boundary. Raises Ended, Busy."""
        got = self._call("state")
        if got == Answer.BUSY:
            raise Busy("state: another thread is inside of this run")
        if got < 0:
            raise Ended(self.why or "this worker must end")
        return State(got)

    @property
    def leaving(self) -> bool:
        """Has this worker no layers any more? Then wait_leave(), and end with status 0. It asks for the state."""
        return self.state in (State.LEAVING, State.LEAVE)

    def wait(self, timeout: float) -> None:
        """Sleep until the daemon says something, or for `timeout` seconds."""
        for ms in _slices(timeout):
            before = time.monotonic()
            self._call("wait", ms)
            if time.monotonic() - before < ms / 1000:
                return

    def wait_leave(self) -> None:
        """A worker without layers: wait until it may go, and say goodbye. Then end with status 0."""
        while self.state != State.LEAVE:
            self.wait(SLICE_MS / 1000)
        self.leave(How.DRAINED)

    def layout(self) -> List[int]:
        """The layout in force, [n_workers + 1]."""
        cut = (_abi.u32 * (self.n_workers + 1))()
        self._call("layout", cut)
        return list(cut)

    @property
    def proposal(self) -> Optional[Plan]:
        """For a trainer that cannot move layers: the layout it should begin again with at a checkpoint. None: none is better."""
        s = _abi.PlanStruct(size=_c.sizeof(_abi.PlanStruct))
        return self._plan(s) if self._call("proposal", _c.byref(s)) == 1 else None

    def _plan(self, s) -> Plan:
        """Copied at once: what it points to is the handle's until its next call."""
        n = s.n_workers
        return Plan(s.migration, tuple(s.old_cut[:n + 1]), tuple(s.cut[:n + 1]), tuple(bool(g) for g in s.gone[:n]), s.now_ns, s.then_ns)

    def take_save(self) -> int:
        """Has somebody asked for a checkpoint (1), or for one and an end (2)? Reset by the call."""
        return self._call("take_save")

    def time_left(self) -> float:
        """Seconds until Slurm ends the job for its time limit. nan: not known; inf: never."""
        return self._call("time_left")

    def leave(self, how: Union[How, int] = How.COMPLETED, text: Optional[str] = None) -> None:
        """Say goodbye, for at most a second. A second call does nothing."""
        d, self._d = self._d, None
        if d is not None:
            self._lib.dynpipe_leave(d, int(how), _text(text))

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind, value, _traceback) -> None:
        if kind is None or (issubclass(kind, SystemExit) and not value.code):
            self.leave(How.COMPLETED)
        else:
            # One line: what people see beside the job's name.
            said = " ".join(str(value).replace("\0", " ").split())
            self.leave(How.FAILED, (f"{kind.__name__}: {said}" if said else kind.__name__)[:200])
