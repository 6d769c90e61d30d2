#!/usr/bin/env python3
"""Writes the golden files of the messages, and the corpora of their fuzz targets, from the layouts in
docs/protocol.md and without the library: so the two check each other. The values are those of
tests/unit/wire/test_message.c and test_wire_tree.c. Run it from the root of the tree when the protocol changes."""

import pathlib
import struct

golden = pathlib.Path("tests/golden/wire")
corpora = pathlib.Path("fuzz/corpus")


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<H", len(raw)) + raw


def u8(*v):
    return struct.pack(f"<{len(v)}B", *v)


def u16(*v):
    return struct.pack(f"<{len(v)}H", *v)


def u32(*v):
    return struct.pack(f"<{len(v)}I", *v)


def u64(*v):
    return struct.pack(f"<{len(v)}Q", *v)


def f64(*v):
    return struct.pack(f"<{len(v)}d", *v)


# ---- the head ----


def tensor(dtype=0, dims=(), rank=None):
    dims = list(dims)
    return u8(dtype, len(dims) if rank is None else rank) + u32(*(dims + [0] * (4 - len(dims))))


def head(type, flags=0, source=0, run=0, micro=0, update=0, epoch=0, rows=0, value=0.0, tensors=(),
         count=None, reserved=0, magic=b"RTMP", protocol=6):
    tensors = list(tensors)
    return (magic + u16(protocol, type, flags, source) + u32(run) + u64(micro, update) + u32(epoch, rows) + f64(value)
            + u8(len(tensors) if count is None else count, 0, 0, reserved)
            + b"".join(tensors + [tensor()] * (2 - len(tensors))))


heads = {
    "go": head(10, run=0x01020304),
    "forward": head(32, source=3, run=0xdeadbeef, micro=0x1122334455667788, update=70000, epoch=2, rows=128,
                    tensors=[tensor(1, [16, 32, 7, 5]), tensor(2, [16])]),
    "norm": head(64, flags=1, source=1, run=9, update=12, value=0.1),
    "ticket": head(80, run=9, micro=1 << 40),
    "done": head(81, source=7, run=9, micro=12, update=29, rows=32, value=0.75),
    "examples": head(82, run=9, micro=12, tensors=[tensor(1, [8, 3, 5]), tensor(2, [8])]),
    "chunk": head(96, source=2, run=9, micro=70000, update=4096, tensors=[tensor(1, [1024])]),
    "push": head(112, flags=3, source=3, run=9, micro=12, update=11, epoch=2, rows=32, tensors=[tensor(1, [33])]),
    "pull": head(113, flags=5, source=3, run=9, update=12),
    "param": head(114, flags=1, run=9, update=11, epoch=2, tensors=[tensor(1, [33])]),
}

# ---- trees: (line, text), (line, [values]), (line, {key: value}) ----


def tree(value):
    line, content = value
    if isinstance(content, (str, bytes)):
        return u8(1) + u32(line) + text(content)
    if isinstance(content, list):
        return u8(2) + u32(line, len(content)) + b"".join(tree(item) for item in content)
    return u8(3) + u32(line, len(content)) + b"".join(text(key) + tree(item) for key, item in content.items())


job = (1, {
    "model": (2, {
        "input": (2, [(2, "1"), (2, "28"), (2, "28")]),
        "layers": (3, [(4, {"dense": (4, "128")}), (5, "relu"), (6, "")]),
    }),
    "name": (7, "d\u00e9j\u00e0 vu"),
    "empty": (8, []),
    "none": (0, {}),
})

# ---- bodies ----

answer = bytes(range(32))
token = bytes(range(64, 80))
states = f64(*[i + 0.5 for i in range(14)])
row = (u16(3) + f64(10.5, 9.25, 1.75) + states + u64(1000, 50) + u32(4) + u64(1 << 33) + u64(*range(1, 19))
       + u64(*range(21, 39)) + f64(7.0) + u64(2))
bodies = {
    "hello": u8(2) + u16(5, 1) + u32(7) + token + answer + text("0.1.0"),
    "welcome": answer + u32(6, 4, 3) + u64(8 << 30) + text("pi-k\u00fcche") + text("0.1.0") + text("exact-neon")
               + u32(2) + u64(1 << 33) + u32(3, 2) + u64(7) + u32(0, 3),
    "error": u16(4, 2) + text("layer 3 does not fit into 64 MiB"),
    "settle": u16(1, 4) + u32(7, 4) + u16(0, 2) + u16(2, 1) + u16(0, 3) + u16(3, 3),
    "join": u16(2, 1) + u32(65536, 5000) + text("10.0.0.2:7117") + text("pi-k\u00fcche"),
    "joined": u16(2, 1) + f64(0.00025, 117e6),
    "profile": u32(16) + tree(job),
    "profiled": u32(2) + f64(0.001, 0.002, 0.003, 0.0004) + f64(0.0, 1.5, 2e-300, 4.0),
    "assign": u16(1) + u32(7) + u64(1 << 33) + u32(2) + u32(0, 3, 8) + u32(3, 2, 6) + text("master") + text("pi-k\u00fcche") + tree(job),
    "ready": u64(123456789012),
    "metrics": u32(2) + u16(0) + bytes(468) + row,
}

# ---- what a peer should not have sent ----


def nested(depth):
    value = (1, "x")
    for _ in range(depth):
        value = (1, [value])
    return tree(value)


bad_trees = {
    "kind": u8(4) + u32(1),
    "count": u8(2) + u32(1, 0xffffffff),
    "twice": u8(3) + u32(1, 2) + 2 * (text("key") + tree((2, "x"))),
    "deep": nested(64),
    "deepest": nested(63),
    "zero": tree((1, "a\0b")),
    "utf8": tree((1, b"\xff\xfe")),
    "line": u8(1) + u32(0x80000000) + text("x"),
    "long": u8(1) + u32(1) + u16(65535) + b"x",
    "keys": u8(3) + u32(1, 1001) + b"".join(text(str(i)) + tree((1, "")) for i in range(1001)),
}
nan, inf = float("nan"), float("inf")
first_view = u32(1) + u64(0)
bad = {
    "hello": {"role": u8(7) + u16(0, 0) + u32(1) + token + answer + text("x"),
              "offer": u8(3) + u16(0, 7117) + u32(1) + token + answer + text("0.1.0"),
              "from": u8(1) + u16(3, 0) + u32(1) + token + answer + text("x"),
              "long": u8(2) + u16(3, 0) + u32(1) + token + answer + text("x" * 401),
              "control": u8(2) + u16(3, 0) + u32(1) + token + answer + text("\x1b[2J"),
              "view": u8(2) + u16(5, 1) + u32(0) + token + answer + text("0.1.0")},
    "welcome": {"cores": answer + u32(0, 0xffffffff, 1) + u64(0) + 3 * text("x"),
                "holdings": answer + u32(0, 1, 1) + u64(0) + 3 * text("x") + u32(9) + 9 * (u64(1) + u32(0, 1)),
                "few": answer + u32(0, 1, 1) + u64(0) + 3 * text("x") + u32(2) + u64(1) + u32(0, 1),
                "layers": answer + u32(0, 1, 1) + u64(0) + 3 * text("x") + u32(1) + u64(1) + u32(65535, 2),
                "no_layers": answer + u32(0, 1, 1) + u64(0) + 3 * text("x") + u32(1) + u64(1) + u32(3, 0),
                "utf8": answer + u32(0, 1, 1) + u64(0) + text("x") + text(b"\xc3") + text("x")},
    "error": {"lost": u16(6, 1) + text("node 3 is gone"), "status": u16(0, 1) + text("fine"), "unknown": u16(99, 1) + text("what"),
              "node": u16(4, 1024) + text("x")},
    "settle": {"master": u16(0, 4) + u32(1, 1) + u16(1, 1), "beyond": u16(4, 4) + u32(1, 1) + u16(1, 1),
               "count": u16(1, 4) + u32(1, 0xffffffff), "few": u16(1, 4) + u32(1, 2) + u16(0, 3),
               "none": u16(1, 4) + u32(1, 0), "view": u16(1, 4) + u32(0, 1) + u16(0, 3),
               "self": u16(1, 4) + u32(1, 1) + u16(1, 3), "peer": u16(1, 4) + u32(1, 1) + u16(4, 3),
               "label": u16(1, 4) + u32(1, 1) + u16(2, 4), "nexts": u16(1, 4) + u32(1, 2) + u16(2, 1) + u16(3, 1),
               "twice": u16(1, 4) + u32(1, 2) + u16(2, 3) + u16(2, 3),
               "both": u16(1, 2) + u32(1, 3) + u16(0, 1) + u16(0, 2) + u16(0, 3)},
    "join": {"node": u16(1024, 1) + u32(0, 1) + text("a:1") + text("a"), "nobody": u16(0, 0) + u32(0, 0) + text("") + text(""),
             "probe": u16(2, 1) + u32(0xffffffff, 0) + text("a:1") + text("a"), "long": u16(2, 1) + u32(0, 1) + text("a:1") + text("x" * 81),
             "control": u16(2, 1) + u32(0, 1) + text("a:1") + text("\x1b[2J")},
    "joined": {"nan": u16(2, 1) + f64(nan, 1), "infinite": u16(2, 1) + f64(0, inf), "negative": u16(2, 1) + f64(-1, 1)},
    "profile": {"rows": u32(0) + tree(job)} | {name: u32(1) + t for name, t in bad_trees.items() if name in ("deep", "count")},
    "profiled": {"count": u32(0xffffffff), "layers": u32(65537) + bytes(64), "few": u32(3) + bytes(64),
                 "none": u32(0), "nan": u32(1) + f64(1, 1, 1, nan)},
    "assign": {"index": u16(2) + first_view + u32(2) + bytes(24) + 2 * text("a") + tree(job),
               "nodes": u16(0) + first_view + u32(1025) + bytes(40),
               "layers": u16(0) + first_view + u32(1) + u32(65536, 1, 1) + text("a") + tree(job),
               "no_job": u16(0) + first_view + u32(1) + u32(0, 1, 1) + text("a"),
               "no_names": u16(0) + first_view + u32(1) + u32(0, 1, 1) + tree(job),
               "long": u16(0) + first_view + u32(1) + u32(0, 1, 1) + text("x" * 81) + tree(job),
               "control": u16(0) + first_view + u32(1) + u32(0, 1, 1) + text("two\nlines") + tree(job),
               "view": u16(1) + u32(0) + u64(0) + u32(2) + bytes(24) + 2 * text("a") + tree(job)},
    "ready": {"long": bytes(9)},
    "metrics": {"count": u32(0xffffffff) + row, "few": u32(2) + row, "none": u32(0), "nan": u32(1) + u16(1) + f64(nan) + bytes(460),
                "node": u32(1) + u16(5000) + bytes(468)},
}
bad_heads = {
    "magic": head(10, magic=b"HTTP"), "protocol": head(10, protocol=7), "type": head(999), "flags": head(32, flags=2),
    "reserved": head(10, reserved=1), "source": head(10, source=1024), "value": head(10, value=1.0), "rows": head(48, rows=1),
    "norm_nan": head(64, value=nan), "count": head(32, count=3), "uncounted": head(32, tensors=[tensor(1, [4])], count=0),
    "dtype": head(32, tensors=[tensor(3, [4])]), "rank": head(32, tensors=[tensor(1, [4], rank=5)]),
    "dims": head(32, tensors=[tensor(1, [4, 4], rank=1)]),
    "overflow": head(32, tensors=[tensor(1, [0x10000, 0x10000, 0x10000, 0x10000])]),
    "large": head(32, tensors=[tensor(1, [1 << 28]), tensor(1, [1])]),
    "ticket_body": head(80, tensors=[tensor(1, [1])]), "pull_rows": head(113, rows=1), "pull_ask": head(113, flags=2), "chunk_last": head(96, flags=1),
    "param_rows": head(114, rows=1), "done_nan": head(81, value=nan), "ticket_value": head(80, value=1.0),
    "empty": head(66, tensors=[tensor(1, [0, 0xffffffff, 0xffffffff])]), "text": b"GET / HTTP/1.1\r\n\r\n",
}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


for name, content in heads.items():
    write(golden / f"head_{name}.bin", content)
for name, content in (bodies | {"tree": tree(job)}).items():
    write(golden / f"{name}.bin", content)

# The first 4 bytes of an input for the head are the length of the body.
sizes = {"forward": 4 * 16 * 32 * 7 * 5 + 4 * 16, "examples": 4 * 8 * 15 + 4 * 8, "chunk": 4096, "push": 132,
         "param": 132}
for name, content in (heads | bad_heads).items():
    write(corpora / "fuzz_message_head" / name, u32(sizes.get(name, 0)) + content)
for name, content in bodies.items():
    folder = corpora / f"fuzz_message_{name}"
    write(folder / "good", content)
    write(folder / "cut", content[:-1])
    write(folder / "left_over", content + b"\0")
    for case, wrong in bad[name].items():
        write(folder / case, wrong)
write(corpora / "fuzz_message_tree" / "good", tree(job))
for name, content in bad_trees.items():
    write(corpora / "fuzz_message_tree" / name, content)
