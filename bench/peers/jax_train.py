"""JAX as a peer: the whole training step compiled, buffers donated, batches gathered inside.

Variants: one step per call, or a scan over several (not for convolutions: inside a loop they compile to code
ten times slower); for convolutions channels last or first, and the maximum over windows by reduce_window or by
a reshape (whose gradient compiles to much better code).
"""

import functools
import os
import sys
import time

# One thread: the runner pins the process as well.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
import jax
import jax.numpy as jnp
import numpy
from jax import lax

IMPORTED = time.monotonic()

from common import Batches, main  # noqa: E402
from cases import CASES, IMAGE, MOMENTUM  # noqa: E402


def init(layers, channels_last):
    random = numpy.random.default_rng(1)
    channels, height, width = IMAGE
    params = []
    for layer in layers:
        if layer == "pool":
            height, width = height // 2, width // 2
        elif layer == "flatten":
            channels, height, width = channels * height * width, 1, 1
        elif isinstance(layer, tuple):
            fan_in, filters = channels * 9, layer[1]
            shape = (3, 3, channels, filters) if channels_last else (filters, channels, 3, 3)
            params.append([shape, fan_in, filters])
            channels = filters
        elif layer != "relu":
            params.append([(channels, layer), channels, layer])
            channels = layer
    return [
        (jnp.asarray(random.normal(0, (2 / fan_in) ** 0.5, shape), jnp.float32), jnp.zeros(outputs, jnp.float32))
        for shape, fan_in, outputs in params
    ]


def pool(x, channels_last, by_reshape):
    n, a, b, c = x.shape
    if by_reshape and channels_last:
        return x.reshape(n, a // 2, 2, b // 2, 2, c).max((2, 4))
    if by_reshape:
        return x.reshape(n, a, b // 2, 2, c // 2, 2).max((3, 5))
    window = (1, 2, 2, 1) if channels_last else (1, 1, 2, 2)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")


def forward(layers, channels_last, by_reshape, params, x):
    order = ("NHWC", "HWIO", "NHWC") if channels_last else ("NCHW", "OIHW", "NCHW")
    params = iter(params)
    for layer in layers:
        if layer == "relu":
            x = jax.nn.relu(x)
        elif layer == "pool":
            x = pool(x, channels_last, by_reshape)
        elif layer == "flatten":
            x = x.reshape(x.shape[0], -1)
        elif isinstance(layer, tuple):
            w, b = next(params)
            x = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=order)
            x = x + (b if channels_last else b[:, None, None])
        else:
            w, b = next(params)
            x = x @ w + b
    return x


class Trainer:
    def __init__(self, steps, channels_last, by_reshape, case, images, labels):
        model = functools.partial(forward, case["layers"], channels_last, by_reshape)

        def loss_of(params, x, y):
            logits = model(params, x)
            chosen = jnp.take_along_axis(logits, y[:, None], 1)[:, 0]
            return jnp.mean(jax.nn.logsumexp(logits, 1) - chosen)

        def step(state, indices, images, labels):
            params, momenta = state
            x = images.at[indices].get(mode="promise_in_bounds")
            y = labels.at[indices].get(mode="promise_in_bounds")
            loss, grads = jax.value_and_grad(loss_of)(params, x, y)
            momenta = jax.tree.map(lambda m, g: MOMENTUM * m + g, momenta, grads)
            params = jax.tree.map(lambda p, m: p - case["lr"] * m, params, momenta)
            return (params, momenta), loss

        def several(state, indices, images, labels):
            state, losses = lax.scan(lambda s, i: step(s, i, images, labels), state, indices)
            return state, losses[-1]

        if channels_last:
            images = images.transpose(0, 2, 3, 1)
        self.images, self.labels = jax.device_put(images), jax.device_put(labels)
        params = init(case["layers"], channels_last)
        self.state = (params, jax.tree.map(jnp.zeros_like, params))
        self.compiled = jax.jit(step if steps == 1 else several, donate_argnums=0)
        self.steps, self.batch, self.last = steps, case["batch"], None
        self.batches = Batches(len(labels), case["batch"], numpy.int32)

    def run(self):
        indices = self.batches.take(self.steps)
        if self.steps == 1:
            indices = indices[0]
        self.state, self.last = self.compiled(self.state, indices, self.images, self.labels)
        return self.steps * self.batch

    def wait(self):
        jax.block_until_ready(self.state)

    def loss(self):
        return float(self.last)


def variants(layers):
    made = {}
    if "pool" in layers:
        for order, channels_last in (("NHWC", True), ("NCHW", False)):
            for form, by_reshape in (("reshape", True), ("reduce_window", False)):
                made[f"{order}, pool by {form}"] = functools.partial(Trainer, 1, channels_last, by_reshape)
    else:
        for steps in (1, 16, 64):
            made[f"{steps} steps per call"] = functools.partial(Trainer, steps, False, False)
    return made


if __name__ == "__main__":
    made = variants(CASES[sys.argv[1]]["layers"])
    main("JAX " + jax.__version__, IMPORTED, made, next(iter(made)))
