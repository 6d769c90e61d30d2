"""The layout of weights as docs/outputs.md has it, without the library: layout.py file.safetensors inputs outputs reads a model file,
computes what it should predict from the shapes in that table alone, and compares. layout.py --start file writes the parameters of a
small network of PyTorch's as its conversion does; with torch installed, torch itself says what they mean."""
import json
import math
import random
import struct
import sys


def load(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    meta = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        tensors[name] = entry["shape"], struct.unpack(f"<{(last - first) // 4}f", data[first:last])
    return meta, tensors


def save(path, tensors, meta):
    header, data = {"__metadata__": meta}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def dense(x, get):
    (inputs, units), w = get("weight")
    b = get("bias")[1]
    return [b[u] + sum(x[i] * w[i * units + u] for i in range(inputs)) for u in range(units)]


def conv2d(x, shape, get, groups, pad):
    (filters, per_group, kh, kw), w = get("weight")
    b = get("bias")[1]
    channels, height, width = shape
    out_h, out_w = height + 2 * pad - kh + 1, width + 2 * pad - kw + 1
    out = []
    for f in range(filters):
        first = f // (filters // groups) * per_group
        for row in range(out_h):
            for column in range(out_w):
                total = b[f]
                for c in range(per_group):
                    for i in range(kh):
                        for j in range(kw):
                            r, s = row + i - pad, column + j - pad
                            if 0 <= r < height and 0 <= s < width:
                                total += (x[((first + c) * height + r) * width + s] *
                                          w[((f * per_group + c) * kh + i) * kw + j])
                out.append(total)
    return out, [filters, out_h, out_w]


def batchnorm(x, shape, get):
    size = len(x) // shape[0]
    weight, bias, mean, var = (get(name)[1] for name in ("weight", "bias", "running_mean", "running_var"))
    return [(v - mean[i // size]) / math.sqrt(var[i // size] + 1e-5) * weight[i // size] + bias[i // size]
            for i, v in enumerate(x)]


def layernorm(x, shape, get):
    assert get("weight")[0] == shape
    mean = sum(x) / len(x)
    var = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(var + 1e-5) * w + b for v, w, b in zip(x, get("weight")[1], get("bias")[1])]


def run(layers, prefix, tensors, x, shape):
    for number, layer in enumerate(layers):
        name, options = (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))
        options = options if isinstance(options, (dict, list)) else {}
        get = lambda which, at=f"{prefix}{number}.": tensors[at + which]
        if name == "dense":
            x = dense(x, get)
            shape = [len(x)]
        elif name == "conv2d":
            x, shape = conv2d(x, shape, get, options.get("groups", 1), options.get("pad", 0))
        elif name == "batchnorm":
            x = batchnorm(x, shape, get)
        elif name == "layernorm":
            x = layernorm(x, shape, get)
        elif name == "residual":
            inner, shape = run(options, f"{prefix}{number}.", tensors, x, shape)
            x = [a + b for a, b in zip(x, inner)]
        elif name == "tanh":
            x = [math.tanh(v) for v in x]
        elif name == "flatten":
            shape = [len(x)]
        else:
            sys.exit(f"layout.py does not know {name}")
    return x, shape


def compare(model, inputs, outputs):
    meta, tensors = load(model)
    description = json.loads(meta["model"])
    rows = [[float(v) for v in line.split(",")] for line in open(inputs)]
    said = [[float(v) for v in line.split()] for line in open(outputs)]
    assert len(rows) == len(said) > 0
    for row, answer in zip(rows, said):
        own, _ = run(description["layers"], "", tensors, row, description["input"])
        assert len(own) == len(answer)
        for a, b in zip(own, answer):
            assert abs(a - b) < 1e-4 * (1 + abs(a)), f"ringtmp says {b}, the table {a}"


def start(path, inputs, outputs):
    """Sequential(Linear(3, 3), Tanh(), Linear(3, 2)) as PyTorch has it: y = x W^T + b."""
    draw = random.Random(1)
    linear = {0: (3, 3), 2: (3, 2)}
    weight = {n: [[draw.uniform(-1, 1) for _ in range(i)] for _ in range(o)] for n, (i, o) in linear.items()}
    bias = {n: [draw.uniform(-1, 1) for _ in range(o)] for n, (i, o) in linear.items()}

    def apply(n, x):
        return [bias[n][o] + sum(w * v for w, v in zip(weight[n][o], x)) for o in range(len(bias[n]))]

    rows = [[draw.uniform(-1, 1) for _ in range(3)] for _ in range(5)]
    answers = [apply(2, [math.tanh(v) for v in apply(0, row)]) for row in rows]
    try:
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        net.load_state_dict({f"{n}.{k}": torch.tensor(v[n]) for n in linear for k, v in (("weight", weight), ("bias", bias))})
        answers = net(torch.tensor(rows)).tolist()
    except ImportError:
        pass
    for turned in (True, False):
        tensors = {}
        for n, (i, o) in linear.items():
            flat = [weight[n][u][v] for v in range(i) for u in range(o)] if turned else sum(weight[n], [])
            tensors[f"{n}.weight"] = ([i, o] if turned else [o, i]), flat
            tensors[f"{n}.bias"] = [o], bias[n]
        save(path if turned else "plain-" + path, tensors, {"format": "pt"})
    open(inputs, "w").writelines(",".join(map(repr, row)) + "\n" for row in rows)
    open(outputs, "w").writelines(" ".join(map(repr, row)) + "\n" for row in answers)


def close(a, b):
    for x, y in zip(open(a).read().split(), open(b).read().split(), strict=True):
        assert abs(float(x) - float(y)) < 1e-4, f"{x} and {y}"


{"compare": compare, "start": start, "close": close}[sys.argv[1]](*sys.argv[2:])
