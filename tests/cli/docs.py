"""What the documentation shows, for test_docs.sh, as files in the current directory: docs.py ROOT RINGTMP.

programs/*.c     blocks of C that have a main: they claim to be complete
scripts/*.py     blocks of Python
blocks/*.yaml    blocks of YAML whose keys are sections of a run file; sections that are missing are added
sources          a line for each source in a block of YAML: "page: {csv: ...}"
commands         a line for each `ringtmp train` or `plan` with settings: the page and these, with tabs between; an option that a
                 command's --help does not have is a failure here
Also writes pictures of noise under the names that the pages use, and rows for a stream."""
import gzip
import pathlib
import random
import re
import shlex
import struct
import subprocess
import sys

root, ringtmp = pathlib.Path(sys.argv[1]), sys.argv[2]
pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
wrong = []

PICTURES = "model: {input: [1, 28, 28], layers: [flatten, {dense: 16}, relu, {dense: 16}, relu, {dense: 10}], " \
    "loss: cross_entropy}\n"
MISSING = {
    "model": PICTURES,
    "data": "data: {train: {idx: [train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz]}}\n",
    "train": "train: {batch: 8}\n",
}
OF_A_STREAM = {"model": "model: {input: 2, layers: [{dense: 2}], loss: cross_entropy}\n", "train": "train: {batch: 4}\n"}


def write(kind, page, ending, text):
    folder = pathlib.Path(kind)
    folder.mkdir(exist_ok=True)
    (folder / f"{page.stem}-{len(list(folder.iterdir()))}.{ending}").write_text(text)


def whole_run(text):
    """The text as a run file; None where it is none."""
    keys = re.findall(r"^(\w+):", text, re.M)
    if not keys or not set(keys) <= {"name", "model", "data", "train", "cluster"}:
        return None
    for key, section in (OF_A_STREAM if "stream:" in text else MISSING).items():
        text += "" if key in keys else section
    return text


helps = {}


def takes_value(command, option):
    """Whether an option wants a word after it; None: there is no such option."""
    if command not in helps:
        helps[command] = subprocess.run([ringtmp, command, "--help"], capture_output=True, text=True).stdout
    found = re.search(rf"^ +{option}\b( [A-Z][^ ]*| [a-z]+\|[a-z|]+)?", helps[command], re.M)
    return None if not found else found[1] is not None


def settings_of(page, text):
    """The words of a command that choose devices, strategy and keys, without those that stand for others."""
    found = re.match(r"(?:\$ )?(?:build/)?ringtmp +([a-z]+)\b *(.*)", text)
    if not found:
        return []
    command, rest = found[1], re.split(r"  +", found[2])[0]
    try:
        words = shlex.split(rest, comments=True)
    except ValueError:
        words = rest.split()
    kept = []
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            continue
        takes = takes_value(command, word)
        if takes is None:
            wrong.append(f"{page.name}: `ringtmp {command}` has no {word}: {text}")
        value = words.pop(0) if takes and words else ""
        known = value and "NAME" not in value and value not in ("N", "KEY=VALUE") and "model.layers" not in value
        if command in ("train", "plan") and word in ("--nodes", "--strategy", "--set") and known:
            kept += [word, value]
    return kept


commands = open("commands", "w")
sources = open("sources", "w")
for page in pages:
    text = page.read_text()
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.S | re.M)
    for language, block in blocks:
        if language == "c" and "int main(" in block:
            write("programs", page, "c", block)
        elif language == "c":
            wrong.append(f"{page.name}: a block of C that is not complete: leave the language away, or give it a main")
        elif language == "python":
            write("scripts", page, "py", block)
        elif language == "yaml" and whole_run(block):
            write("blocks", page, "yaml", whole_run(block))
        elif language == "yaml":
            for line in filter(None, (line.split("#")[0].strip() for line in block.splitlines())):
                if re.match(r"(idx|npy|csv|stream): ", line):
                    sources.write(f"{page.name}: {{{line}}}\n")
                else:
                    wrong.append(f"{page.name}: neither part of a run file nor a source: {line}")
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)
    shown = [line.strip() for _, block in blocks for line in block.splitlines()]
    shown += [span.replace("\n", " ") for span in re.findall(r"`((?:build/)?ringtmp [^`]*)`", prose)]
    for line in shown:
        words = settings_of(page, line)
        if words:
            commands.write("\t".join([page.name, *words]) + "\n")

draw = random.Random(1)
for name, count in (("train", 40), ("t10k", 10)):
    with gzip.open(f"{name}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4i", 0x803, count, 28, 28) + bytes(draw.randrange(256) for _ in range(count * 784)))
    with gzip.open(f"{name}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">2i", 0x801, count) + bytes(i % 10 for i in range(count)))
pathlib.Path("rows").write_text("".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(20)))
if wrong:
    sys.exit("\n".join(wrong))
