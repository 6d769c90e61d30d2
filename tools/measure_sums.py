#!/usr/bin/env python3
"""How accurate long sums of the exact arithmetic are: measure_sums.py [RINGTMP]. Prints the table in docs/exactness.md.

One update of a convolution with a 1 x 1 kernel, zero at first, on pictures of random bytes that it should reproduce (mse), at a rate
of 1: so the weight becomes 2 sum x^2 / n, and the bias 2 sum x / n, over all n pixels of the batch, and x = byte / 256 has no
rounding. All terms are positive, which is the worst case for a sum. The same sum in integers is the reference."""
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

RUN = """
model: {input: [1, SIDE, SIDE], layers: [{conv2d: {filters: 1, kernel: 1, init: zeros}}], loss: mse}
data: {train: {idx: pictures.idx}, target: input, scale: 0.00390625}
train: {batch: IMAGES, shards: SHARDS, updates: 1, epochs: 1, optimizer: {sgd: {lr: 1}}}
"""
ringtmp = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/ringtmp").resolve())


def measure(side, images, shards):
    pixels = random.Random(1).randbytes(images * side * side)
    counts = [pixels.count(value) for value in range(256)]
    exact = (2 * sum(v * v * c for v, c in enumerate(counts)) / 65536 / len(pixels),
             2 * sum(v * c for v, c in enumerate(counts)) / 256 / len(pixels))
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "pictures.idx").write_bytes(struct.pack(">4i", 0x803, images, side, side) + pixels)
        run = RUN.replace("SIDE", str(side)).replace("IMAGES", str(images)).replace("SHARDS", str(shards))
        (work / "run.yaml").write_text(run)
        subprocess.run([ringtmp, "train", "run.yaml", "--out", "out", "--quiet"], cwd=work, check=True)
        model = (work / "out" / "model.safetensors").read_bytes()
    found = struct.unpack_from("<2f", model, 8 + struct.unpack_from("<Q", model)[0])
    return [abs(a - b) / b for a, b in zip(found, exact)]


print("64 pictures of   shards 1            4                   16                  64      (weight, bias)")
for side in (28, 56, 112, 224):
    errors = [measure(side, 64, shards) for shards in (1, 4, 16, 64)]
    print(f"{side:4} x {side:<9}" + "".join(f"{weight:8.0e}, {bias:.0e}    " for weight, bias in errors))
