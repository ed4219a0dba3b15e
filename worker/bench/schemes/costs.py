# SPDX-License-Identifier: BSD-3-Clause
"""What steps cost, and what seeds say together.

A step costs the median of what all measured steps of its state did (runs.Run), of whatever arm, task and seed: so a run that other
processes disturbed is not a dearer run, and what two arms compute alike costs the same in both.
"""
import math
import statistics

# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom; behind them the normal distribution's, and a little.
T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093]


def interval(values):
    """Mean, and half the width of its 95 % interval; None where there is one value only."""
    n = len(values)
    if n < 2:
        return values[0], None
    t = T[n - 2] if n - 2 < len(T) else 2.09
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(n)


class Costs:
    """Of all runs of a machine."""

    def __init__(self, runs):
        self.windows = {}
        for run in runs:
            for w in run.windows:
                self.windows.setdefault(w.state, []).append(w)
        self.busy = {state: statistics.median(w.busy for w in ws) for state, ws in self.windows.items()}
        self.table = {}

    def step(self, state):
        """Seconds. A state that no window is of (its steps were too few) costs what the nearest one of the same blocks does."""
        if state not in self.busy:
            self.busy[state] = self.busy[min(self.windows, key=lambda s: [abs(a - b) for a, b in zip(s, state)])]
        return self.busy[state] / 1e9

    def device_s(self, run):
        """Device-seconds until each step has ended: [0] is 0."""
        sums = [0.0]
        for state in run.states:
            sums.append(sums[-1] + self.step(state))
        return sums

    def layers(self, state):
        """Medians of each layer's members in a trace, and of the rest of a step (ns); None where nothing was measured."""
        if state not in self.windows:
            return None
        if state not in self.table:
            ws = self.windows[state]
            layers = [{key: statistics.median(w.layers[i][key] for w in ws) for key in layer} for i, layer in enumerate(ws[0].layers)]
            self.table[state] = layers, statistics.median(w.rest for w in ws)
        return self.table[state]


def at(points, x):
    """Between two points (x, y), ascending; None outside of them."""
    points = sorted(points)
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return None
