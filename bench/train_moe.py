#!/usr/bin/env python3
"""Trains a small mixture-of-experts language model in bf16 and by each recipe, and draws the losses.

    apt-get download python3.11-doc && dpkg -x python3.11-doc_*.deb doc        real text: the sources of Python's documentation
    find doc -name '*.rst.txt' | sort | xargs cat | xz > text.xz
    bench/train_moe.py text.xz losses.json [--steps N] [--seeds N]             where a Hopper GPU, torchtitan 0.2 and moe_opt are
    bench/train_moe.py --plot losses.json losses.svg

The model reads bytes: 8 layers of attention and torchtitan's MoE module, unmodified, 109 M parameters, 101 M of them experts. Its
experts are converted by moe_opt.torch.convert_experts_; all else is the same in all runs, and runs of one seed begin with the same
weights and see the same text. A step is a CUDA graph of the forward pass, the backward pass and AdamW, so that nothing in it may make
the host wait. The last figure of a run is the loss on text that was not trained on, the last sixteenth.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import argparse
import json
import lzma
import math
import statistics
import time

LAYERS, WIDTH, HEADS, EXPERTS, TOP_K, HIDDEN = 8, 512, 8, 8, 2, 1024
BATCH, LENGTH = 16, 512  # sequences, bytes
PEAK_RATE, WARM_UP = 1e-3, 100
BALANCE = 1e-3  # how fast the router's bias answers to load
EVALUATED = 48  # batches
HELD_OUT = 16  # the last part of so many
SMOOTH = 0.97
PLOT_EVERY = 5  # steps; the losses are smoothed over more


def make_model(device):
    """A transformer over bytes whose feed-forward layers are torchtitan's MoE."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torchtitan.models.moe import MoE, MoEArgs

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
            arguments = MoEArgs(num_experts=EXPERTS, num_shared_experts=0, top_k=TOP_K, load_balance_coeff=BALANCE)
            self.moe = MoE(arguments, WIDTH, HIDDEN)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = self.qkv(functional.rms_norm(x, (WIDTH,))).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.moe(functional.rms_norm(x, (WIDTH,)).bfloat16())

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.position = nn.Embedding(256, WIDTH), nn.Parameter(torch.empty(LENGTH, WIDTH))
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.head = nn.Linear(WIDTH, 256, bias=False)

        def forward(self, text):
            """The mean loss, in nats a byte, of each byte of text (batch, length + 1) but the first."""
            with torch.autocast(text.device.type, torch.bfloat16, cache_enabled=False):
                x = self.embedding(text[:, :-1]) + self.position
                for layer in self.layers:
                    x = layer(x)
                logits = self.head(functional.rms_norm(x, (WIDTH,)))
            return functional.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())

    return Model().to(device)


class Run:
    """A model, and the graph of its step, which serves all seeds."""

    def __init__(self, recipe, text, steps):
        import torch

        import moe_opt.torch as moe

        self.torch, self.steps, self.text = torch, steps, text
        self.model = make_model(text.device)
        if recipe != "bf16":
            moe.convert_experts_(self.model, recipe)
        self.trained = len(text) - len(text) // HELD_OUT
        self.rates = torch.tensor([self.rate(step) for step in range(steps)], device=text.device)
        self.rate_now = torch.zeros((), device=text.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.rate_now, betas=(0.9, 0.95), weight_decay=0.1, fused=True, capturable=True
        )
        self.starts = torch.zeros(steps, BATCH, dtype=torch.int64, device=text.device)
        self.now = torch.zeros(1, dtype=torch.int64, device=text.device)
        self.losses = torch.zeros(steps, device=text.device)
        self.offsets = torch.arange(LENGTH + 1, device=text.device)
        self.begin(0)
        self.graph = self.captured()

    def rate(self, step):
        """Warm-up, then a cosine to a tenth."""
        progress = max(0, step - WARM_UP) / max(1, self.steps - WARM_UP)
        return PEAK_RATE * min(1, (step + 1) / WARM_UP) * (0.55 + 0.45 * math.cos(math.pi * progress))

    def begin(self, seed):
        """Weights, text and optimizer of a seed, in the memory that the graph knows."""
        torch = self.torch
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.normal_(0, 0.02)
            for buffer in self.model.buffers():
                buffer.zero_()
            for state in self.optimizer.state.values():
                for tensor in state.values():
                    tensor.zero_()
        self.starts.copy_(torch.randint(self.trained - LENGTH - 1, self.starts.shape, generator=torch.Generator().manual_seed(seed)))
        self.now.zero_()

    def batch(self, starts):
        return self.text[starts[:, None] + self.offsets].long()

    def step(self):
        torch = self.torch
        loss = self.model(self.batch(self.starts[self.now].squeeze(0)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.rate_now.copy_(self.rates[self.now].squeeze(0))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for layer in self.model.layers:
                load = layer.moe.tokens_per_expert
                layer.moe.expert_bias.add_(BALANCE * torch.sign(load.mean() - load))
                load.zero_()
            self.losses.index_copy_(0, self.now, loss.detach().reshape(1))
            self.now.add_(1)

    def captured(self):
        torch = self.torch
        if not self.text.is_cuda:
            return None
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph

    def train(self, seed):
        """The losses of all steps, the loss on held-out text, and seconds of a step."""
        torch = self.torch
        self.begin(seed)
        begin = time.perf_counter()
        for _ in range(self.steps):
            self.graph.replay() if self.graph else self.step()
        losses = self.losses.tolist()
        seconds = (time.perf_counter() - begin) / self.steps
        with torch.no_grad():
            free = (len(self.text) - self.trained - LENGTH - 1) // (EVALUATED * BATCH)
            starts = self.trained + free * torch.arange(EVALUATED * BATCH, device=self.text.device).view(EVALUATED, BATCH)
            held_out = float(torch.stack([self.model(self.batch(each)) for each in starts]).mean())
        return {"losses": [round(loss, 4) for loss in losses], "held_out": held_out, "seconds_per_step": seconds}


def train(arguments):
    import torch

    import moe_opt.torch as moe

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with lzma.open(arguments.files[0]) as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).to(device)
    results = {"steps": arguments.steps, "bytes_of_text": len(text), "runs": []}
    for recipe in arguments.recipes or ("bf16", *moe.RECIPES):
        run = Run(recipe, text, arguments.steps)
        results["parameters"] = sum(parameter.numel() for parameter in run.model.parameters())
        for seed in range(arguments.seeds):
            results["runs"].append({"recipe": recipe, "seed": seed, **run.train(seed)})
            last = results["runs"][-1]
            print(f"{recipe} seed {seed}: held out {last['held_out']:.4f}, {last['seconds_per_step'] * 1e3:.2f} ms a step", flush=True)
            with open(arguments.files[1], "w", encoding="utf-8") as file:
                json.dump(results, file)
        del run
    finals = final_losses(results)
    for recipe, loss in finals.items():
        change = f", {100 * (loss / finals['bf16'] - 1):+.2f} % of bf16" if "bf16" in finals else ""
        print(f"{recipe}: held out {loss:.4f} nats a byte{change}")


def final_losses(results):
    """The loss on held-out text of each recipe, the mean of its seeds."""
    recipes = dict.fromkeys(run["recipe"] for run in results["runs"])
    return {recipe: statistics.fmean(run["held_out"] for run in results["runs"] if run["recipe"] == recipe) for recipe in recipes}


def smoothed(values):
    average, weight, result = 0.0, 0.0, []
    for value in values:
        average, weight = SMOOTH * average + (1 - SMOOTH) * value, SMOOTH * weight + (1 - SMOOTH)
        result.append(average / weight)
    return result


def plot(arguments):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "moe-opt"
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: a small file
    from matplotlib import pyplot

    with open(arguments.files[0], encoding="utf-8") as file:
        results = json.load(file)
    finals = final_losses(results)
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for color, recipe in zip(("black", "tab:blue", "tab:orange", "tab:green"), finals):
        for index, run in enumerate(run for run in results["runs"] if run["recipe"] == recipe):
            label = f"{recipe}, held out {finals[recipe]:.4f}" if index == 0 else None
            losses = smoothed(run["losses"])
            steps = [*range(0, len(losses) - 1, PLOT_EVERY), len(losses) - 1]
            axes.plot(steps, [losses[step] for step in steps], color=color, linewidth=0.8, label=label)
    axes.set(xlabel="step", ylabel="loss, nats a byte", xlim=(-0.05 * len(losses), 1.05 * len(losses)), ylim=(0.8, 3.0))
    axes.set_title(f"{results['parameters'] / 1e6:.0f} M parameters, {len(results['runs']) // len(finals)} seeds each", fontsize="medium")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(arguments.files[1], metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs=2, metavar="FILE", help="the text and the result, or with --plot the result and the picture")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipes", nargs="+", help="bf16 or recipes (default: bf16 and all recipes)")
    parser.add_argument("--plot", action="store_true")
    arguments = parser.parse_args()
    (plot if arguments.plot else train)(arguments)


if __name__ == "__main__":
    main()
