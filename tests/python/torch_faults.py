# SPDX-License-Identifier: BSD-3-Clause
"""Starts a trainer in which hand-overs go wrong: torch_faults.py FAULTS SCRIPT ARGUMENT...

FAULTS: M:WORKER:KIND, with commas: in hand-over M (0: whichever is first), in this worker, once:
  pack     a layer cannot be packed            shadow   a layer cannot be made of what has arrived
  flip     a bit of what arrives is another    cut      what arrives is a byte short
  other    the layer that is made differs      end      the process ends when it is to send
  hold     before a yes it makes the file HOLD.WORKER, and waits until there is a file HOLD.go (HOLD: of the environment)
"""
import os
import runpy
import sys
import time

import torch

import dynpipe
import dynpipe.torch as dpt

faults = [fault.split(":") for fault in sys.argv[1].split(",") if fault]
sys.argv = sys.argv[2:]
Mover, pack = dpt.Mover, dpt.pack
now = {"m": None, "rank": None}


def due(*kinds):
    for fault in faults:
        if fault[2] in kinds and int(fault[0]) in (0, now["m"]) and int(fault[1]) == now["rank"]:
            faults.remove(fault)
            return fault[2]
    return None


def handover(self, m, timeout=20.0, really=Mover.handover):
    now.update(m=m, rank=self.run.rank)
    return really(self, m, timeout)


def receive(self, peer, really=Mover._receive):
    data, digest = really(self, peer)
    kind = due("flip", "cut")
    if kind == "flip":
        data[data.numel() // 2] ^= 1
    return data[:-1] if kind == "cut" else data, digest


def shadow(self, i, data, digest, really=Mover._shadow):
    if due("shadow"):
        raise MemoryError("no room for it")
    make = self.make
    if due("other"):
        def other(k):
            module, optimizer = make(k)
            return module.to(torch.float64), optimizer
        self.make = other
    try:
        return really(self, i, data, digest)
    finally:
        self.make = make


def faulty_pack(tree):
    if due("pack"):
        raise MemoryError("no room to pack it")
    return pack(tree)


def send(self, data, digest, peer, really=Mover._send):
    if due("end"):
        os._exit(9)
    return really(self, data, digest, peer)


def decide(self, m, digest, *args, really=dynpipe.Run.decide):
    if digest is not None and due("hold"):
        hold = os.environ["HOLD"]
        open(f"{hold}.{self.rank}", "w").close()
        while not os.path.exists(hold + ".go"):
            time.sleep(0.05)
    return really(self, m, digest, *args)


dynpipe.Run.decide = decide
dpt.pack = faulty_pack
Mover.handover, Mover._receive, Mover._shadow, Mover._send = handover, receive, shadow, send
runpy.run_path(sys.argv[0], run_name="__main__")
