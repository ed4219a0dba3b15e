# SPDX-License-Identifier: BSD-3-Clause
"""A pipeline of layers in PyTorch that takes part in DynPipe. Its lines for DynPipe end with "# dynpipe"; without them it is a trainer
with a layout that stays.

    srun ... python3 torch_pipeline.py --host NODE         # torch_pipeline.sbatch: one process for each task of the step
    python3 torch_pipeline.py --rank 0 --world 3 & ...             # on one machine, without Slurm

It learns a made-up function of random tokens. The leader prints each step's loss, as a hexadecimal number, which is the same bit for bit
whatever layout the layers are in: sums are made in one order, by one thread, and a layer moves with its optimizer.
"""
import argparse
import os
import sys
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import dynpipe  # dynpipe
import dynpipe.torch as dpt  # dynpipe


def number(least):
    def parse(text):
        n = int(text)
        if n < least:
            raise argparse.ArgumentTypeError(f"{n} is less than {least}")
        return n
    return parse


def freezing(text):
    step, _, layers = text.partition(":")
    return int(step), int(layers)


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--steps", type=number(1), default=200)
    p.add_argument("--layers", type=number(3), default=9, help="embedding, blocks, head")
    p.add_argument("--width", type=number(1), default=128)
    p.add_argument("--vocabulary", type=number(2), default=512)
    p.add_argument("--batch", type=number(1), default=32, help="tokens of a microbatch")
    p.add_argument("--microbatches", type=number(1), default=4)
    p.add_argument("--freeze", type=freezing, action="append", default=[], metavar="STEP:LAYERS",
                   help="once so many steps are completed, so many layers, from layer 0 on, only go forward; may be given again")
    p.add_argument("--cut", help="layout at the start, as 0,3,6,9; else all have about as many layers")
    p.add_argument("--stop-file", metavar="FILE", help="end behind the first step in which the leader finds this file")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--fixed", action="store_true", help="without DynPipe")
    p.add_argument("--rank", type=number(0), default=os.environ.get("SLURM_PROCID", 0))
    p.add_argument("--world", type=number(1), default=os.environ.get("SLURM_NTASKS", 1))
    p.add_argument("--host", default=os.environ.get("MASTER_ADDR", "127.0.0.1"), help="of rank 0")
    p.add_argument("--port", type=number(1), default=os.environ.get("MASTER_PORT", 29500))
    p.add_argument("--init", metavar="URL", help="how the processes find each other, for torch.distributed; else tcp://HOST:PORT")
    args = p.parse_args()
    cut = [args.layers * r // args.world for r in range(args.world + 1)]
    if args.cut:
        cut = [int(n) for n in args.cut.split(",")]
    if len(cut) != args.world + 1 or cut[0] != 0 or cut[-1] != args.layers or cut != sorted(cut):
        p.error(f"--cut {args.cut}: {args.world + 1} numbers are needed that rise from 0 to {args.layers}")
    return args, cut


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


def make_layer(i):
    """Layer i as it is before the first step, whoever makes it, and an optimizer for it alone."""
    torch.manual_seed(1000 + i)
    if i == 0:
        layer = nn.Embedding(args.vocabulary, args.width)
    elif i < args.layers - 1:
        layer = Block(args.width)
    else:
        layer = nn.Linear(args.width, args.vocabulary)
    layer.to(device)
    return layer, torch.optim.Adam(layer.parameters(), lr=1e-3)


def owner(i):
    return next(r for r in range(args.world) if cut[r] <= i < cut[r + 1])


def n_frozen(step):
    return max((layers for at, layers in args.freeze if step >= at), default=0)


def tokens(step, microbatch):
    g = torch.Generator().manual_seed(step * args.microbatches + microbatch)
    x = torch.randint(args.vocabulary, (args.batch,), generator=g)
    return x.to(device), ((3 * x + 1) % args.vocabulary).to(device)


def receive(i):
    """An activation from layer i, or a gradient."""
    x = torch.empty(args.batch, args.width, device=device)
    with waiting():
        dist.recv(x, peer(owner(i)))
    return x


def train(step):
    """One step: all microbatches forward, then all backward (GPipe), then the optimizers. Returns the loss where the head is, else 0."""
    ids, frozen, loss, kept = list(layers), n_frozen(step), 0.0, []
    if not ids:
        return loss
    before, after = ids[0] - 1, ids[-1] + 1
    for i in ids:
        layers[i][0].requires_grad_(i >= frozen)
    for microbatch in range(args.microbatches):
        x, target = tokens(step, microbatch)
        if before >= 0:
            x = receive(before).requires_grad_(before >= frozen)
        y = x
        for i in ids:
            y = layers[i][0](y)
        if after < args.layers:
            dist.send(y.detach(), peer(owner(after)))
        else:
            y = F.cross_entropy(y, target) / args.microbatches
            loss += y.item()
        kept.append((x, y))
    for x, y in kept:
        if not y.requires_grad:
            break
        grad = receive(after) if after < args.layers else None
        with backward():
            y.backward(grad)
        if before >= max(frozen, 0):
            dist.send(x.grad, peer(owner(before)))
    with optimizing():
        for i in ids:
            if i >= frozen:
                layers[i][1].step()
                layers[i][1].zero_grad(set_to_none=True)
    return loss


args, cut = options()
torch.set_num_threads(1)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
torch.use_deterministic_algorithms(True)
device = torch.device(args.device, int(os.environ.get("SLURM_LOCALID", 0)) % torch.cuda.device_count() if args.device == "cuda" else 0)
if args.device == "cuda":
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if args.device == "cuda" else "gloo", init_method=args.init or f"tcp://{args.host}:{args.port}",
                        rank=args.rank, world_size=args.world, timeout=timedelta(minutes=30))
layers = {i: make_layer(i) for i in range(cut[args.rank], cut[args.rank + 1])}
leads, peer, run = args.rank == 0, int, None
backward = optimizing = waiting = nullcontext
if not args.fixed:  # dynpipe
    run = dynpipe.join(rank=args.rank, world=args.world, cut=cut, steps=args.steps, microbatches=args.microbatches,  # dynpipe
                       tokens_per_microbatch=args.batch, boundary_bytes=4 * args.batch * args.width, equal_cost=True,  # dynpipe
                       changes=[dynpipe.freeze(*f) for f in sorted(args.freeze)], device=args.device,  # dynpipe
                       trainer=f"PyTorch {torch.__version__}, torch_pipeline.py")  # dynpipe
    mover, timers = dpt.Mover(run, layers, make_layer, master=args.host), dpt.Timers(layers, device)  # dynpipe
    peer, backward, optimizing, waiting = mover.peer, timers.backward, timers.optimizer, timers.waiting  # dynpipe
for step in range(args.steps):
    if run:  # dynpipe
        timers.begin()  # dynpipe
        leads = run.leads  # dynpipe
    total = torch.zeros(3, dtype=torch.float64)
    total[0] = train(step)
    if leads and args.stop_file:
        total[1] = os.path.exists(args.stop_file)
    if run:  # dynpipe
        total[2] = run.pending()  # dynpipe
    total = total.to(device)
    with waiting():
        dist.all_reduce(total)
    loss, stops, migration = total.tolist()
    if leads:
        print(step + 1, loss.hex(), flush=True)
    if run:  # dynpipe
        timers.report(run, step + 1, loss)  # dynpipe
        if migration and mover.handover(int(migration)):  # dynpipe
            cut = mover.cut  # dynpipe
        if not mover.at_boundary():  # dynpipe
            sys.exit(0)  # dynpipe
    if stops:
        break
dist.barrier()
if run:  # dynpipe
    run.leave()  # dynpipe
