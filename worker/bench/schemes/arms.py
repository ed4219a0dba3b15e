# SPDX-License-Identifier: BSD-3-Clause
"""What bench_schemes trains: the arms of its two tasks, as keys of dynpipe-worker's configuration."""

# The dense run of so many percent of the steps, its learning rate at the end by then: "dense, stopped early" of any length lies
# between two of them. Likewise models of so many percent of the blocks, all steps: "a smaller dense model".
STOPPED = [40, 60, 80]
SMALLER = [50, 75]
DENSE = "dense"


class Arm:
    """One way to train. parent: the arm of task A whose weights task B begins with; keeps: such weights are wanted of it."""

    def __init__(self, name, keys, blocks, parent=DENSE, keeps=False):
        self.name, self.keys, self.blocks, self.parent, self.keeps = name, keys, blocks, parent, keeps

    def is_baseline(self):
        return self.name.startswith((DENSE, "smaller"))


def frozen_layers(blocks):
    """The embedding and three quarters of the blocks."""
    return 1 + 3 * blocks // 4


def _events(begin, end, every):
    return {"begin": begin, "end": end, "every": max(1, every)}


def _keys(section, values):
    return {f"{section}.{key}": value for key, value in values.items()}


def arms(task, steps, blocks):
    """Task A: from new weights; B: from those of task A, where there is also freezing from the first step on."""
    def part(percent):
        return max(1, steps * percent // 100)

    def frozen(rule, begin, end, every, **more):
        layers = frozen_layers(blocks)
        return _keys("freeze", {"rule": rule, "layers": layers, **_events(part(begin), part(end), part(every)), **more})

    def pruned(begin, end):
        return _keys("prune", {"initial": 0.0, "final": 0.9, **_events(part(begin), part(end), part(5))})

    out = [Arm(DENSE, {}, blocks, keeps=True)]
    out += [Arm(f"{DENSE}-{p}", {"train.steps": part(p)}, blocks) for p in STOPPED]
    for p in SMALLER:
        out.append(Arm(f"smaller-{p}", {"model.blocks": max(1, blocks * p // 100)}, max(1, blocks * p // 100), f"smaller-{p}", True))
    out += [
        Arm("prune", pruned(20, 60), blocks),
        Arm("freeze-linear", frozen("linear", 50, 90, 5), blocks),
        Arm("freeze-geometric", frozen("geometric", 15, 75, 15), blocks),
        Arm("freeze-change", frozen("change", 10, 90, 5), blocks),
        Arm("freeze-noise", frozen("noise", 10, 90, 5), blocks),
        Arm("prune-freeze", {**pruned(10, 50), **frozen("linear", 50, 90, 5)}, blocks),
        Arm("drop", {"drop.rate": 0.4}, blocks),
    ]
    if task == "B":
        out.append(Arm("freeze-static", _keys("freeze", {"layers": frozen_layers(blocks), "begin": 0, "end": 0}), blocks))
    return out


def meaning(blocks):
    """Lines of Markdown: what the names of arms mean."""
    layers = frozen_layers(blocks)
    return [
        "| arm | |", "|---|---|",
        f"| dense, dense-P | {blocks} blocks; the same with P % of the steps, its learning rate at the end by then |",
        "| smaller-P | dense, P % of the blocks |",
        "| prune | by magnitude to 90 %, in the steps from 20 to 60 % of all |",
        f"| freeze-linear | evenly more layers, {layers} in the end, from 50 to 90 % of the steps |",
        f"| freeze-geometric | a third of what is left of {layers} at 15, 30, 45, 60 and 75 % |",
        f"| freeze-change, freeze-noise | by what gradients say, at most {layers}, asked every 5 % from 10 to 90 % |",
        "| prune-freeze | prune from 10 to 50 %, then freeze-linear |",
        "| drop | layer dropout, 40 % of the microbatches leave out the last block, those before it less |",
        f"| freeze-static | {layers} layers from the first step on (task B) |", "",
        "Dense, stopped early, is the better one of two: the dense run itself at the moment when it had taken as many device-seconds, and "
        "a dense run that was planned so short, between two of dense-P. The smaller dense model lies between two of smaller-P and dense.",
    ]
