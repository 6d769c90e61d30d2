"""Runs `ringtmp train` as a ring on the balanced network, and reads what the nodes report about themselves.

The balanced network: dense layers of one width with relu between them; its input is half as wide again, because
the first layer needs no input gradient, and so all layers cost the same.
"""

import array
import json
import os
import random
import shutil
import struct
import subprocess
import time

from calm import calm

EXAMPLES = 8192


def write_npy(path, rows, columns, seed):
    """Random floats around zero, once."""
    if os.path.exists(path):
        return
    numbers = random.Random(seed)
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    with open(path + ".part", "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
        array.array("f", (numbers.random() - 0.5 for _ in range(rows * columns))).tofile(out)
    os.rename(path + ".part", path)


def run_file(work, width, layers, batch, micro_batch):
    """Writes data and run file where they are missing; gives the name of the run file. micro_batch may be "auto"."""
    os.makedirs(work, exist_ok=True)
    inputs, targets = (os.path.join(os.path.abspath(work), f"{name}-{EXAMPLES}x{width}.npy") for name in ("inputs", "targets"))
    write_npy(inputs, EXAMPLES, width * 3 // 2, 1)
    write_npy(targets, EXAMPLES, width, 2)
    lines = ["model:", f"  input: {width * 3 // 2}", "  layers:"]
    lines += [f"    - dense: {width}", "    - relu"] * layers
    lines[-1:] = ["  loss: mse", "data:", f"  train: {{npy: [{inputs}, {targets}]}}", "train:", f"  batch: {batch}"]
    lines += [f"  micro_batch: {micro_batch}", "  epochs: 1000000", "  threads: 1", "  checkpoint_seconds: 0"]
    lines += ["  optimizer: {sgd: {lr: 0.001}}"]
    name = os.path.join(os.path.abspath(work), f"mlp-{width}x{layers}-{batch}-{micro_batch}.yaml")
    with open(name, "w") as out:
        out.write("\n".join(lines) + "\n")
    return name


class Result:
    """summary.json, and how long the updates took: from the first forward to the last update, without the
    checkpoint and the saved model, which come after it."""

    def __init__(self, directory):
        with open(os.path.join(directory, "summary.json")) as file:
            self.summary = json.load(file)
        with open(os.path.join(directory, "journal.jsonl")) as file:
            events = [json.loads(line) for line in file]
        last = next((event for event in events if event["event"] == "checkpoint"), None)
        if not last:
            raise RuntimeError(f"{directory}/journal.jsonl tells of no checkpoint at the end")
        self.seconds = last["t"] - last["seconds"]
        self.nodes = self.summary["per_node"]
        self.updates = self.summary["updates"]
        self.rate = self.summary["samples"] / self.seconds

    def mean_idle(self):
        return sum(node["idle_fraction"] for node in self.nodes) / len(self.nodes)

    def forward_seconds(self):
        """Of an update, on an average worker."""
        shares = [node["states"]["forward"] for node in self.nodes[1:]]
        return sum(shares) / len(shares) / self.updates

    def sent(self, *kinds):
        """Bytes of these kinds per update, of all nodes."""
        return sum(link[kind] for node in self.nodes for link in node["sent"].values() for kind in kinds) / self.updates

    def cpu_seconds(self):
        return sum(node["cpu_s"] for node in self.nodes)


class Rings:
    """Runs of ringtmp in one work directory."""

    def __init__(self, binary, work):
        self.binary, self.work = os.path.abspath(binary), os.path.abspath(work)

    def file(self, width, layers, batch, micro_batch):
        return run_file(self.work, width, layers, batch, micro_batch)

    def start(self, file, updates, *options, name="run", prefix=(), stderr=None, **settings):
        """Settings: keys of the run file with __ for the dot."""
        out = os.path.join(self.work, name + ".out")
        shutil.rmtree(out, ignore_errors=True)
        command = [*prefix, self.binary, "train", file, "--quiet", "--out", out, *options]
        for key, value in {"train__updates": updates, **settings}.items():
            command += ["--set", f"{key.replace('__', '.')}={value}"]
        process = subprocess.Popen(command, stderr=stderr)
        process.out = out
        return process

    def finish(self, process):
        if process.wait() != 0:
            raise RuntimeError(f"{' '.join(process.args)} failed with status {process.returncode}")
        result = Result(process.out)
        shutil.rmtree(process.out)
        return result

    def run(self, *options, **settings):
        return self.finish(self.start(*options, **settings))

    @calm
    def emulated(self, file, updates, slowdowns, strategy="ring", **settings):
        """A ring of local processes, each so many times slower than a core."""
        return self.run(file, updates, "--nodes", str(len(slowdowns)), "--strategy", strategy,
                        cluster__slowdown="[" + ",".join(map(str, slowdowns)) + "]", **settings)


class Node:
    """A running `ringtmp node`; use it in a with statement."""

    def __init__(self, rings, *options, listen="127.0.0.1:0", prefix=()):
        self.process = subprocess.Popen([*prefix, rings.binary, "node", "--listen", listen, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("listening at "):
                self.address = line.split()[2]
                return
        raise RuntimeError(f"a node did not start: {' '.join(said).strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def cpu_seconds(self):
        """Of all its threads, as the scheduler counts it."""
        total = 0
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def cpu_share(self, seconds):
        """Per cent of a core that it takes while nothing happens."""
        before, start = self.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        return 100 * (self.cpu_seconds() - before) / (time.monotonic() - start)
