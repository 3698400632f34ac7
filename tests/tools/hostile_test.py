"""tools/hostile notices what it looks for."""

import importlib.machinery
import importlib.util
import pathlib
import stat
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load():
    loader = importlib.machinery.SourceFileLoader("hostile", str(ROOT / "tools" / "hostile"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("hostile", loader))
    sys.modules["hostile"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


class Hostile(unittest.TestCase):
    def problems(self, script, **case):
        hostile = load()
        hostile.MOST_SECONDS = 0.2
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            return hostile.run(str(program), hostile.Case("g", "n", ["check"], **case)).problems

    def test_good(self):
        self.assertEqual(self.problems("echo fine; exit 1"), [])
        self.assertEqual(self.problems("echo why >&2; exit 2"), [])

    def test_bad(self):
        self.assertEqual(self.problems("kill -SEGV $$"), ["ended by SIGSEGV"])
        self.assertEqual(self.problems("exit 134"), ["exit code 134"])
        self.assertEqual(self.problems("exit 2"), ["exit code 2 without a reason"])
        self.assertIn("control character", self.problems("printf 'a\\033[31m'")[0])
        self.assertEqual(len(self.problems("exec sleep 0.75")), 1)
        self.assertIn("does not say", self.problems("echo fine", says="syntax error")[0])

    def test_changed_file(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assertEqual(len(self.problems(f"echo x >> {file.name}", kept=file.name)), 1)


if __name__ == "__main__":
    unittest.main()
