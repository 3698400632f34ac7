"""Rooftile's time model for many operations at once, with any constants."""

import contextlib
import json
import pathlib
import subprocess
import tempfile

import numpy as np

from timing import tables

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ROOT / "build/release/rooftile_predict"


@contextlib.contextmanager
def written(rows):
    """A file with the operations of the rows, one a line."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for number, op in enumerate(op for row in rows for op in row.ops):
            kind, dtype, fields = op.split(" ", 2)
            file.write(f"{kind} r{number} {dtype} {fields}\n")
        file.flush()
        yield file


def savings(gpu, rows, pairs, times, binary=BINARY):
    """Array (low, expected, high in seconds): what running the second row of each pair `times` times
    saves of running the first once. Each row is one operation."""
    text = "".join(f"{i} {j} {n!r}\n" for (i, j), n in zip(pairs.tolist(), times.tolist()))
    with written(rows) as file:
        answer = subprocess.run([str(binary), str(gpu), file.name, "savings"], input=text.encode(),
                                check=True, stdout=subprocess.PIPE).stdout
    return np.frombuffer(answer, "<f8").reshape(len(pairs), 3)


class Predictor:
    """Times of a list of rows (tables.Row) on one GPU; needs build/release/rooftile_predict.

    `gpu` is a name that --gpu takes, or a device file. Rows of several operations get the sum.
    `seconds` is what the last prediction of all rows took.
    """

    def __init__(self, gpu, rows, binary=BINARY):
        self._first = np.cumsum([0] + [len(row.ops) for row in rows])[:-1]
        with written(rows) as file:
            self._process = subprocess.Popen(
                [str(binary), str(gpu), file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._send({})  # answered once the file is read
            self._receive()

    def _send(self, sections):
        self._process.stdin.write(json.dumps(sections).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self):
        line = self._process.stdout.readline().decode()
        if not line.startswith("ok "):
            raise ValueError(line.strip() or "rooftile_predict ended")
        count, self.seconds = int(line.split()[1]), float(line.split()[2])
        data = np.frombuffer(self._process.stdout.read(count * 32), "<f8").reshape(count, 4)
        # Sums per row; the bound is that of the row's last operation.
        times = np.add.reduceat(data[:, :3], self._first, axis=0)
        last = np.append(self._first[1:], count) - 1
        return times[:, 0], times[:, 1], times[:, 2], data[last, 3].astype(int)

    def predict(self, sections=None):
        """Arrays (expected, low, high in seconds, bound) under the given calibration sections."""
        self._send(sections or {})
        return self._receive()

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def _seconds(predictor, sections):
    predictor.predict(sections)
    return predictor.seconds


def speed(sections):
    """Products that one core predicts in a second under these calibration sections: the best of
    several runs, since other programs only ever slow one down."""
    rows = [tables.Row("h100", (f"gemm bf16 m={m} n={n} k={k}",), 1.0, {})
            for m in range(64, 8192, 64) for n in range(512, 16384, 1016)
            for k in range(512, 16384, 1024)]
    predictor = Predictor("h100", rows)
    best = min(_seconds(predictor, sections) for _ in range(40))
    predictor.close()
    return len(rows) / best
