"""The same all-reduce by gloo, as torch.distributed has it: gloo_allreduce.py NODES FLOATS ROUNDS.

Prints the seconds that one takes: the median and the least.
"""

import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WARM_UP = 3


def work(rank, nodes, floats, rounds, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=nodes)
    x = torch.ones(floats)
    seconds = []
    for turn in range(WARM_UP + rounds):
        start = time.perf_counter()
        dist.all_reduce(x)
        seconds.append(time.perf_counter() - start)
        if turn == 0:
            assert (x == nodes).all()
            x.zero_()
    if rank == 0:
        print(f"{statistics.median(seconds[WARM_UP:]):.9f} {min(seconds[WARM_UP:]):.9f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    nodes, floats, rounds = map(int, sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (nodes, floats, rounds, os.path.join(folder, "meeting")), nprocs=nodes)
