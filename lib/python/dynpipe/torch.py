# SPDX-License-Identifier: BSD-3-Clause
"""For trainers in PyTorch (1.13 or newer): what layers cost, and how they move with their optimizers.

Timers measures the layers of this worker, Mover hands them over. Both know a layer as a number and a pair (module, optimizer); the
optimizer holds the parameters of this module alone, or is None.

    layers = {i: make(i) for i in range(cut[rank], cut[rank + 1])}       # make(i): layer i as (module, optimizer)
    mover, timers = Mover(run, layers, make, master=host), Timers(layers, device)
    for step in range(steps):
        timers.begin()
        ...                             # the step; timers.backward(), .optimizer() and .waiting() around its parts
        total = torch.tensor([loss, run.pending()], dtype=torch.float64)
        dist.all_reduce(total)          # how the leader tells all which hand-over begins
        timers.report(run, step + 1)
        if total[1]:
            mover.handover(int(total[1]))
        if not mover.at_boundary():     # this worker has left
            sys.exit(0)

The process group is torch.distributed's default one and has one process for each worker that is in the run. When a worker leaves, it is
taken down and made anew by those who stay: ranks in it are other ones then (Mover.peer()), and other groups have to be made again.
"""
import hashlib
import os
import socket
import time
from datetime import timedelta
from typing import Callable, Dict, List, MutableMapping, Optional, Tuple

try:
    import torch
    import torch.distributed as dist
except ImportError as e:
    raise ImportError("dynpipe.torch needs PyTorch (Debian: python3-torch); dynpipe alone does not") from e

from . import Plan, Run, State
from ._torch_state import Layer, pack, restore, sha256, state_bytes, tree_of, unpack
from ._torch_timers import Timers

__all__ = ["Mover", "Timers", "pack", "sha256", "state_bytes", "unpack"]


class Mover:
    """Moves layers between the workers of a run, all or nothing, and keeps the process group to those who are in the run.

    layers: this worker's, {number: (module, optimizer)}, in order; a hand-over changes it. make(i): layer i as it is before the first step;
    its values do not matter. master: address of rank 0, as torch.distributed was started with; None: MASTER_ADDR. chunk_bytes: of one
    message of a transfer. most_bytes: no layer is larger. timeout: of the process groups that are made.
    """

    def __init__(self, run: Run, layers: MutableMapping[int, Layer], make: Callable[[int], Layer], *, master: Optional[str] = None,
                 chunk_bytes: int = 16 << 20, most_bytes: int = 1 << 38, timeout: timedelta = timedelta(minutes=30)):
        self.run, self.layers, self.make = run, layers, make
        self.cut: List[int] = run.layout()
        self.members: List[int] = list(range(run.n_workers))  # ranks of the run, in the order of the process group
        self._master = master or os.environ.get("MASTER_ADDR", "127.0.0.1")
        self._chunk, self._most, self._timeout = chunk_bytes, most_bytes, timeout
        self._kept: Dict[int, Layer] = {}
        self._store = None  # of the group that was made last: it ends with its owner

    def peer(self, rank: int) -> int:
        """A worker's rank in the process group."""
        return self.members.index(rank)

    def at_boundary(self) -> bool:
        """After each step, and its hand-over. False: this worker has no layers any more and has left the run: end with status 0."""
        state = self.run.state
        if state == State.IDLE:
            self._kept.clear()
        if state in (State.LEAVING, State.LEAVE):
            self.run.wait_leave()
            return False
        return True

    def handover(self, m: int, timeout: float = 20.0) -> bool:
        """All workers call it at the same boundary. Moves into shadows, agrees, votes, and switches where all did. Returns whether it was
        committed; else everything is as before. timeout: for the plan, in seconds. Raises dynpipe.Ended; what torch.distributed raises,
        after a vote of no, where the others cannot be reached."""
        began = time.monotonic_ns()
        try:
            plan = self.run.prepare(m, timeout)
            said = hashlib.sha256(repr((plan.cut, plan.gone)).encode()).digest() if plan else None
            if self._same(said):
                moved = time.monotonic_ns()
                shadows, digest, why = self._move(plan)
                moved = time.monotonic_ns() - moved
                agreed = self._same(None if why else digest)
                why = why or "another worker could not"
            else:
                agreed, moved, why = False, 0, "the workers were not told the same" if plan else "its daemon does not ask for it"
        except Exception as e:
            self.run.decide(m, None, f"{type(e).__name__}: {e}"[:200])
            raise
        committed = self.run.decide(m, digest if agreed else None, None if agreed else why)
        if committed:
            self._switch(plan, shadows)
        self.run.done(m, time.monotonic_ns() - began, moved)
        return committed

    def _device(self) -> torch.device:
        """Where the process group's messages are."""
        backend = str(dist.get_backend())
        return torch.device("cuda") if "nccl" in backend and "gloo" not in backend else torch.device("cpu")

    def _same(self, digest: Optional[bytes]) -> bool:
        """Do all have a digest, and the same one? A least of the bytes, and of what they lack of 255: equal where all are equal."""
        b = list(digest or bytes(32))
        t = torch.tensor([int(digest is not None)] + b + [255 - x for x in b], dtype=torch.int32, device=self._device())
        dist.all_reduce(t, dist.ReduceOp.MIN)
        t = t.tolist()
        return t[0] == 1 and t[1:33] == [255 - x for x in t[33:]]

    def _move(self, plan: Plan) -> Tuple[Dict[int, Layer], bytes, Optional[str]]:
        """Every worker goes through the moves in one order, so no two wait for each other. A worker that fails goes on with it, or the
        others would wait. Returns shadows, the digest over all layers that move, and what went wrong here."""
        shadows, why, moves = {}, None, plan.moves()
        table = torch.zeros(len(moves), 32, dtype=torch.int32)
        for k, (i, source, target) in enumerate(moves):
            if self.run.rank == source:
                try:
                    data = pack(tree_of(self.layers[i]))
                except Exception as e:
                    data, why = torch.empty(0, dtype=torch.uint8), why or f"layer {i}: {e}"
                digest = sha256(data)
                table[k] = torch.tensor(list(digest))
                self._send(data, digest, self.peer(target))
            elif self.run.rank == target:
                data, digest = self._receive(self.peer(source))
                try:
                    shadows[i] = self._shadow(i, data, digest)
                except Exception as e:
                    why = why or f"layer {i}: {e}"
            data = None  # a copy of a layer: not longer than it must be
        table = table.to(self._device())
        dist.all_reduce(table, dist.ReduceOp.MAX)
        return shadows, hashlib.sha256(bytes(table.cpu().to(torch.uint8).flatten().tolist())).digest(), why

    def _shadow(self, i: int, data: torch.Tensor, digest: bytes) -> Layer:
        if not data.numel():
            raise ValueError("its owner could not pack it")
        if sha256(data) != digest:
            raise ValueError("its bytes are not those that were sent")
        layer = self.make(i)
        restore(layer, unpack(data))
        # Whatever make() or load_state_dict() did otherwise would change the run's losses.
        if sha256(pack(tree_of(layer))) != digest:
            raise ValueError("its state here is not the one that was sent")
        return layer

    def _send(self, data: torch.Tensor, digest: bytes, peer: int) -> None:
        device = self._device()
        dist.send(torch.tensor([data.numel()] + list(digest), dtype=torch.int64, device=device), peer)
        for at in range(0, data.numel(), self._chunk):
            dist.send(data[at:at + self._chunk].to(device), peer)

    def _receive(self, peer: int) -> Tuple[torch.Tensor, bytes]:
        device = self._device()
        head = torch.empty(33, dtype=torch.int64, device=device)
        dist.recv(head, peer)
        size, *digest = head.tolist()
        if not 0 <= size <= self._most or not all(0 <= b < 256 for b in digest):
            raise RuntimeError(f"worker {self.members[peer]} sends a layer of {size} bytes")
        data = torch.empty(size, dtype=torch.uint8)
        for at in range(0, size, self._chunk):
            part = torch.empty(min(self._chunk, size - at), dtype=torch.uint8, device=device)
            dist.recv(part, peer)
            data[at:at + part.numel()] = part.cpu()
        return data, bytes(digest)

    def _switch(self, plan: Plan, shadows: Dict[int, Layer]) -> None:
        for i, source, _target in plan.moves():
            if source == self.run.rank:
                self._kept[i] = self.layers.pop(i)
        ordered = sorted({**self.layers, **shadows}.items())
        self.layers.clear()
        self.layers.update(ordered)
        self.cut = list(plan.cut)
        stay = [r for r in self.members if not plan.gone[r]]
        if stay != self.members:
            self._regroup(stay)

    def _regroup(self, stay: List[int]) -> None:
        """A group without those who leave, at a store of its own: the old one may end with its owner. A group of some of the old one's
        ranks would not do: PyTorch 1.13 asks all of them again for the next one, also those that have gone."""
        backend, store = dist.get_backend(), None
        where = torch.zeros(256, dtype=torch.uint8)
        if self.run.rank == stay[0]:
            host = self._own_address()
            store = dist.TCPStore(host, 0, None, True, self._timeout, wait_for_workers=False)
            said = f"{store.port} {host}".encode()
            where[:len(said)] = torch.tensor(list(said), dtype=torch.uint8)
        where = where.to(self._device())
        dist.broadcast(where, self.peer(stay[0]))
        port, host = bytes(where.tolist()).rstrip(b"\0").decode().split(" ", 1)
        dist.barrier()  # who takes the group down early would take it from somebody who is still in that message
        dist.destroy_process_group()
        self.members = stay
        self._store = None
        if self.run.rank not in stay:
            return
        store = store or dist.TCPStore(host, int(port), None, False, self._timeout, wait_for_workers=False)
        self._store = store
        dist.init_process_group(backend, store=store, rank=self.peer(self.run.rank), world_size=len(stay), timeout=self._timeout)

    def _own_address(self) -> str:
        """Under which address the others reach this worker: rank 0 by the one they know, others by the one from which they reach rank 0."""
        if self.run.rank == 0:
            return self._master
        info = socket.getaddrinfo(self._master, 9, type=socket.SOCK_DGRAM)[0]  # nothing is sent; the port does not matter
        with socket.socket(info[0], info[1]) as s:
            s.connect(info[4])
            return s.getsockname()[0]
