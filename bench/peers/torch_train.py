"""PyTorch as a peer: Debian's, or the newest from PyPI; eager, or compiled with --compile.

Variants: the optimizer as it comes, over all tensors at once (foreach), in one kernel (fused, newer versions
only); for convolutions channels first or last.
"""

import functools
import sys
import time

import torch

IMPORTED = time.monotonic()

from common import Batches, main  # noqa: E402
from cases import CASES, IMAGE, MOMENTUM  # noqa: E402

import numpy  # noqa: E402

COMPILE = "--compile" in sys.argv


def build(layers):
    channels, height, width = IMAGE
    modules = []
    for layer in layers:
        if layer == "relu":
            modules.append(torch.nn.ReLU())
        elif layer == "pool":
            modules.append(torch.nn.MaxPool2d(2))
            height, width = height // 2, width // 2
        elif layer == "flatten":
            modules.append(torch.nn.Flatten())
            channels = channels * height * width
        elif isinstance(layer, tuple):
            modules.append(torch.nn.Conv2d(channels, layer[1], 3, padding=1))
            channels = layer[1]
        else:
            modules.append(torch.nn.Linear(channels, layer))
            channels = layer
    return torch.nn.Sequential(*modules)


class Trainer:
    def __init__(self, optimizer, memory_format, case, images, labels):
        torch.manual_seed(1)
        self.model = build(case["layers"]).to(memory_format=memory_format)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=case["lr"], momentum=MOMENTUM, **optimizer)
        self.images = torch.from_numpy(images).to(memory_format=memory_format)
        self.labels = torch.from_numpy(labels).long()
        self.batch = case["batch"]
        self.batches = Batches(len(labels), self.batch, numpy.int64)
        self.cross_entropy = torch.nn.CrossEntropyLoss()
        self.loss_of = self.forward
        if COMPILE:
            self.loss_of = torch.compile(self.forward)

    def forward(self, x, y):
        return self.cross_entropy(self.model(x), y)

    def run(self):
        indices = torch.from_numpy(self.batches.take(1)[0])
        x, y = self.images[indices], self.labels[indices]
        self.optimizer.zero_grad(set_to_none=True)
        self.last = self.loss_of(x, y)
        self.last.backward()
        self.optimizer.step()
        return self.batch

    def wait(self):
        pass

    def loss(self):
        return float(self.last.detach())


def variants(layers):
    formats = {"": torch.contiguous_format}
    if "pool" in layers:
        formats = {", channels first": torch.contiguous_format, ", channels last": torch.channels_last}
    made = {}
    for place, memory_format in formats.items():
        made["plain" + place] = functools.partial(Trainer, {}, memory_format)
        made["foreach" + place] = functools.partial(Trainer, {"foreach": True}, memory_format)
        made["fused" + place] = functools.partial(Trainer, {"fused": True}, memory_format)
    return made


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = variants(CASES[sys.argv[1]]["layers"])
    name = "PyTorch " + torch.__version__ + (" compiled" if COMPILE else "")
    main(name, IMPORTED, made, next(iter(made)))
