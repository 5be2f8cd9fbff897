#!/usr/bin/env python3
"""peer_torch.py - the training step of steps.c by PyTorch, in the fastest of its settings.

peer.h says what it is asked:   add LAYERS HIDDEN FFN HEADS VOCAB SEQUENCE BATCH RECOMPUTED
The first time a shape is asked for, every setting trains a few steps of it and they are ranked; with recomputed layers
the best three of that ranking are tried again. What was tried is written to stderr.
"""
import gc
import itertools
import os
import sys
import time
import warnings
from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

Shape = namedtuple("Shape", "layers hidden ffn heads vocab sequence batch recomputed")
Setting = namedtuple("Setting", "precision attention compiled optimizer")

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")
HAS_COMPILE = hasattr(torch, "compile")


def describe(s):
    words = [s.precision, s.attention, s.optimizer + " AdamW"] + (["compiled blocks"] if s.compiled else [])
    return f"PyTorch {torch.__version__.split('+')[0]}: " + ", ".join(words)


# ---- the model: a Llama block without biases, as model/block.c ----


class Norm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight.to(x.dtype)


class Block(nn.Module):
    def __init__(self, shape, attention):
        super().__init__()
        hidden, self.heads, self.attention = shape.hidden, shape.heads, attention
        self.head_dim = hidden // shape.heads
        self.input_norm, self.post_norm = Norm(hidden), Norm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.projection = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, hidden, bias=False)

    @staticmethod
    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attend(self, q, k, v, mask):
        if self.attention == "SDPA":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (q @ k.transpose(-1, -2) * self.head_dim**-0.5 + mask.to(q.dtype)).softmax(-1) @ v

    def forward(self, x, cos, sin, mask):
        batch, tokens, hidden = x.shape
        qkv = self.qkv(self.input_norm(x)).view(batch, tokens, 3, self.heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        out = self.attend(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v, mask)
        x = x + self.projection(out.transpose(1, 2).reshape(batch, tokens, hidden))
        gate, up = self.gate_up(self.post_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, shape, setting):
        super().__init__()
        half = shape.hidden // shape.heads // 2
        angle = torch.outer(torch.arange(shape.sequence).float(), 10000.0 ** -(torch.arange(half).float() / half))
        self.recomputed = shape.recomputed
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.full((shape.sequence,) * 2, float("-inf")).triu(1))
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape, setting.attention) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden)
        # One compilation serves all blocks: they differ in nothing but their weights.
        self.run = [torch.compile(b) if setting.compiled else b for b in self.blocks]

    def forward(self, token):
        x = self.embedding(token)
        for i, block in enumerate(self.run):
            if i < self.recomputed:
                x = checkpoint(block, x, self.cos, self.sin, self.mask, use_reentrant=False)
            else:
                x = block(x, self.cos, self.sin, self.mask)
        return F.linear(self.norm(x), self.embedding.weight)


# ---- a step ----


class Trainer:
    """Pure bf16 keeps fp32 master weights, as we do."""

    def __init__(self, shape, setting):
        torch.manual_seed(1)
        self.shape, self.setting = shape, setting
        self.model = Decoder(shape, setting)
        self.master = None
        if setting.precision == "bf16":
            self.model.bfloat16()
            self.master = [p.detach().float().clone().requires_grad_() for p in self.model.parameters()]
        how = {setting.optimizer: True}
        self.optimizer = torch.optim.AdamW(self.master or self.model.parameters(), lr=1e-6, weight_decay=0.1, **how)
        self.token = torch.randint(0, shape.vocab, (shape.batch, shape.sequence))
        self.target = torch.randint(0, shape.vocab, (shape.batch * shape.sequence,))

    def step(self):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.setting.precision == "autocast"):
            logits = self.model(self.token)
        F.cross_entropy(logits.float().reshape(-1, self.shape.vocab), self.target).backward()
        trained = self.master or list(self.model.parameters())
        if self.master:
            for p, wide in zip(self.model.parameters(), self.master):
                wide.grad, p.grad = p.grad.float(), None
        nn.utils.clip_grad_norm_(trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.master:
            with torch.no_grad():
                for p, wide in zip(self.model.parameters(), self.master):
                    p.copy_(wide)

    def seconds(self, steps):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            self.step()
        return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps


# ---- the fastest setting ----


def settings():
    attentions = ["SDPA", "eager"] if HAS_SDPA else ["eager"]
    compiled = [False, True] if HAS_COMPILE else [False]
    return [Setting(*s, "foreach") for s in itertools.product(["fp32", "autocast", "bf16"], attentions, compiled)]


def try_out(shape, setting):
    """Seconds of a step, or None where this PyTorch cannot do it."""
    try:
        gc.collect()
        trainer = Trainer(shape, setting)
        trainer.step()
        taken = min(trainer.seconds(1)[0] for _ in range(2))
    except Exception as error:  # whatever it is, another setting may do
        reason = str(error).strip().splitlines()
        print(f"peer_torch: {describe(setting)}: {reason[0] if reason else type(error).__name__}", file=sys.stderr)
        return None
    print(f"peer_torch: H {shape.hidden}, {shape.recomputed} recomputed, {describe(setting)}: {taken * 1e3:.0f} ms",
          file=sys.stderr)
    return taken


def rank(shape, choices):
    taken = [(try_out(shape, setting), setting) for setting in choices]
    return [setting for _, setting in sorted(t for t in taken if t[0])]


def rank_all(shape):
    """The optimizer changes all settings alike: the other one is only tried with the best."""
    ranked = rank(shape, settings())[:2]
    return rank(shape, [s._replace(optimizer=o) for s in ranked for o in ("foreach", "fused")])


def main():
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print where they like
    ranking, trainers = {}, []
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "add":
            shape = Shape(*map(int, words))
            stored = shape._replace(recomputed=0)
            if stored not in ranking:
                ranking[stored] = rank_all(stored)
            best = rank(shape, ranking[stored][:3]) if shape.recomputed else ranking[stored]
            if not best:
                answers.write("none no setting works\n")
                continue
            trainers.append(Trainer(shape, best[0]))
            answers.write(f"{len(trainers) - 1} {describe(best[0])}\n")
        elif verb == "run":
            wall, cpu = trainers[int(words[0])].seconds(int(words[1]))
            answers.write(f"{wall:.9g} {cpu:.9g}\n")
        else:
            answers.write("none this peer does not know it\n")


main()
