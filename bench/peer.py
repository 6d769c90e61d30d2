"""A peer's training program: a process that measures itself once for every line it is sent."""

import json
import os
import subprocess
import time

from calm import calm

HERE = os.path.dirname(os.path.abspath(__file__))
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}

# What keeps every peer to an instruction set, each by its own switch, on a machine that has more than that.
# torch.compile follows ATen's; oneDNN has had two names. OpenBLAS has core types instead: see run.py. XLA's holds
# for the code it generates, not for YNNPACK, which it calls for larger products and which has no switch.
LIMITS = {
    "avx2": {
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


def environment(core_type):
    made = dict(os.environ, **ONE_THREAD, BENCH_STARTED=repr(time.monotonic()))
    if core_type:
        made["OPENBLAS_CORETYPE"] = core_type
    return made


class Peer:
    def __init__(self, python, program, options=()):
        self.command = [python, os.path.join(HERE, "peers", program)]
        self.options, self.process, self.name = list(options), None, None

    def spawn(self, case, core, core_type, *more):
        return subprocess.Popen(self.command + [case] + self.options + list(more), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                env=environment(core_type), preexec_fn=lambda: os.sched_setaffinity(0, {core}))

    def open(self, case, core, core_type):
        """Starts the program on a case; it chooses its best variant. False when it cannot run."""
        self.process = self.spawn(case, core, core_type)
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"ready": False}
        self.name = answer.get("version")
        self.variant = answer.get("variant")
        if not answer["ready"]:
            self.close()
        return answer["ready"]

    @calm
    def rate(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["samples_per_s"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def once(self, case, core, core_type):
        """{"version", "import_s", "first_step_s", "peak_rss_bytes"} of a plain program, or None."""
        with self.spawn(case, core, core_type, "--once") as process:
            line = process.stdout.readline()
        return json.loads(line) if line else None
