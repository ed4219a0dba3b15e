# SPDX-License-Identifier: BSD-3-Clause
"""A training loop of one's own whose layout is fixed at its start: it takes part in DynPipe without moving a layer. It reports what layers
cost; when the daemon proposes a layout with fewer workers, it saves a checkpoint behind the step that runs and ends with status 75.
Its batch script (own_loop.sbatch) gives nodes back and starts it again, with the layout and the number of workers that FOLDER/next.json
names.
Lines for DynPipe end with "# dynpipe". Python is all it needs.

    python3 own_loop.py --dir FOLDER --rank 0 --world 3 & ...      # on one machine, without Slurm

Workers are a chain: activations go from each to the next, gradients back, and what is to be done next goes along with the activations,
so all workers end behind the same step. The last worker prints each step's loss, a hexadecimal number, the same whatever the layout was.
"""
import argparse
import json
import math
import os
import random
import sys
import time
from multiprocessing.connection import Client, Listener

EX_TEMPFAIL = 75  # saved: begin again
WIDTH = 64
RATE = 0.05


def freezing(text):
    step, _, layers = text.partition(":")
    return int(step), int(layers)


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--dir", required=True, help="of checkpoints; one with a next.json goes on from there")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--layers", type=int, default=9)
    p.add_argument("--microbatches", type=int, default=4)
    p.add_argument("--freeze", type=freezing, action="append", default=[], metavar="STEP:LAYERS",
                   help="once so many steps are completed, so many layers, from layer 0 on, only go forward; may be given again")
    p.add_argument("--fixed", action="store_true", help="without DynPipe")
    p.add_argument("--rank", type=int, default=os.environ.get("SLURM_PROCID", 0))
    p.add_argument("--world", type=int, default=os.environ.get("SLURM_NTASKS", 1))
    p.add_argument("--hosts", default="", help="of the workers, by rank, with commas; else all are on this one, and meet in FOLDER")
    p.add_argument("--port", type=int, default=29600, help="of worker 0, with --hosts; the others have the next ones")
    p.add_argument("--workers", action="store_true", help="print how many workers the next start needs, and end")
    return p, p.parse_args()


class Layer:
    """y = x + tanh(w x + v x'), x' being x shifted by one; trained by plain gradient descent."""

    def __init__(self, i):
        r = random.Random(i)
        self.w, self.v = ([r.uniform(-0.5, 0.5) for _ in range(WIDTH)] for _ in range(2))
        self.dw, self.dv = [0.0] * WIDTH, [0.0] * WIDTH

    def forward(self, x):
        return [x[j] + math.tanh(self.w[j] * x[j] + self.v[j] * x[j - 1]) for j in range(WIDTH)]

    def backward(self, x, y, g):
        gu = [g[j] * (1 - (y[j] - x[j]) ** 2) for j in range(WIDTH)]
        for j in range(WIDTH):
            self.dw[j] += gu[j] * x[j]
            self.dv[j] += gu[j] * x[j - 1]
        return [g[j] + gu[j] * self.w[j] + gu[(j + 1) % WIDTH] * self.v[(j + 1) % WIDTH] for j in range(WIDTH)]

    def update(self):
        self.w = [a - RATE * b for a, b in zip(self.w, self.dw)]
        self.v = [a - RATE * b for a, b in zip(self.v, self.dv)]
        self.dw, self.dv = [0.0] * WIDTH, [0.0] * WIDTH


# Python writes a float into JSON with as many digits as it takes to read the same one again.
def send(to, what):
    to.send_bytes(json.dumps(what).encode())


def receive(source):
    began = time.monotonic_ns()
    what = json.loads(source.recv_bytes())
    spent["wait"] += time.monotonic_ns() - began
    return what


def replace(path, what):
    """Whole or not at all."""
    with open(path + ".tmp", "w") as f:
        json.dump(what, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


def load(folder):
    """The checkpoint to go on from: (step, cut), or none."""
    try:
        with open(folder + "/next.json") as f:
            start = json.load(f)
        return start["step"], start["cut"]
    except FileNotFoundError:
        return 0, None
    except (ValueError, TypeError, KeyError) as e:
        sys.exit(f"{folder}/next.json does not say where to go on: {e!r}")


def open_chain():
    """Connections to the worker before this one and to the one behind; None at the ends."""
    hosts = args.hosts.split(",") if args.hosts else None
    if hosts and len(hosts) < args.world:
        parser.error(f"--hosts names {len(hosts)} of {args.world} workers")

    def address(rank, host):
        return (host, args.port + rank) if hosts else f"{args.dir}/worker-{rank}.sock"

    before = behind = listener = None
    if args.rank > 0:
        mine = address(args.rank, "")
        if not hosts and os.path.exists(mine):
            os.unlink(mine)  # of a worker that was killed
        listener = Listener(mine)
    end = time.monotonic() + 600
    while args.rank + 1 < args.world and behind is None:
        try:
            behind = Client(address(args.rank + 1, hosts[args.rank + 1] if hosts else None))
        except (ConnectionRefusedError, FileNotFoundError):  # it is not there yet
            if time.monotonic() > end:
                sys.exit(f"worker {args.rank + 1} does not come")
            time.sleep(0.05)
    if listener:
        before = listener.accept()
        listener.close()
    return before, behind


def timed(times, i, f, *x):
    began = time.thread_time_ns()
    y = f(*x)
    times[i] = times.get(i, 0) + time.thread_time_ns() - began
    return y


def train(step):
    """One step: all microbatches forward, then all backward. Returns the loss in the last worker."""
    frozen = max((n for at, n in args.freeze if step >= at), default=0)
    kept, loss = [], 0.0
    for m in range(args.microbatches):
        r = random.Random(step * args.microbatches + m)
        x = receive(before) if before else [r.uniform(-1, 1) for _ in range(WIDTH)]
        values = [x]
        for i in layers:
            values.append(timed(spent["fwd"], i, layers[i].forward, values[-1]))
        if behind:
            send(behind, values[-1])
        kept.append(values)
    for m, values in enumerate(kept):
        if behind:
            if last < frozen:
                break  # nothing is trained here, nor before
            g = receive(behind)
        else:
            target = [math.sin(j + m) for j in range(WIDTH)]
            error = [a - b for a, b in zip(values[-1], target)]
            loss += sum(e * e for e in error) / WIDTH / args.microbatches
            g = [2 * e / WIDTH / args.microbatches for e in error]
        for k, i in reversed(list(enumerate(layers))):
            if i < frozen:
                break
            g = timed(spent["bwd"], i, layers[i].backward, values[k], values[k + 1], g)
        if before and first > frozen:
            send(before, g)
    for i in layers:
        if i >= frozen:
            layers[i].update()
    return loss


def save(step, cut):
    """Layers of this worker; behind the last one, which hears of it when all others have saved, what the next start reads."""
    folder = f"{args.dir}/step-{step}"
    os.makedirs(folder, exist_ok=True)
    for i, layer in layers.items():
        replace(f"{folder}/layer-{i}.json", [layer.w, layer.v])
    if behind:
        send(behind, ["save", cut])
    else:
        replace(args.dir + "/next.json", {"step": step, "cut": cut})


parser, args = options()
begin, cut = load(args.dir)
if args.workers:
    print(len(cut) - 1 if cut else args.world)
    sys.exit(0)
cut = cut or [args.layers * r // args.world for r in range(args.world + 1)]
if len(cut) != args.world + 1 or cut[-1] != args.layers:
    parser.error(f"{args.dir}/next.json is of {len(cut) - 1} workers with {cut[-1]} layers: there are {args.world} with {args.layers}")
first, last = cut[args.rank], cut[args.rank + 1] - 1
layers = {i: Layer(i) for i in range(first, last + 1)}
os.makedirs(args.dir, exist_ok=True)
before, behind = open_chain()  # first of all: who fails from here on ends the others, too
if begin:
    for i, layer in layers.items():
        with open(f"{args.dir}/step-{begin}/layer-{i}.json") as f:
            layer.w, layer.v = json.load(f)
run, proposal = None, None
if not args.fixed:  # dynpipe
    import dynpipe  # dynpipe
    run = dynpipe.join(rank=args.rank, world=args.world, cut=cut, step=begin, steps=args.steps, can_move=False,  # dynpipe
                       microbatches=args.microbatches, tokens_per_microbatch=1, equal_cost=True,  # dynpipe
                       changes=[dynpipe.freeze(*f) for f in sorted(args.freeze) if f[0] > begin],  # dynpipe
                       checkpoint_dir=args.dir, trainer="own_loop.py")  # dynpipe
for step in range(begin, args.steps + 1):
    spent = {"wait": 0, "fwd": {}, "bwd": {}}
    began = time.monotonic_ns()
    # What comes next is worker 0's to say: it is the leader, which no layout here takes its layers from.
    if before:
        what, new_cut = receive(before)
    else:
        if run:  # dynpipe
            proposal = run.proposal  # dynpipe
        new_cut = sorted(set(proposal.cut)) if proposal else cut
        what = "end" if step == args.steps else "save" if len(new_cut) < len(cut) else "train"
    if what == "save":
        save(step, new_cut)
        if run:  # dynpipe
            run.leave(dynpipe.How.SAVED, f"{args.dir}/step-{step}")  # dynpipe
        sys.exit(EX_TEMPFAIL)
    if behind:
        send(behind, [what, new_cut])
    if what == "end":
        break
    loss = train(step)
    if not behind:
        print(step + 1, loss.hex(), flush=True)
    if run:  # dynpipe
        m = args.microbatches  # dynpipe
        run.report(step + 1, wall_ns=time.monotonic_ns() - began, wait_ns=spent["wait"], loss=math.nan if behind else loss,  # dynpipe
                   loads=[dynpipe.Load(fwd_ns=spent["fwd"].get(i, 0) // m, bwd_input_ns=spent["bwd"].get(i, 0) // m,  # dynpipe
                                       state_bytes=32 * WIDTH, act_bytes=16 * WIDTH if i in spent["bwd"] else 0,  # dynpipe
                                       params=2 * WIDTH, nnz=2 * WIDTH) for i in layers])  # dynpipe
if run:  # dynpipe
    run.leave()  # dynpipe
