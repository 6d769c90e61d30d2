#!/usr/bin/env python3
"""Draws docs/delay.svg: the least time that an exchange takes, by strategy, from our cost functions.

    tools/plot_delays.py build/tests/test_delay >docs/delay.svg
"""

import math
import os
import subprocess
import sys

LINKS = {1.25e8: "1 Gbit/s", 1.25e9: "10 Gbit/s", 7e9: "56 Gbit/s"}
LINES = {  # strategy, servers: label, colour, dashes
    ("ps-sync", 1): ("ps-sync", "#b5402d", ""),
    ("ps-shard", 4): ("ps-shard, k=4", "#b5402d", "6 3"),
    ("ps-tree", 1): ("ps-tree", "#a8761b", ""),
    ("ps-scatter", 1): ("ps-scatter", "#5b8a3a", ""),
    ("ps-async", 1): ("ps-async", "#7a4fa3", ""),
    ("ps-shard base=async", 4): ("ps-shard, k=4, base=async", "#7a4fa3", "6 3"),
    ("allreduce-rd", 0): ("allreduce-rd", "#33639c", "2 3"),
    ("allreduce-ring", 0): ("allreduce-ring", "#33639c", ""),
}
MOST, LEFT, TOP, WIDTH, HEIGHT, GAP = 32, 64, 44, 250, 190, 34


def read(program):
    table = {}
    text = subprocess.run([program, "the_golden_table"], check=True, env={**os.environ, "RT_DELAYS": "1"}, text=True,
                          stdout=subprocess.PIPE).stdout
    for line in text.splitlines():
        if not line.startswith("delay,"):
            continue
        _, model, link, strategy, servers, workers, milliseconds, compute = line.split(",")
        panel = table.setdefault((model, float(link)), {"compute": float(compute), "lines": {}})
        panel["lines"].setdefault((strategy, int(servers)), []).append((int(workers), float(milliseconds)))
    return table


def draw(panel, x, y, lowest, highest):
    def at(workers, milliseconds):
        right = math.log2(workers) / math.log2(MOST)
        up = (math.log10(milliseconds) - lowest) / (highest - lowest)
        return f"{x + right * WIDTH:.1f},{y + (1 - up) * HEIGHT:.1f}"

    yield f'<rect class="frame" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}"/>'
    for power in range(math.ceil(lowest), math.floor(highest) + 1):
        _, height = at(1, 10**power).split(",")
        yield f'<path class="grid" d="M{x} {height}h{WIDTH}"/>'
        label = f"{10**power / 1000:g} s" if power >= 3 else f"{10**power:g} ms"
        yield f'<text class="tick" x="{x - 6}" y="{float(height) + 4:.1f}" text-anchor="end">{label}</text>'
    for workers in (1, 2, 4, 8, 16, 32):
        right, _ = at(workers, 10**lowest).split(",")
        yield f'<text class="tick" x="{right}" y="{y + HEIGHT + 15}" text-anchor="middle">{workers}</text>'
    for key, points in panel["lines"].items():
        _, colour, dashes = LINES[key]
        yield (f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dashes}" points="'
               + " ".join(at(*point) for point in points) + '"/>')
    yield f'<path class="compute" d="M{at(1, panel["compute"])} L{at(MOST, panel["compute"])}"/>'


def main():
    table = read(sys.argv[1])
    models = list(dict.fromkeys(model for model, _ in table))
    width, bottom = LEFT + 3 * WIDTH + 2 * (GAP + 26) + 20, TOP + 3 * HEIGHT + 2 * (GAP + 22) + 34
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 104}" role="img" aria-label="The least time '
          'that an exchange of the whole model takes, by strategy, number of workers, model and link">')
    print("<style>text{font-family:Helvetica,Arial,sans-serif;fill:#1c2733}.title{font-size:12px;font-weight:bold}"
          ".tick,.key{font-size:11px}.frame{fill:#fff;stroke:#6d7b8a}.grid{stroke:#dde3ea;fill:none}"
          ".compute{stroke:#1c2733;stroke-width:1.4;stroke-dasharray:1 3;fill:none}</style>")
    print(f'<rect fill="#ffffff" x="0" y="0" width="{width}" height="{bottom + 104}"/>')
    for column, model in enumerate(models):
        values = [value for (name, _), panel in table.items() if name == model for line in panel["lines"].values()
                  for _, value in line]
        lowest, highest = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
        for row, link in enumerate(LINKS):
            x, y = LEFT + column * (WIDTH + GAP + 26), TOP + row * (HEIGHT + GAP + 22)
            print(f'<text class="title" x="{x}" y="{y - 8}">{model}, {LINKS[link]}</text>')
            print("\n".join(draw(table[model, link], x, y, lowest, highest)))
    print(f'<text class="tick" x="{width / 2}" y="{bottom + 4}" text-anchor="middle">workers</text>')
    for i, (label, colour, dashes) in enumerate([*LINES.values(), ("computing one update", "#1c2733", "1 3")]):
        x, y = LEFT + i % 4 * 215, bottom + 34 + i // 4 * 24
        print(f'<path d="M{x} {y - 4}h26" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
              f'<text class="key" x="{x + 32}" y="{y}">{label}</text>')
    print("</svg>")


if __name__ == "__main__":
    main()
