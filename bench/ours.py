"""Runs `ringtmp train` on a case and reads what it reports about itself."""

import gzip
import json
import os
import shutil
import subprocess
import time

from calm import calm
from cases import CASES, DATA_DIR, IMAGE, MOMENTUM


def plain_data(directory):
    """The training set uncompressed: that is what the program maps instead of loading."""
    names = []
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        target = os.path.join(directory, name)
        if not os.path.exists(target):
            with gzip.open(os.path.join(DATA_DIR, name + ".gz")) as source, open(target + ".part", "wb") as out:
                shutil.copyfileobj(source, out)
            os.rename(target + ".part", target)
        names.append(target)
    return names


def layer_text(layer):
    if layer == "pool":
        return "maxpool: 2"
    if isinstance(layer, tuple):
        return f"conv2d: {{filters: {layer[1]}, kernel: 3, pad: 1}}"
    return layer if isinstance(layer, str) else f"dense: {layer}"


def run_file(case, images, labels):
    lines = ["model:", f"  input: {list(IMAGE)}", "  layers:"]
    lines += [f"    - {layer_text(layer)}" for layer in case["layers"]]
    lines += ["  loss: cross_entropy", "data:", f"  train: {{idx: [{images}, {labels}]}}"]
    lines += ["  scale: 0.00392156862745098", "train:", f"  batch: {case['batch']}", "  epochs: 1000000"]
    lines += [f"  optimizer: {{momentum: {{lr: {case['lr']}, momentum: {MOMENTUM}}}}}", "  checkpoint_seconds: 0"]
    return "\n".join(lines) + "\n"


def training_seconds(summary):
    """Seconds that the updates had the core for: without set-up, files, and what others took of the core."""
    states = summary["per_node"][0]["states"]
    return sum(states[name] for name in ("forward", "backward", "weight", "update", "reduce"))


class Ours:
    """One case, ready to be run again and again."""

    def __init__(self, binary, work, case_name, cpu_clock=False, kernels="auto"):
        self.binary, self.work, self.case, self.cpu_clock = binary, work, CASES[case_name], cpu_clock
        self.kernels = kernels
        os.makedirs(work, exist_ok=True)
        self.file = os.path.join(work, case_name.replace(" ", "-") + ".yaml")
        with open(self.file, "w") as out:
            out.write(run_file(self.case, *plain_data(work)))
        self.updates = 1

    def start(self, cores, threads=1, updates=None):
        out = f"{self.file}-{min(cores)}.out"
        shutil.rmtree(out, ignore_errors=True)
        command = [self.binary, "train", self.file, "--quiet", "--out", out]
        command += ["--set", f"train.threads={threads}", "--set", f"train.updates={updates or self.updates}"]
        command += ["--set", f"train.kernels={self.kernels}"]
        process = subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        process.out = out
        return process

    def finish(self, process):
        """Waits; gives summary.json with the peak memory that the kernel counted."""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(process.args)} failed with status {process.returncode}")
        with open(os.path.join(process.out, "summary.json")) as file:
            summary = json.load(file)
        summary["peak_rss_bytes"] = usage.ru_maxrss * 1024
        return summary

    def run(self, cores, threads=1, updates=None):
        return self.finish(self.start(cores, threads, updates))

    @calm
    def rate(self, cores, threads=1):
        summary = self.run(cores, threads)
        return summary["samples"] / training_seconds(summary) if self.cpu_clock else summary["samples_per_s"]

    def tune(self, cores, seconds):
        """Sets the number of updates so that a run takes about so many seconds; warms up meanwhile."""
        self.updates = 4
        for _ in range(6):
            taken = training_seconds(self.run(cores))
            if taken > seconds / 3:
                break
            self.updates *= 8
        self.updates = max(1, round(self.updates * seconds / taken))

    def first_step(self, cores):
        """Milliseconds from the start of the process to the end of its first update."""
        before = time.monotonic()
        subprocess.run([self.binary, "--version"], stdout=subprocess.DEVNULL, check=True,
                       preexec_fn=lambda: os.sched_setaffinity(0, cores))
        loading = time.monotonic() - before  # of the program itself, which its own clock cannot see
        process = self.start(cores, updates=1)
        self.finish(process)
        with open(os.path.join(process.out, "journal.jsonl")) as file:
            events = [json.loads(line) for line in file]
        return 1e3 * (loading + next(e["since_process_start"] for e in events if e["event"] == "first_step"))

    def memory_needed(self):
        """Bytes of parameters, gradients, momenta, activations of one batch, and the data as stored."""
        channels, height, width = IMAGE
        pixels = channels * height * width
        size, params, activations = pixels, 0, pixels
        for layer in self.case["layers"]:
            if isinstance(layer, int):
                params += size * layer + layer
                size = layer
                activations += size
        data = sum(os.path.getsize(name) for name in plain_data(self.work))
        return 4 * (3 * params + self.case["batch"] * activations) + data
