"""The training cases of the benchmark: one description, read by the runner and by every peer.

A model is a list of layers: an int is a dense layer, ("conv", filters) a 3x3 convolution with padding 1,
"relu", "pool" (2x2 maximum) and "flatten" are themselves. The bar is the least ratio ours / best peer.
Batch 1 takes a smaller step: at 0.05 with momentum 0.9 single examples make every framework diverge.
"""

DATA_DIR = "/usr/share/datasets/fashion-mnist"
MOMENTUM = 0.9
IMAGE = (1, 28, 28)


def mlp(*widths):
    layers = ["flatten"]
    for width in widths:
        layers += [width, "relu"]
    return layers[:-1]


CNN = [("conv", 32), "relu", "pool", ("conv", 64), "relu", "pool", "flatten", 128, "relu", 10]

CASES = {
    "mlp-128-64 batch 32": {"layers": mlp(128, 64, 10), "batch": 32, "lr": 0.05, "bar": 1.3},
    "mlp-128-64 batch 1": {"layers": mlp(128, 64, 10), "batch": 1, "lr": 0.001, "bar": 1.2},
    "mlp-512-512 batch 64": {"layers": mlp(512, 512, 10), "batch": 64, "lr": 0.05, "bar": 1.1},
    "mlp-2048x3 batch 128": {"layers": mlp(2048, 2048, 2048, 10), "batch": 128, "lr": 0.05, "bar": 1.1},
    "cnn-32-64-128 batch 64": {"layers": CNN, "batch": 64, "lr": 0.05, "bar": 1.3},
}
