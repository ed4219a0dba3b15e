# SPDX-License-Identifier: BSD-3-Clause
"""The parts of dynpipe.torch in one process, for torch.t: prints "0 NAME" for each test that passes, else "1 NAME" and why."""
import math
import struct
import sys
import traceback

import torch

import dynpipe.torch as dpt
from dynpipe import _torch_state as state

TESTS = []


def test(f):
    TESTS.append(f)
    return f


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def refuses(kind, part, f, *args):
    try:
        f(*args)
    except kind as e:
        assert part in str(e), f"{part!r} is not in {e}"
    else:
        raise AssertionError(f"was taken; '{part}' was expected")


def trained(steps=3, make=torch.optim.Adam, **more):
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4))
    optimizer = make(module.parameters(), lr=0.1, **more)
    for _ in range(steps):
        module(torch.ones(2, 4)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return module, optimizer


@test
def every_type_comes_back(_=None):
    tree = {"a": [1, -2, True, None, "text", 0.1, math.inf, -0.0], 5: (1, (2, "x")), "t": {}}
    for d in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
              torch.bool):
        tree["t"][str(d)] = [torch.arange(6).reshape(2, 3).to(d), torch.tensor(1).to(d), torch.empty(0, 3, dtype=d),
                             torch.arange(6).reshape(2, 3).to(d).t()]
    got = dpt.unpack(dpt.pack(tree))
    equal(repr(got), repr(tree))
    for name, tensors in tree["t"].items():
        for a, b in zip(got["t"][name], tensors):
            assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), name
    nan = struct.pack("<I", 0x7fc12345)
    t = torch.frombuffer(bytearray(nan), dtype=torch.float32)
    equal(bytes(dpt.unpack(dpt.pack(t)).view(torch.uint8).tolist()), nan)


@test
def same_state_same_bytes():
    equal(dpt.sha256(dpt.pack(state.tree_of(trained()))), dpt.sha256(dpt.pack(state.tree_of(trained()))))
    assert dpt.sha256(dpt.pack(state.tree_of(trained(3)))) != dpt.sha256(dpt.pack(state.tree_of(trained(4))))


@test
def what_cannot_be_packed():
    refuses(TypeError, "a set cannot be moved", dpt.pack, {"a": {1}})
    refuses(TypeError, "cannot be moved", dpt.pack, torch.ones(2, 2).to_sparse())
    refuses(TypeError, "a bytes cannot be moved", dpt.pack, [b"x"])


def packed(header, behind=b""):
    header = header.encode()
    return torch.tensor(list(state.MAGIC + struct.pack("<Q", len(header)) + header + behind), dtype=torch.uint8)


@test
def what_cannot_be_unpacked():
    good = dpt.pack({"w": torch.ones(3)})
    order = '["' + sys.byteorder + '",'
    for n in range(good.numel()):
        refuses(ValueError, "", dpt.unpack, good[:n].clone())
    refuses(ValueError, "1 bytes are too many", dpt.unpack, torch.cat([good, good[:1]]))
    refuses(ValueError, "do not begin as a layer", dpt.unpack, torch.zeros(20, dtype=torch.uint8))
    refuses(ValueError, "its byte order is middle", dpt.unpack, packed('["middle",1]'))
    refuses(ValueError, "a tensor has 4000000000000 bytes", dpt.unpack, packed(order + '{"tensor":["float32",[1000000,1000000]]}]'))
    refuses(ValueError, "a side of -1", dpt.unpack, packed(order + '{"tensor":["float32",[-1,-1]]}]'))
    refuses(ValueError, "a side of 1.5", dpt.unpack, packed(order + '{"tensor":["float32",[1.5]]}]'))
    refuses(ValueError, "its header is wrong", dpt.unpack, packed(order + '{"tensor":["complex64",[1]]}]', bytes(8)))
    refuses(ValueError, "its header has a 'code'", dpt.unpack, packed(order + '{"code":"x"}]'))
    refuses(ValueError, "", dpt.unpack, packed(order + '{"a":1,"b":2}]'))
    refuses(ValueError, "", dpt.unpack, packed(order + '{"dict":[[{"tuple":[[]]},1]]}]'))
    refuses(ValueError, "", dpt.unpack, packed("[" * 100000))
    refuses(ValueError, "", dpt.unpack, packed("not JSON"))


@test
def a_layer_goes_on_bit_for_bit():
    for make, more in ((torch.optim.Adam, {"amsgrad": True}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {})):
        sent, there = trained(3, make, **more), trained(0, make, **more)
        sent[0][0].weight.requires_grad_(False)
        sent[0].eval()
        state.restore(there, dpt.unpack(dpt.pack(state.tree_of(sent))))
        equal((there[0][0].weight.requires_grad, there[0].training), (False, False))
        for module, optimizer in (sent, there):
            module(torch.ones(2, 4)).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        equal(dpt.sha256(dpt.pack(state.tree_of(sent))), dpt.sha256(dpt.pack(state.tree_of(there))))


@test
def moments_with_more_bits_than_weights():
    def make():
        module = torch.nn.Linear(3, 3).to(torch.bfloat16)
        return module, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    sent, there = make(), make()
    for p in sent[0].parameters():
        sent[1].state[p]["momentum_buffer"] = torch.full(p.shape, 1 / 3, dtype=torch.float32)
    state.restore(there, dpt.unpack(dpt.pack(state.tree_of(sent))))
    equal(dpt.sha256(dpt.pack(state.tree_of(sent))), dpt.sha256(dpt.pack(state.tree_of(there))))


@test
def bytes_of_a_state():
    module = torch.nn.Linear(4, 4)
    equal(dpt.state_bytes(module), 160)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    module(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    equal(dpt.state_bytes(module, optimizer), 240)
    module.requires_grad_(False)
    equal(dpt.state_bytes(module, optimizer), 160)


class Heavy(torch.nn.Module):
    """A hundred times the work of one matrix."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Linear(64, 64)

    def forward(self, x):
        for _ in range(100):
            x = torch.tanh(self.w(x))
        return x


def step_of(layers, timers, batch, trains, microbatches=2):
    timers.begin()
    for i, (module, _) in layers.items():
        module.requires_grad_(i in trains)
    for _ in range(microbatches):
        x = torch.ones(batch, 64)
        for module, _ in layers.values():
            x = module(x)
        if x.requires_grad:
            with timers.backward():
                x.sum().backward()
    return timers.loads()


@test
def times_go_to_their_layers():
    torch.set_num_threads(1)
    layers = {4: (torch.nn.Linear(64, 64), None), 5: (Heavy(), None), 6: (torch.nn.Linear(64, 64), None)}
    timers = dpt.Timers(layers)
    for _ in range(2):
        a, b, c = step_of(layers, timers, 64, {4, 5, 6})
    for load in (a, b, c):
        assert load.fwd_ns > 0 and load.bwd_input_ns > 0 and load.act_bytes > 0, load
    assert b.fwd_ns > a.fwd_ns + c.fwd_ns and b.bwd_input_ns > a.bwd_input_ns + c.bwd_input_ns, (a, b, c)
    equal((a.params, a.nnz, a.state_bytes), (64 * 65, 64 * 65, 64 * 65 * 8))
    # What is kept grows with the microbatch, and not with how many there are.
    equal(step_of(layers, timers, 64, {4, 5, 6}, 5)[1].act_bytes, b.act_bytes)
    equal(step_of(layers, timers, 128, {4, 5, 6})[1].act_bytes, 2 * b.act_bytes)
    # The first one, of which nothing asks for a gradient of its input, has its backward pass timed, too.
    frozen, first, _ = step_of(layers, timers, 64, {5, 6})
    equal((frozen.bwd_input_ns, frozen.act_bytes, frozen.state_bytes), (0, 0, 64 * 65 * 4))
    assert first.bwd_input_ns > 0 and first.act_bytes > 0, first
    # A layer that has come, one that has gone.
    layers[7] = (torch.nn.Linear(64, 64), None)
    module = layers.pop(4)[0]
    equal(len(step_of(layers, timers, 64, {5, 6, 7})), 3)
    equal((len(module._forward_hooks), len(module._forward_pre_hooks)), (0, 0))


@test
def hooks_change_nothing():
    def gradients(timed):
        torch.manual_seed(3)
        layers = {0: (torch.nn.Linear(64, 64), None), 1: (Heavy(), None)}
        if timed:
            step_of(layers, dpt.Timers(layers), 8, {0, 1})
        else:
            for _ in range(2):
                layers[1][0](layers[0][0](torch.ones(8, 64))).sum().backward()
        return [p.grad for module, _ in layers.values() for p in module.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(gradients(True), gradients(False)))


@test
def a_layer_that_fails_leaves_no_hook_open():
    class Fails(torch.nn.Linear):
        def forward(self, x):
            torch.tanh(super().forward(x))
            raise OSError("it fails")
    layers = {0: (Fails(4, 4), None), 1: (torch.nn.Linear(4, 4), None)}
    timers = dpt.Timers(layers)
    refuses(OSError, "it fails", layers[0][0], torch.ones(1, 4))
    with timers.backward():
        layers[1][0](torch.ones(1, 4)).sum().backward()
    _, load = timers.loads()
    assert load.fwd_ns > 0 and load.bwd_input_ns > 0, load
    # What is kept outside of layers is nobody's.
    before = [w.act_bytes for w in timers._watches.values()]
    torch.tanh(torch.ones(5, requires_grad=True))
    equal([w.act_bytes for w in timers._watches.values()], before)


for f in TESTS:
    try:
        f()
        print("0", f.__name__.replace("_", " "), flush=True)
    except Exception:
        print("1", f.__name__.replace("_", " "), flush=True)
        print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
