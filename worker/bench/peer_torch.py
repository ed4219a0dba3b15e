# SPDX-License-Identifier: BSD-3-Clause
"""The GPT of bench_train in PyTorch, as a user of nanoGPT would run it; started by bench_peers.

    peer_torch.py BLOCKSxCHANNELSxHEADSxVOCABULARYxBATCHxCONTEXT THREADS wall|cpu

Says on stdout in one line of JSON what it is; then for each line "N" of stdin makes N optimizer steps on
the same random tokens and prints {"ns": [...], "loss": of the last}. AdamW is not the "foreach" one, which
is slower on a CPU; there is no clipping.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LR, BETAS, EPS, DECAY = 3e-4, (0.9, 0.95), 1e-8, 0.1


class Block(nn.Module):
    def __init__(self, channels, heads, context):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.fc, self.mlp = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.register_buffer("future", torch.triu(torch.ones(context, context, dtype=torch.bool), diagonal=1))

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in self.qkv(x).split(c, dim=2))
        scores = (q @ k.transpose(2, 3)) * (c // self.heads) ** -0.5
        y = F.softmax(scores.masked_fill(self.future[:t, :t], float("-inf")), dim=3) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, blocks, channels, heads, vocabulary, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, channels), nn.Embedding(context, channels)
        self.blocks = nn.ModuleList(Block(channels, heads, context) for _ in range(blocks))
        self.lnf = nn.LayerNorm(channels)
        for name, p in self.named_parameters():
            if p.dim() == 1:
                nn.init.constant_(p, 1.0 if name.endswith("weight") else 0.0)
            else:
                residual = name.endswith(("proj.weight", "mlp.weight"))
                nn.init.normal_(p, std=0.02 * ((2 * blocks) ** -0.5 if residual else 1.0))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.lnf(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def main():
    blocks, channels, heads, vocabulary, batch, context = map(int, sys.argv[1].split("x"))
    now = time.process_time_ns if sys.argv[3] == "cpu" else time.monotonic_ns
    torch.set_num_threads(int(sys.argv[2]))
    torch.manual_seed(1)
    model = GPT(blocks, channels, heads, vocabulary, context)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, foreach=False)
    tokens, targets = torch.randint(vocabulary, (2, batch, context))
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"parameters": parameters, "version": torch.__version__}), flush=True)
    for line in sys.stdin:
        ns = []
        for _ in range(int(line)):
            start = now()
            loss = model(tokens, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = loss.item()
            ns.append(now() - start)
        print(json.dumps({"ns": ns, "loss": value}), flush=True)


main()
