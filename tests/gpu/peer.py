# SPDX-License-Identifier: BSD-3-Clause
"""What tests/gpu/train trains, GPT-2 124M (batch 4, context 1024, 2 microbatches), in PyTorch on the same card.

    python3 tests/gpu/peer.py [--compile] [--steps N]

Prints the best and the median step per precision: fp32 without and with TF32 products, and bf16 autocast. Needs PyTorch 2.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

BLOCKS, CHANNELS, HEADS, VOCABULARY, CONTEXT, BATCH, MICROBATCHES = 12, 768, 12, 50257, 1024, 4, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.qkv, self.proj = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.fc, self.out = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (a.view(b, t, HEADS, c // HEADS).transpose(1, 2) for a in self.qkv(self.ln1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, CHANNELS), nn.Embedding(CONTEXT, CHANNELS)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln = nn.LayerNorm(CHANNELS)
        for w in (self.wte.weight, self.wpe.weight):
            nn.init.normal_(w, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe.weight
        for b in self.blocks:
            x = b(x)
        logits = F.linear(self.ln(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY).float(), targets.view(-1))


def measure(name: str, tf32: bool, bf16: bool, compiled: bool, steps: int) -> None:
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model) if compiled else model
    tokens = torch.randint(VOCABULARY, (2, MICROBATCHES, BATCH, CONTEXT), device="cuda")
    times = []
    for step in range(steps + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for m in range(MICROBATCHES):
            with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
                loss = run(tokens[0, m], tokens[1, m]) / MICROBATCHES
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= 3:
            times.append(1e3 * (time.perf_counter() - start))
    memory = torch.cuda.max_memory_allocated() >> 20
    torch.cuda.reset_peak_memory_stats()
    print(f"{name}: best {min(times):.1f} ms, median {statistics.median(times):.1f} ms of {steps} steps, {memory} MiB, "
          f"loss {loss.item() * MICROBATCHES:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="GPT-2 124M in PyTorch: time of a step")
    parser.add_argument("--compile", action="store_true", help="with torch.compile, too (a minute more)")
    parser.add_argument("--steps", type=int, default=10)
    a = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    for compiled in (False, True) if a.compile else (False,):
        word = ", compiled" if compiled else ""
        measure("fp32" + word, False, False, compiled, a.steps)
        measure("fp32, TF32 products" + word, True, False, compiled, a.steps)
        measure("bf16 autocast" + word, True, True, compiled, a.steps)


if __name__ == "__main__":
    main()
