# SPDX-License-Identifier: BSD-3-Clause
"""The same GPT in PyTorch, on the weights and tokens that tests/torch/dump_gpt wrote.

Prints one line per tensor: the relative difference ||ours - torch|| / ||torch|| of loss and gradients.
Exit 0 when all are at most 1e-4. Compares in float64 (what is right) or float32 (what a user runs):

    gpt_vs_torch.py FILE float32|float64
"""
import array
import sys

import torch
import torch.nn.functional as F

LIMIT = 1e-4
TYPES = {"i32": ("i", 4), "f32": ("f", 4), "f64": ("d", 8)}


def read(path):
    records = {}
    with open(path, "rb") as f:
        while True:
            line = f.readline()
            if not line:
                return records
            name, kind, rows, cols = line.decode().split()
            code, size = TYPES[kind]
            values = array.array(code)
            values.frombytes(f.read(int(rows) * int(cols) * size))
            dtype = torch.float64 if kind != "i32" else torch.int64
            records[name] = torch.tensor(values.tolist(), dtype=dtype).reshape(int(rows), int(cols))


def block(x, p, heads):
    b, t, c = x.shape
    h = F.layer_norm(x, (c,), p["ln1.weight"], p["ln1.bias"], eps=1e-5)
    q, k, v = F.linear(h, p["attn.qkv.weight"], p["attn.qkv.bias"]).split(c, dim=2)
    q, k, v = (a.view(b, t, heads, c // heads).transpose(1, 2) for a in (q, k, v))
    score = q @ k.transpose(2, 3) / (c // heads) ** 0.5
    mask = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
    y = torch.softmax(score.masked_fill(mask, float("-inf")), dim=3) @ v
    y = y.transpose(1, 2).reshape(b, t, c)
    x = x + F.linear(y, p["attn.proj.weight"], p["attn.proj.bias"])
    h = F.layer_norm(x, (c,), p["ln2.weight"], p["ln2.bias"], eps=1e-5)
    h = F.linear(h, p["mlp.fc.weight"], p["mlp.fc.bias"])
    h = 0.5 * h * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h**3)))
    return x + F.linear(h, p["mlp.proj.weight"], p["mlp.proj.bias"])


def model_loss(config, p, tokens, targets):
    blocks, channels, heads, context, vocabulary, tied = config[:6]
    x = F.embedding(tokens, p["0.wte"]) + p["0.wpe"]
    for i in range(1, blocks + 1):
        mine = {n.split(".", 1)[1]: w for n, w in p.items() if n.split(".", 1)[0] == str(i)}
        x = block(x, mine, heads)
    last = str(blocks + 1)
    x = F.layer_norm(x, (channels,), p[last + ".lnf.weight"], p[last + ".lnf.bias"], eps=1e-5)
    logits = F.linear(x, p["0.wte"] if tied else p[last + ".head.weight"])
    return F.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))


def difference(ours, torchs):
    scale = torchs.double().norm().item()
    return (ours.double() - torchs.double()).norm().item() / scale if scale else float("inf")


def main():
    dtype = getattr(torch, sys.argv[2])
    torch.set_num_threads(1)
    r = read(sys.argv[1])
    config = r["config"].flatten().tolist()
    params = {}
    for name in r:
        if "grad." + name in r:
            w = r[name].to(dtype)
            params[name] = (w.flatten() if w.shape[1] == 1 else w).requires_grad_()
    loss = model_loss(config, params, r["tokens"], r["targets"])
    loss.backward()
    results = {"loss": difference(r["loss"].flatten(), loss.detach().reshape(1))}
    for name, w in params.items():
        results["grad." + name] = difference(r["grad." + name].reshape(w.shape), w.grad)
    bad = [n for n, d in results.items() if not d <= LIMIT]
    worst = max(results, key=results.get)
    print(f"{len(results)} tensors, loss {loss.item():.6f}, largest difference {results[worst]:.2e} ({worst})")
    for n in bad:
        print(f"{n}: {results[n]:.3e} is more than {LIMIT}")
    sys.exit(1 if bad else 0)


main()
