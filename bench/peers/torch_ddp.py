"""PyTorch's DistributedDataParallel on a case of bench/exchange.py: two processes with one thread each, gloo between
them, each with its own half of the examples.

    python torch_ddp.py WIDTHS BATCH CORE,CORE     prints {"version", "samples_per_s", "variant"} of its best variant
"""

import json
import os
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import Batches, load_data  # noqa: E402

import numpy  # noqa: E402

SECONDS = float(os.environ.get("BENCH_SECONDS", "1.5"))
VARIANTS = {
    "plain": ({}, {}),
    "bucket view, foreach": ({"gradient_as_bucket_view": True}, {"foreach": True}),
    "bucket view, static, fused": ({"gradient_as_bucket_view": True, "static_graph": True}, {"fused": True}),
    "one bucket, fused": ({"gradient_as_bucket_view": True, "bucket_cap_mb": 100}, {"fused": True}),
}


def network(widths):
    modules = [torch.nn.Flatten()]
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        modules += [torch.nn.ReLU()] * (i > 0) + [torch.nn.Linear(inputs, outputs)]
    return torch.nn.Sequential(*modules)


class Trainer:
    def __init__(self, rank, widths, batch, parallel, optimizer):
        torch.manual_seed(1)
        self.model = DistributedDataParallel(network(widths), **parallel)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, **optimizer)
        images, labels = load_data()
        self.images, self.labels = torch.from_numpy(images[rank::2].copy()), torch.from_numpy(labels[rank::2].copy()).long()
        self.batches = Batches(len(self.labels), batch, numpy.int64)
        self.cross_entropy = torch.nn.CrossEntropyLoss()

    def step(self):
        indices = torch.from_numpy(self.batches.take(1)[0])
        self.optimizer.zero_grad(set_to_none=True)
        self.cross_entropy(self.model(self.images[indices]), self.labels[indices]).backward()
        self.optimizer.step()


def steps_per_second(trainer, seconds):
    for _ in range(5):
        trainer.step()
    torch.distributed.barrier()
    steps, chunk, start, enough = 0, 4, time.perf_counter(), torch.zeros(1)
    while not enough.item():
        for _ in range(chunk):
            trainer.step()
        steps += chunk
        enough[0] = time.perf_counter() - start > seconds
        torch.distributed.broadcast(enough, 0)
    return steps / (time.perf_counter() - start)


def work(rank, widths, batch, cores, port):
    os.sched_setaffinity(0, {cores[rank]})
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    best, best_name = 0.0, None
    for name, (parallel, optimizer) in VARIANTS.items():
        try:
            rate = steps_per_second(Trainer(rank, widths, batch, parallel, optimizer), SECONDS / 2)
        except (TypeError, RuntimeError, ValueError):  # this version does not have it
            continue
        if rate > best:
            best, best_name = rate, name
    if rank == 0:
        print(json.dumps({"version": "PyTorch " + torch.__version__ + " DDP", "variant": best_name,
                          "samples_per_s": 2 * batch * best}), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sizes = [int(width) for width in sys.argv[1].split("-")]
    pair = [int(core) for core in sys.argv[3].split(",")]
    torch.multiprocessing.spawn(work, (sizes, int(sys.argv[2]), pair, 29500 + os.getpid() % 2000), nprocs=2)
