"""compare.py MODEL OTHER LIMIT: the largest difference between two model files' numbers; fails when it is above."""
import json
import struct
import sys


def numbers(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    found = {}
    for name, tensor in head.items():
        first, end = tensor["data_offsets"]
        body = data[8 + size + first:8 + size + end]
        found[name] = struct.unpack("<%df" % (len(body) // 4), body)
    return found


one, other = numbers(sys.argv[1]), numbers(sys.argv[2])
if {name: len(values) for name, values in one.items()} != {name: len(values) for name, values in other.items()}:
    sys.exit("the files have other tensors")
most = max(abs(a - b) for name in one for a, b in zip(one[name], other[name]))
if not most <= float(sys.argv[3]):
    sys.exit("a number differs by %g" % most)
