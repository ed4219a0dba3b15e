# SPDX-License-Identifier: BSD-3-Clause
"""What balancing and packing make of a run's costs: dynpipe simulate plays it on a pipeline.

The run's steps fall into phases of one state (runs.Run). Each layer is a kind of its own, whose points of "density" are no
densities here, but the phases, in order: point i has the costs that were measured in phase i.
"""
import json
import math
import os
import subprocess
import tempfile

from schemes.runs import Failed

POLICIES = ["keep", "uniform", "param", "time", "iteration"]
SLACK = 1.05  # packed onto the fewest devices whose step takes at most so many times as long as the first one's on all
NETWORK = {"inside": {"latency_us": 5, "gb_per_s": 10}}


class Played:
    """Totals of one way. devices: in the end."""

    def __init__(self, result, devices):
        totals = result["simulation"]["totals"]
        self.time_s, self.device_s, self.pause_s, self.tokens_per_s = (totals[k] for k in ("time_s", "device_s", "pause_s", "tokens_per_s"))
        self.devices = devices
        self.steps_ms = {p["first"]: p["iteration_ms"] for p in result["simulation"]["phases"]}


def phases(run, costs):
    """[(first step, state)]. A state that was never measured by itself goes with the one before it."""
    out = []
    for step, state in enumerate(run.states, 1):
        if out and (state == out[-1][1] or costs.layers(state) is None):
            continue
        if costs.layers(state) is not None:
            out.append((1 if not out else step, state))
    return out


def _point(layer, others, share, density):
    """One layer in one phase. others: ns of a step that belong to no layer (optimizer, data), of which it has `share`."""
    return {
        "density": density, "forward_ms": layer["forward_ns"] / 1e6, "backward_input_ms": layer["backward_input_ns"] / 1e6,
        "backward_weight_ms": layer["backward_weight_ns"] / 1e6, "optimizer_ms": others * share / 1e6,
        "state_bytes": round(layer["state_bytes"]), "activation_bytes": round(layer["activation_bytes"]),
        # the simulator counts the weights that are left: parameters times density
        "parameters": round(layer["nonzeros"] / density),
    }


class Player:
    def __init__(self, dynpipe, devices):
        self.dynpipe, self.devices = dynpipe, devices

    def model(self, run, costs):
        """All but layouts and events; and the events that change costs."""
        all_phases = phases(run, costs)
        density = [1 - i / (2 * len(all_phases)) for i in range(len(all_phases))]
        points = []
        for (_, state), d in zip(all_phases, density):
            layers, rest = costs.layers(state)
            learns = [l["backward_input_ns"] + l["backward_weight_ns"] > 0 for l in layers]
            left = sum(l["nonzeros"] for l, yes in zip(layers, learns) if yes)
            points.append([_point(l, rest if yes else 0, l["nonzeros"] / left, d) for l, yes in zip(layers, learns)])
        kinds = {f"layer{i}": [p[i] for p in points] for i in range(len(points[0]))}
        for points_of_one in kinds.values():
            for point in points_of_one:
                point["output_bytes"] = run.header["boundary_bytes"]
        model = {"source": "measured by bench_schemes", "name": run.arm, "devices": self.devices, "schedule": "1f1b",
                 "microbatches": run.header["microbatches"], "tokens_per_microbatch": run.header["tokens_per_microbatch"],
                 "network": NETWORK, "kinds": kinds, "layers": list(kinds), "iterations": len(run.states)}
        return model, [{"iteration": first, "density": d} for (first, _), d in zip(all_phases, density)]

    def simulate(self, model):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(model, f)
            f.flush()
            out = subprocess.run([self.dynpipe, "simulate", "--json", f.name], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 check=False)
        if out.returncode:
            raise Failed(f"{os.path.basename(self.dynpipe)} simulate: {out.stderr.strip()}")
        return json.loads(out.stdout)

    def on(self, model, events, policy, devices):
        """Played on so many devices, cut anew by the policy at each event; keep: as uniform begins."""
        balance = {} if policy == "keep" else {"balance": policy}
        events = [{**e, **balance} for e in events if e["iteration"] > 1]
        first = "uniform" if policy == "keep" else policy
        return Played(self.simulate({**model, "devices": devices, "balance": first, "events": events}), devices)

    def play(self, run, costs):
        """{policy: (kept on all devices, packed)}; packed is None for keep."""
        model, events = self.model(run, costs)
        out = {}
        for policy in POLICIES:
            alone = [self.on(model, events, policy, n) for n in range(1, self.devices + 1)] if policy != "keep" else []
            full = alone[-1] if alone else self.on(model, events, policy, self.devices)
            out[policy] = full, self.pack(model, events, policy, alone) if alone else None
        return out

    def pack(self, model, events, policy, alone):
        """alone[n - 1]: the run on n devices. What is given back stays away."""
        limit = alone[-1].steps_ms[1] * SLACK
        held, packed, first = self.devices, [], None
        for e in events:
            need = next((n for n in range(1, held + 1) if self.step_ms(alone[n - 1], e["iteration"]) <= limit), held)
            if first is None:
                first = held = need  # what does not pay from the first step on is not asked for
                continue
            packed.append({**e, "balance": policy, "devices": need, **({"release": "devices"} if need < held else {})})
            held = need
        return Played(self.simulate({**model, "devices": first, "balance": policy, "events": packed}), held)

    @staticmethod
    def step_ms(played, iteration):
        """Of the phase that it is in: equal costs may have been played as one phase."""
        return next((ms for first, ms in sorted(played.steps_ms.items(), reverse=True) if first <= iteration), math.inf)
