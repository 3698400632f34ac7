#!/usr/bin/env python3
"""How long the first answers take: the program, `import rooftile`, and `rooftile.check` of a ResNet-50's training step.

    python benchmarks/start_times.py [--runs 5]

Run it with the Python that has the installed wheel; the network needs torchvision. CPU seconds of a process and its
children are those of a quiet machine; seconds on the clock are beside them. Each run is a process of its own.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

CHECK = """
import json, os, time
def now():
    spent = os.times()
    return time.perf_counter(), spent.user + spent.system + spent.children_user + spent.children_system
marks = [now()]
import rooftile
marks.append(now())
import torch, torchvision
marks.append(now())
model, x = torchvision.models.resnet50(), torch.zeros(8, 3, 224, 224)
for _ in range(2):
    begin = now()
    rooftile.check(model, x, gpu="h100", mode="train")
    marks += [begin, now()]
print(json.dumps(marks))
"""
PARTS = {"import rooftile": (0, 1), "import torch": (1, 2), "rooftile.check, first": (3, 4),
         "rooftile.check, again": (5, 6)}


def program(runs):
    """Seconds of `rooftile --version`, by the clock."""
    from rooftile._program import find_program

    times = []
    for _ in range(10 * runs):
        begin = time.perf_counter()
        subprocess.run([find_program(), "--version"], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    times = program(options.runs)
    print(f"rooftile --version: {1e3 * min(times):.1f} ms at best, {1e3 * statistics.median(times):.1f} ms median")
    runs = [json.loads(subprocess.run([sys.executable, "-c", CHECK], check=True, capture_output=True).stdout)
            for _ in range(options.runs)]
    for name, (begin, end) in PARTS.items():
        clock, cpu = (statistics.median(run[end][at] - run[begin][at] for run in runs) for at in (0, 1))
        print(f"{name}: {cpu:.3f} s of CPU, {clock:.3f} s on the clock")


if __name__ == "__main__":
    main()
