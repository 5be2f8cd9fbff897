"""parity.py - the decoder against Hugging Face's LlamaForCausalLM in FP32: logits, losses and every parameter's gradient,
on the same weights and tokens, without dropout.

    parity.py PARITY FOLDER RECORD

PARITY is the program of parity.c, FOLDER is for files, RECORD is what rematch-export made of a record of tiny.yaml. Each case
is run with weights that Hugging Face drew and saved (in), and with weights drawn here and exported (out), in both storage
types. A line of the table shows the worst layer of a kind of tensor.
"""
import math
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()


class Case(NamedTuple):
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    tied: bool
    sequences: int
    tokens: int
    profile: str  # our order of summation
    attention: str  # their implementation
    std: float  # of weights


# The demo is as a study begins it. The others have weights of 1/sqrt(hidden): scores and gates of the size of 1, where
# softmax and SiLU are far from linear.
CASES = {
    "demo": Case(64, 192, 32, 4, 2, 256, True, 2, 256, "h800-sim", "eager", 0.02),
    "untied": Case(64, 160, 4, 4, 4, 1003, False, 3, 64, "l40s-sim", "sdpa", 64**-0.5),
    "grouped": Case(128, 320, 3, 8, 2, 97, True, 2, 77, "exact", "eager", 128**-0.5),
    "one-key-head": Case(128, 384, 2, 2, 1, 512, False, 1, 130, "h800-sim", "eager", 128**-0.5),
    "head-128": Case(256, 512, 2, 2, 2, 50, True, 2, 48, "l40s-sim", "sdpa", 256**-0.5),
    "head-10": Case(40, 56, 5, 4, 1, 33, False, 4, 31, "exact", "eager", 40**-0.5),
}
# What tests/studies/tiny.yaml trains.
RECORD = Case(32, 64, 4, 4, 2, 256, False, 2, 64, "h800-sim", "eager", 0.02)


def bound_bf16(name, expected, layers):
    """Largest relative L2 that rounding to BF16 can explain.

    Rounding to 8 bits changes an element by at most 2^-8 of it, r.m.s. 2^-9.2 over mantissas: call it 2^-9. Roundings are
    independent, so their effects add in quadrature. Norms and linear maps of many inputs hand a relative change of no
    particular direction on as it is; a product changes with each of its factors, scores being of the size of 1 at most.
      forward, a layer: norm1, query, key, value, query and key rotated, attention, projected, middle, norm2, gate, up,
                        activated, down, output                                                                    15
      backward, a layer: d_activated, d_gate_up, d_branch, d_stream, d_attention, d_qkv, rope, d_branch, d_stream    9
      ends: the final norm; d_logits, d_branch, d_stream
    The logits change with the forward's roundings. A gradient changes with the backward's, and with each of the forward's
    twice: in what follows it, and in its own backward; both in the same direction, which is four times in quadrature.
    A token's loss changes by what its logits do, times the length of softmax - onehot, at most sqrt(2); a sequence's loss by
    the sum of them, in quadrature. What is measured is an r.m.s. over the tensor's elements, which strays from the expected
    one by 1/sqrt(2 elements): three such deviations are allowed.
    """
    forward, backward = 15 * layers + 1, 9 * layers + 3
    roundings = forward if name in ("logits", "losses") else 4 * forward + backward
    bound = math.sqrt(roundings) * 2**-9
    if name == "losses":
        logits, losses = expected["logits"], expected["losses"]
        tokens = len(logits) / len(losses)
        bound *= math.sqrt(2 * tokens) * (logits.norm() / math.sqrt(logits.numel()) / losses.mean()).item()
    return bound * (1 + 3 / math.sqrt(2 * expected[name].numel()))


BOUND_FP32 = 1e-5
LEAST_COSINE = 0.999


def save_theirs(case, folder, storage):
    """A model with weights drawn by Hugging Face, and nothing left at a default: norms, their epsilon, theta."""
    config = LlamaConfig(
        vocab_size=case.vocab, hidden_size=case.hidden, intermediate_size=case.ffn, num_hidden_layers=case.layers,
        num_attention_heads=case.heads, num_key_value_heads=case.kv_heads, tie_word_embeddings=case.tied,
        max_position_embeddings=case.tokens, rms_norm_eps=3e-6, initializer_range=case.std,
        rope_parameters={"rope_type": "default", "rope_theta": 20000.0})
    torch.manual_seed(1)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.2 * torch.randn_like(p))
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                p.mul_((2 * case.layers) ** -0.5)
    model.to(torch.bfloat16 if storage == "bf16" else torch.float32).save_pretrained(folder)


def run_theirs(folder, batch, attention):
    """Logits, losses and gradients of the mean loss, in FP32."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention)
    token, target = batch["token"].long(), batch["target"].long()
    logits = model(input_ids=token).logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    losses.mean().backward()
    result = {name: p.grad for name, p in model.named_parameters()}
    return result | {"logits": logits.detach().flatten(0, 1), "losses": losses.detach().view_as(token).double().sum(1)}


class Table:
    """Counts checks and prints, for each case, the worst of each kind of tensor."""

    def __init__(self):
        self.passed = self.failed = 0
        self.worst = {}
        print(f"{'case':18} {'store':5} {'worst of':26} {'relative L2':>11} {'bound':>9} {'cosine':>11}")

    def check(self, label, storage, layers, ours, theirs):
        if set(ours) != set(theirs):
            raise SystemExit(f"{label}: tensors of one side only: {sorted(set(ours) ^ set(theirs))}")
        kinds = {}
        for name in theirs:
            a, b = ours[name].double().flatten(), theirs[name].double().flatten()
            if a.shape != b.shape:
                raise SystemExit(f"{label}: {name}: {len(a)} elements here, {len(b)} there")
            bound = bound_bf16(name, theirs, layers) if storage == "bf16" else BOUND_FP32
            line = Line(((a - b).norm() / b.norm()).item(), bound, (a @ b / (a.norm() * b.norm())).item())
            good = line.distance <= bound and line.cosine > LEAST_COSINE
            self.passed, self.failed = self.passed + good, self.failed + (not good)
            if not good:
                print(f"FAILED: {label} {storage}: {name}: relative L2 {line.distance:.3g}, cosine {line.cosine:.6f}")
            kind = re.sub(r"^model\.(layers\.\d+\.)?|\.weight$", "", name)
            kinds[kind] = max(kinds.get(kind, line), line)
            self.worst[storage] = max(self.worst.get(storage, (line, "")), (line, f"{label}: {name}"))
        for kind, line in kinds.items():
            print(f"{label:18} {storage:5} {kind:26} {line.distance:11.2e} {line.bound:9.2e} {line.cosine:11.8f}")

    def close(self):
        for storage, (line, where) in self.worst.items():
            print(f"worst in {storage}: relative L2 {line.distance:.2e} (bound {line.bound:.2e}), {where}")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


class Line(NamedTuple):
    distance: float
    bound: float
    cosine: float


class Runner:
    def __init__(self, parity, work):
        self.parity, self.work, self.table = parity, work, Table()
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)

    def call(self, *arguments):
        subprocess.run([self.parity, *map(str, arguments)], check=True)

    def compare(self, label, folder, storage, case):
        """A pass over random tokens, here and there."""
        tokens, result = f"{self.work}/tokens.safetensors", f"{self.work}/result.safetensors"
        generator = torch.Generator().manual_seed(7)
        batch = {name: torch.randint(case.vocab, (case.sequences, case.tokens), generator=generator, dtype=torch.int32)
                 for name in ("token", "target")}
        save_file(batch, tokens)
        self.call("pass", folder, storage, case.profile, tokens, result)
        self.table.check(label, storage, case.layers, load_file(result), run_theirs(folder, batch, case.attention))

    def compare_both_ways(self, name, case):
        for storage in ("bf16", "fp32"):
            saved, drawn = f"{self.work}/{name}-in-{storage}", f"{self.work}/{name}-out-{storage}"
            save_theirs(case, saved, storage)
            self.call("draw", saved, drawn, storage, case.std)
            self.compare(f"{name} in", saved, storage, case)
            self.compare(f"{name} out", drawn, storage, case)


def main(parity, work, record):
    runner = Runner(parity, work)
    for name, case in CASES.items():
        runner.compare_both_ways(name, case)
    runner.compare("record", record, "bf16", RECORD)
    return runner.table.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
