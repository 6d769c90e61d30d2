#!/usr/bin/python3
"""Makes tests/numeric/golden/*.txt: outputs, losses, gradients and updated parameters from PyTorch in float64.

Needs Debian's python3-torch; run from the root of the repository. tests/numeric/test_parity.c compares.
Inputs and parameters are not stored: both sides draw them with the same small generator (tests/numeric/rig.h).
"""
import json

import numpy
import torch
from torch.nn import functional as F

SEED, EPOCH = 5, 2  # of the pass; they key dropout's masks
torch.set_default_dtype(torch.float64)


# ---- what tests/numeric/rig.h does --------------------------------------------------------------------------


def fill(seed, factor, n):
    values = []
    for _ in range(n):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        values.append(((seed >> 16) - 32768) / 32768 * factor)
    return torch.tensor(values)


def spread(seed, n):
    one = numpy.float32
    values = [(one(i) + one(0.5)) * (one(4) / one(n)) - one(2) for i in range(n)]
    for i in range(n, 1, -1):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        j = (seed >> 8) % i
        values[i - 1], values[j] = values[j], values[i - 1]
    return torch.tensor([float(v) for v in values])


def random_block(seed, purpose, stream, a, b):
    """Philox 4x32-10, as src/base/rng.c."""
    mask = 0xFFFFFFFF
    counter = [a & mask, a >> 32, b, stream]
    key = [seed & mask, (seed >> 32) ^ (purpose << 24)]
    for _ in range(10):
        left, right = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (right >> 32) ^ counter[1] ^ key[0],
            right & mask,
            (left >> 32) ^ counter[3] ^ key[1],
            left & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return counter


def dropout_mask(shape, layer, rate):
    rows, n = shape[0], int(numpy.prod(shape[1:]))
    keep = 1.0 - rate
    mask = torch.zeros(rows, n)
    for row in range(rows):
        example = 100 + 7 * row
        for i in range(n):
            word = random_block(SEED, 3, layer, (EPOCH << 32) | example, i // 4)[i % 4]
            mask[row, i] = 1 / keep if word < int(keep * 2**32) else 0
    return mask.reshape(shape)


# ---- the layers ---------------------------------------------------------------------------------------------


class Model:
    """Runs a list of layers on the parameters of one flat block, in the order of the block."""

    def __init__(self, layers, block=None):
        self.layers, self.block, self.buffers = layers, block, []

    def take(self, *shape):
        n = int(numpy.prod(shape))
        if self.block is None:  # only counting
            self.at += n
            return torch.zeros(shape)
        self.at += n
        return self.block[self.at - n : self.at].reshape(shape)

    def run(self, x, training=True):
        self.at, self.index, self.buffer_at, self.training = 0, 0, 0, training
        return self.run_list(self.layers, x)

    def run_list(self, layers, x):
        for spec in layers:
            name, options = (spec, {}) if isinstance(spec, str) else next(iter(spec.items()))
            index = self.index
            self.index += 1
            x = getattr(self, name)(x, options, index)
        return x

    def dense(self, x, o, _):
        o = o if isinstance(o, dict) else {"units": o}
        y = x @ self.take(x.shape[1], o["units"])
        return y + self.take(o["units"]) if o.get("bias", True) else y

    def conv2d(self, x, o, _):
        kernel, groups = o.get("kernel", 3), o.get("groups", 1)
        high, wide = o.get("kernel_h", kernel), o.get("kernel_w", kernel)
        pad = kernel // 2 if o.get("pad") == "same" else o.get("pad", 0)
        weight = self.take(o["filters"], x.shape[1] // groups, high, wide)
        bias = self.take(o["filters"]) if o.get("bias", True) else None
        return F.conv2d(x, weight, bias, stride=o.get("stride", 1), padding=pad, groups=groups)

    @staticmethod
    def window(o):
        o = o if isinstance(o, dict) else {"kernel": o}
        return dict(kernel_size=o["kernel"], stride=o.get("stride", o["kernel"]), padding=o.get("pad", 0))

    def maxpool(self, x, o, _):
        return F.max_pool2d(x, **self.window(o))

    def avgpool(self, x, o, _):
        return F.avg_pool2d(x, **self.window(o), count_include_pad=False)

    def global_avgpool(self, x, _, __):
        return x.mean(dim=(2, 3))

    def flatten(self, x, _, __):
        return x.flatten(1)

    def relu(self, x, _, __):
        return F.relu(x)

    def leaky_relu(self, x, o, _):
        return F.leaky_relu(x, o or 0.01)

    def elu(self, x, o, _):
        return F.elu(x, o or 1.0)

    def gelu(self, x, _, __):
        return F.gelu(x)

    def sigmoid(self, x, _, __):
        return torch.sigmoid(x)

    def tanh(self, x, _, __):
        return torch.tanh(x)

    def softmax(self, x, _, __):
        return F.softmax(x, dim=1)

    def dropout(self, x, rate, index):
        return x * dropout_mask(x.shape, index, rate) if self.training else x

    def batchnorm(self, x, _, __):
        n = x.shape[1]
        weight, bias = self.take(n), self.take(n)
        if len(self.buffers) == self.buffer_at:
            self.buffers += [torch.zeros(n), torch.ones(n)]
        mean, var = self.buffers[self.buffer_at : self.buffer_at + 2]
        self.buffer_at += 2
        return F.batch_norm(x, mean, var, weight, bias, training=self.training, momentum=0.1, eps=1e-5)

    def layernorm(self, x, _, __):
        shape = x.shape[1:]
        return F.layer_norm(x, shape, self.take(*shape), self.take(*shape), eps=1e-5)

    def residual(self, x, layers, _):
        return x + self.run_list(layers, x)


def losses(name, y):
    """One loss per row."""
    rows, width = y.shape[0], y[0].numel()
    if name == "cross_entropy":
        return F.cross_entropy(y, torch.arange(rows) % width, reduction="none")
    values = (fill(14, 0.5, rows * width) + 0.5).reshape(y.shape)
    function = F.mse_loss if name == "mse" else F.binary_cross_entropy_with_logits
    return function(y, values, reduction="none").flatten(1).mean(1)


# ---- the cases ----------------------------------------------------------------------------------------------

LAYERS = [
    ("dense", [5], 4, None, [{"dense": 3}]),
    ("dense-no-bias", [7], 18, None, [{"dense": {"units": 4, "bias": False}}]),
    ("conv2d", [2, 6, 5], 3, None, [{"conv2d": {"filters": 3, "kernel": 3, "pad": 1}}]),
    ("conv2d-groups", [4, 6, 5], 2, None,
     [{"conv2d": {"filters": 6, "kernel_h": 3, "kernel_w": 2, "stride": 2, "pad": 1, "groups": 2}}]),
    ("conv2d-depthwise", [3, 5, 5], 3, None,
     [{"conv2d": {"filters": 3, "kernel": 3, "pad": "same", "groups": 3, "bias": False}}]),
    ("maxpool", [2, 6, 6], 2, None, [{"maxpool": 2}]),
    ("maxpool-overlap", [2, 5, 6], 2, None, [{"maxpool": {"kernel": 3, "stride": 2, "pad": 1}}]),
    ("avgpool", [2, 6, 6], 2, None, [{"avgpool": 2}]),
    ("avgpool-overlap", [2, 5, 6], 2, None, [{"avgpool": {"kernel": 3, "stride": 2, "pad": 1}}]),
    ("global_avgpool", [3, 4, 5], 3, None, ["global_avgpool"]),
    ("flatten", [2, 2, 3], 3, None, ["flatten"]),
    ("relu", [12], 4, None, ["relu"]),
    ("leaky_relu", [12], 4, None, [{"leaky_relu": 0.2}]),
    ("elu", [12], 4, None, [{"elu": 0.7}]),
    ("gelu", [12], 4, None, ["gelu"]),
    ("sigmoid", [12], 4, None, ["sigmoid"]),
    ("tanh", [12], 4, None, ["tanh"]),
    ("softmax", [12], 4, None, ["softmax"]),
    ("dropout", [10], 4, None, ["tanh", {"dropout": 0.4}]),
    ("batchnorm", [6], 5, None, ["batchnorm"]),
    ("batchnorm-images", [3, 4, 3], 4, None, ["batchnorm"]),
    ("layernorm", [9], 4, None, ["layernorm"]),
    ("layernorm-images", [2, 3, 3], 3, None, ["layernorm"]),
    ("residual", [6], 4, None, [{"residual": [{"dense": 5}, "tanh", {"dense": 6}]}]),
    ("residual-nested", [4], 4, None,
     [{"dense": 5}, {"residual": [{"residual": [{"dense": 5}, "gelu"]}, {"dropout": 0.25}, {"dense": 5}]}, "relu"]),
    ("cross_entropy", [5], 6, "cross_entropy", [{"dense": 4}]),
    ("mse", [5], 6, "mse", [{"dense": 4}, "tanh"]),
    ("bce", [5], 6, "bce", [{"dense": 3}]),
    ("bce-one", [5], 6, "bce", [{"dense": 1}]),
    ("mlp", [20], 16, "cross_entropy", [{"dense": 16}, "relu", {"dense": 12}, "leaky_relu", {"dense": 5}]),
    ("cnn", [1, 10, 10], 5, "cross_entropy",
     [{"conv2d": {"filters": 4, "kernel": 3}}, "relu", {"maxpool": 2}, {"conv2d": {"filters": 6, "kernel": 3}},
      "batchnorm", "elu", "flatten", {"dense": 8}, "tanh", {"dropout": 0.2}, {"dense": 4}]),
]

NET = ([6], 12, [{"dense": 8}, "tanh", {"dense": 3}])
STEPS = 10

OPTIMIZERS = [
    ("sgd", torch.optim.SGD, {"lr": 0.5}, {}),
    ("momentum", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, {}),
    ("nesterov", torch.optim.SGD, {"lr": 0.1, "momentum": 0.8}, {"nesterov": True}),
    ("adagrad", torch.optim.Adagrad, {"lr": 0.05}, {}),
    ("adam", torch.optim.Adam, {"lr": 0.01}, {}),
    ("adamw", torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.0}, {}),
]


def numbers(key, tensor):
    values = tensor.detach().flatten().tolist()
    return f"{key} {len(values)} " + " ".join(f"{v:.8g}" for v in values) + "\n"


def header(name, shape, layers, rows, loss):
    return (f"case {name}\ninput {json.dumps(shape)}\nlayers {json.dumps(layers)}\nrows {rows}\n"
            f"loss {loss or '-'}\n")


def count_params(shape, layers):
    counter = Model(layers)
    counter.run(torch.rand([2] + shape))
    return counter.at


def layer_case(name, shape, rows, loss, layers):
    size = rows * int(numpy.prod(shape))
    params = fill(11, 0.5, count_params(shape, layers)).requires_grad_()
    model = Model(layers, params)
    x = spread(12, size).reshape([rows] + shape).requires_grad_()
    y = model.run(x)
    text = header(name, shape, layers, rows, loss) + numbers("y", y)
    if loss:
        per_row = losses(loss, y)
        per_row.mean().backward()
        text += numbers("losses", per_row)
    else:
        (y * fill(13, 1, y.numel()).reshape(y.shape)).sum().backward()
    text += numbers("dx", x.grad)
    if params.numel():
        text += numbers("grads", params.grad)
    if model.buffers:
        text += numbers("buffers", torch.cat(model.buffers))
    if "dropout" in json.dumps(layers) or model.buffers:
        text += numbers("inference", model.run(x, training=False))
    return text


def optimizer_case(name, make, options, extra, clip):
    shape, rows, layers = NET
    params = fill(11, 0.5, count_params(shape, layers)).requires_grad_()
    x = spread(12, rows * shape[0]).reshape([rows] + shape)
    optimizer = make([params], **options, **extra)
    steps = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = losses("cross_entropy", Model(layers, params).run(x)).mean()
        loss.backward()
        if clip:
            norm = torch.nn.utils.clip_grad_norm_([params], clip)
            assert norm > clip, "clipping must have something to clip"
        optimizer.step()
        steps.append(loss.item())
    label = name + ("-decay" if options.get("weight_decay") else "") + ("-clip" if clip else "")
    return (header(label, shape, layers, rows, "cross_entropy") + f"optimizer {json.dumps({name: options})}\n"
            f"clip {clip}\nsteps {STEPS}\n" + numbers("losses", torch.tensor(steps)) + numbers("params", params))


def main():
    about = f"# Made by tools/make_golden.py with PyTorch {torch.__version__} in float64.\n"
    with open("tests/numeric/golden/layers.txt", "w") as file:
        file.write(about)
        for case in LAYERS:
            file.write(layer_case(*case))
    with open("tests/numeric/golden/optimizers.txt", "w") as file:
        file.write(about)
        for name, make, options, extra in OPTIMIZERS:
            decay = {**options, "weight_decay": 0.03}
            file.write(optimizer_case(name, make, options, extra, 0))
            file.write(optimizer_case(name, make, decay, extra, 0))
            file.write(optimizer_case(name, make, decay, extra, 0.1))


if __name__ == "__main__":
    main()
