#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A trainer that does not keep to its word: odd_trainer.py HOW EXAMPLE OPTIONS... runs the example, but rank 2 of it

    refuses     says no to each hand-over
    tells-tales reports layers as a hundred times as slow as they are, every other time
    lies        votes yes with a digest of its own
    stays       never leaves, whoever says so, and does not hear SIGTERM
    floods      sends 60 events and 60 expectations a step
"""
import os
import runpy
import signal
import sys
import time

import dynpipe

how, example = sys.argv[1:3]
sys.argv = sys.argv[2:]
odd = dynpipe.Run
report, prepare, decide, wait_leave = odd.report, odd.prepare, odd.decide, odd.wait_leave
n_reports = 0


def tell_tales(self, step, *, loads, **times):
    global n_reports
    n_reports += 1
    for load in loads if n_reports // 8 % 2 else []:
        load.fwd_ns *= 100
        load.bwd_input_ns *= 100
    return report(self, step, loads=loads, **times)


def flood(self, step, *, loads, **times):
    for i in range(60):
        self.event(dynpipe.Event.EVAL, step, float(i), "x" * 900)
        self.expect(1000000 - i, 2, [dynpipe.Load(step, i, i) for _ in range(6)])
    return report(self, step, loads=loads, **times)


def stay(self):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"pid {os.getpid()} stays", file=sys.stderr, flush=True)
    while True:
        time.sleep(1)


if os.environ["SLURM_PROCID"] == ("3" if how == "stays" else "2"):
    if how == "refuses":
        odd.prepare = lambda self, m, timeout=20.0: None
    elif how == "tells-tales":
        odd.report = tell_tales
    elif how == "lies":
        odd.decide = lambda self, m, digest, *more, **named: decide(self, m, digest and bytes(32), *more, **named)
    elif how == "stays":
        odd.wait_leave = stay
    elif how == "floods":
        odd.report = flood
    else:
        sys.exit(f"nobody knows how to do '{how}'")
runpy.run_path(example, run_name="__main__")
