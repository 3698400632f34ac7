"""Tests of the programs behind benchmarks/accuracy and tools/fit_*."""

import itertools
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest

DEV = pathlib.Path(__file__).resolve().parent.parent.parent / "build/dev"
OPS = "gemm first bf16 m=4096 n=4096 k=4096\ngemm second bf16 m=4096 n=8192 k=4096\n"


def run(program, *arguments, text=OPS, sent=b""):
    """Standard output; the operations are in a file whose path replaces FILE."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        named = [file.name if argument == "FILE" else argument for argument in arguments]
        return subprocess.run([DEV / program, *named], input=sent, capture_output=True, check=True,
                              timeout=120).stdout


def predicted(*sections):
    """[(low, expected, high) of each operation] under each of the sections, on A100."""
    lines = "".join(json.dumps(each) + "\n" for each in sections)
    answer = run("rooftile_predict", "a100", "FILE", sent=lines.encode())
    times = []
    for _ in sections:
        line, answer = answer.split(b"\n", 1)
        count = int(line.split()[1])
        rows = struct.iter_unpack("<4d", answer[:32 * count])
        times.append([(low, expected, high) for expected, low, high, _ in rows])
        answer = answer[32 * count:]
    assert not answer
    return times


class Predict(unittest.TestCase):
    def test_answers_each_line_with_all_rows(self):
        times = predicted({}, {"residual": False})
        for first, second in times:
            self.assertTrue(first[0] < first[1] < first[2])
            self.assertTrue(1.5 < second[1] / first[1] < 2.5)
        self.assertNotEqual(times[0], times[1])

    def test_wrong_sections_are_named(self):
        answer = run("rooftile_predict", "a100", "FILE", sent=b'{"tensor_gemm": {}}\n')
        self.assertIn(b"error a100", answer)
        self.assertIn(b"tensor_gemm", answer)

    def test_savings(self):
        answer = run("rooftile_predict", "a100", "FILE", "savings", sent=b"1 0 1\n1 0 2\n")
        (low, expected, high), (none, *_) = struct.iter_unpack("<3d", answer)
        self.assertTrue(0 < low < expected < high)
        self.assertLess(none, 0)


class Calibrate(unittest.TestCase):
    def test_slower_points_make_a_slower_gpu(self):
        shapes = itertools.product((2048, 8192), (4096, 8192), (4096, 8192))
        points = "".join(
            f"gemm p{i} bf16 m={m} n={n} k={k} measured_s={3 * 2 * m * n * k / 312e12!r}\n"
            for i, (m, n, k) in enumerate(shapes))
        sections = json.loads(run("rooftile_calibrate", "a100", "FILE", "sm80", text=points))
        before, after = predicted({"residual": False}, sections | {"residual": False})
        self.assertTrue(2 < after[0][1] / before[0][1] < 3.5)


if __name__ == "__main__":
    unittest.main()
