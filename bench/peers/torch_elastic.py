"""PyTorch's answer to a process that dies: torchrun ends all of them and starts them again, and they go on from the last
checkpoint. The network of bench/ringrun.py, data parallel over gloo, one thread each.

    python -m torch.distributed.run --nproc_per_node=4 --max_restarts=... torch_elastic.py DIRECTORY WIDTH LAYERS BATCH EVERY

A checkpoint is written every so many steps. DIRECTORY gets pid-RANK of each process that trains, and `steps`: a line with the
step and the time (CLOCK_MONOTONIC) for each step that is done, and one with 0 when training begins. It ends when
DIRECTORY/stop exists.
"""

import os
import sys
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

EXAMPLES = 8192


def network(width, layers):
    modules = []
    for i in range(layers):
        modules += [torch.nn.ReLU()] * (i > 0) + [torch.nn.Linear(width * 3 // 2 if i == 0 else width, width)]
    return torch.nn.Sequential(*modules)


def save(path, step, model, optimizer):
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".part")
    os.rename(path + ".part", path)


def main():
    directory, (width, layers, batch, every) = sys.argv[1], map(int, sys.argv[2:])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(1)
    model = network(width, layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    checkpoint, step = os.path.join(directory, "checkpoint"), 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        step = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    parallel = DistributedDataParallel(model)
    inputs, targets = torch.rand(EXAMPLES // world, width * 3 // 2) - 0.5, torch.rand(EXAMPLES // world, width) - 0.5
    with open(os.path.join(directory, f"pid-{rank}"), "w") as file:
        file.write(str(os.getpid()))
    stop, share = torch.zeros(1), batch // world
    with open(os.path.join(directory, "steps"), "a", buffering=1) as steps:
        if rank == 0:
            steps.write(f"0 {time.monotonic()!r}\n")
        while not stop.item():
            begin = step * share % (len(inputs) - share)
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.mse_loss(parallel(inputs[begin : begin + share]), targets[begin : begin + share]).backward()
            optimizer.step()
            step += 1
            if rank == 0:
                steps.write(f"{step} {time.monotonic()!r}\n")
                if step % every == 0:
                    save(checkpoint, step, model, optimizer)
            if step % every == 0:
                stop[0] = os.path.exists(os.path.join(directory, "stop"))
                torch.distributed.broadcast(stop, 0)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
