"""PyTorch's own pipeline on the network of bench/ringrun.py: two processes with one thread each, gloo between them.

    python torch_pipeline.py gpipe|1f1b CORE,CORE      prints samples per second
"""

import os
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

WIDTH, LAYERS, BATCH, MICRO_BATCHES = 1024, 8, 256, 16
SECONDS = float(os.environ.get("BENCH_SECONDS", "1.5"))
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def half(rank):
    """Layers of one process."""
    modules = []
    for i in range(rank * LAYERS // 2, (rank + 1) * LAYERS // 2):
        modules.append(torch.nn.Linear(WIDTH * 3 // 2 if i == 0 else WIDTH, WIDTH))
        if i < LAYERS - 1:
            modules.append(torch.nn.ReLU())
    return torch.nn.Sequential(*modules)


def work(rank, schedule_name, cores, port):
    os.sched_setaffinity(0, {cores[rank]})
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = half(rank)
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = SCHEDULES[schedule_name](stage, MICRO_BATCHES, loss_fn=torch.nn.MSELoss())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, fused=True)
    inputs, targets = torch.rand(BATCH, WIDTH * 3 // 2) - 0.5, torch.rand(BATCH, WIDTH) - 0.5

    def step():
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets)
        optimizer.step()

    for _ in range(3):
        step()
    torch.distributed.barrier()
    steps, start = 0, time.perf_counter()
    enough = torch.zeros(1)
    while not enough.item():
        for _ in range(4):
            step()
        steps += 4
        enough[0] = time.perf_counter() - start > SECONDS
        torch.distributed.broadcast(enough, 0)
    if rank == 0:
        print(steps * BATCH / (time.perf_counter() - start), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    both = [int(core) for core in sys.argv[2].split(",")]
    torch.multiprocessing.spawn(work, (sys.argv[1], both, 29500 + os.getpid() % 2000), nprocs=2)
