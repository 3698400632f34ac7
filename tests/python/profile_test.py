"""profile and run, on a CPU: what is recorded, and that programs stay as they are."""

import gc
import gzip
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

import rooftile
from rooftile import _ranks, _recorder, _run
from support import PACKAGE, environment, python

try:
    import torch
except ModuleNotFoundError:
    torch = None

needs_torch = unittest.skipIf(torch is None, "torch is not installed")

SCRIPT = """
import argparse, os, sys
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--then", default="")
options = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
for _ in range(options.steps):
    loss = model(torch.randn(8, 32)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
print("loss", repr(loss.item()), sys.argv[1:], __name__, os.path.basename(sys.path[0]))
if options.then == "raise":
    raise ValueError("of the script")
if options.then == "exit":
    sys.exit(7)
if options.then == "interrupt":
    raise KeyboardInterrupt
if options.then == "wait":
    sys.stdout.flush()
    import time
    time.sleep(60)
"""


def events(path):
    with gzip.open(path) as file:
        return json.load(file)["traceEvents"]


def steps_of(path):
    return [event for event in events(path) if event["name"].startswith("ProfilerStep#")]


class Words(unittest.TestCase):
    def test_arguments_of_the_script_are_its_own(self):
        options = _run.parse(["--steps", "3", "--gpu=h100", "train.py", "--gpu", "x", "-o", "y", "--", "--steps"])
        self.assertEqual((options.steps, options.gpu, options.target), (3, "h100", "train.py"))
        self.assertEqual(options.arguments, ("--gpu", "x", "-o", "y", "--", "--steps"))

    def test_modules(self):
        options = _run.parse(["-o", "out", "-m", "package.train", "-m", "x"])
        self.assertEqual((options.module, options.target, options.arguments), (True, "package.train", ("-m", "x")))

    def test_wrong_words(self):
        for words, problem in [([], "the script is missing"), (["--steps"], "needs a value"),
                               (["--steps", "0", "t.py"], "from 1, found '0'"),
                               (["--epochs", "1", "t.py"], "--epochs")]:
            with self.assertRaisesRegex(_run.UsageError, problem):
                _run.parse(words)
        done = python("-m", "rooftile", "run", "/no/such.py")
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (2, "rooftile: /no/such.py: No such file"))

    def test_help(self):
        done = python("-m", "rooftile", "run", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("torchrun", done.stdout)


class Ranks(unittest.TestCase):
    def test_without_a_launcher(self):
        with mock.patch.dict(os.environ, clear=True):
            self.assertEqual((_ranks.rank(), _ranks.ranks()), (0, 1))

    def test_folders_are_of_a_job(self):
        torchrun = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "a"}
        with mock.patch.dict(os.environ, torchrun, clear=True):
            self.assertEqual(_ranks.rank(), 3)
            self.assertEqual(_ranks.job_folder("t").name, f"t-job{os.getppid()}")
            os.environ.update(LOCAL_WORLD_SIZE="4", MASTER_PORT="29500")
            self.assertEqual(_ranks.job_folder("t").name, "t-joba-29500")

    def test_ranks_that_never_come_are_not_waited_for_longer(self):
        with tempfile.TemporaryDirectory() as folder:
            first = _ranks.trace_path(pathlib.Path(folder), 0)
            first.touch()
            self.assertEqual(_ranks.traces_of(pathlib.Path(folder), 2, 0.2), [first])


@needs_torch
class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.script = pathlib.Path(cls.folder.name) / "train.py"
        cls.script.write_text(SCRIPT)
        cls.plain = python("train.py", "--epochs", "1", cwd=cls.folder.name)

        cls.done = cls.run_script("same", "--epochs", "1")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_script(cls, out, *words, gpu="auto"):
        return python("-m", "rooftile", "run", "--steps", "4", "--gpu", gpu, "-o", out, "train.py", *words,
                      cwd=cls.folder.name)

    def trace(self, out, rank=0):
        return pathlib.Path(self.folder.name) / out / f"rank{rank}.json.gz"

    def test_results_are_those_without(self):
        done = self.done
        self.assertEqual((done.returncode, done.stdout), (0, self.plain.stdout), done.stderr)
        self.assertEqual(len(steps_of(self.trace("same"))), 4)
        self.assertRegex(done.stderr, "rooftile: recorded 4 steps in .*rank0.json.gz; recording ")
        self.assertIn("no CUDA", done.stderr)
        self.assertIn("1 Python file with training code", done.stderr)
        report = (self.trace("same").parent / "report.txt").read_text()
        self.assertIn(report, done.stderr)
        recorded = events(self.trace("same"))
        self.assertTrue(any(event.get("args", {}).get("Input Dims") for event in recorded))
        self.assertTrue(any(event.get("cat") == "python_function" for event in recorded))

    def test_a_step_ends_after_the_optimizer(self):
        recorded = events(self.trace("same"))
        ends = [event["ts"] + event["dur"] for event in recorded if event["name"].startswith("ProfilerStep#")]
        optimizers = [event for event in recorded if event["name"].startswith("Optimizer.step#")]
        for event in optimizers:
            crossed = [end for end in ends if event["ts"] < end < event["ts"] + event["dur"]]
            self.assertEqual(crossed, [])
        self.assertEqual(len(optimizers), 4)

    def test_an_exception_is_the_scripts_own(self):
        plain = python("train.py", "--then", "raise", cwd=self.folder.name)
        done = self.run_script("raised", "--then", "raise")
        self.assertEqual(done.returncode, plain.returncode)
        self.assertIn(plain.stderr, done.stderr)
        self.assertEqual(len(steps_of(self.trace("raised"))), 4)

    def test_the_exit_code_is_the_scripts_own(self):
        self.assertEqual(self.run_script("left", "--then", "exit").returncode, 7)
        self.assertTrue(self.trace("left").exists())

    def test_an_interrupt_keeps_what_was_recorded(self):
        done = self.run_script("interrupted", "--steps", "6", "--then", "interrupt")
        self.assertEqual(done.returncode, -signal.SIGINT)
        self.assertEqual(len(steps_of(self.trace("interrupted"))), 2)
        self.assertIn("recorded 2 steps", done.stderr)

    def test_signals_of_the_keyboard_and_of_schedulers(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                child = subprocess.Popen(
                    [sys.executable, "-m", "rooftile", "run", "--steps", "4", "-o", f"signal{number}", "train.py",
                     "--then", "wait"],
                    cwd=self.folder.name, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    # A job in the background of a shell ignores SIGINT, and so would its children.
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
                child.stdout.readline()
                child.send_signal(number)
                _, errors = child.communicate(timeout=60)
                self.assertEqual(child.returncode, -number)
                self.assertIn("recorded 4 steps", errors)

    def test_times_of_a_gpu_are_predicted_from_the_modules(self):
        done = self.run_script("predicted", "--epochs", "1", gpu="h100")
        self.assertEqual((done.returncode, done.stdout), (0, self.plain.stdout), done.stderr)
        self.assertIn("the times below are predicted for h100, from model.rooftile.json", done.stderr)
        self.assertIn("on H100 SXM5 80 GB, training", done.stderr)
        self.assertRegex(done.stderr, "\nExpected time .* µs, likely")

    def test_the_script_ends_when_it_is_recorded(self):
        done = python("-m", "rooftile", "run", "--stop", "--steps", "2", "-o", "stopped", "train.py", "--then", "exit",
                      cwd=self.folder.name)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(len(steps_of(self.trace("stopped"))), 2)
        self.assertNotIn("when the script ends", done.stderr)

    def test_an_error_before_the_first_step_is_all_that_is_said(self):
        done = self.run_script("usage", "--no-such-option")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("1 Python file", done.stderr)

    def test_programs_that_ask_for_torch_before_they_load_it(self):
        script = "import importlib.util\nassert importlib.util.find_spec('torch')\n" + SCRIPT
        (pathlib.Path(self.folder.name) / "asks.py").write_text(script)
        done = python("-m", "rooftile", "run", "--steps", "4", "-o", "asked", "asks.py", "--epochs", "1",
                      cwd=self.folder.name)
        self.assertIn("rooftile: recorded 4 steps", done.stderr)

    def test_too_few_steps(self):
        done = self.run_script("few", "--steps", "3")
        self.assertEqual(done.returncode, 0)
        self.assertIn("nothing was recorded: the program made 3 steps, and recording begins after 4", done.stderr)
        self.assertFalse(self.trace("few").exists())
        self.assertIn("1 Python file with training code", done.stderr)  # the script is checked all the same

    def test_ranks_leave_a_trace_each_and_one_report(self):
        done = python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "rooftile", "run",
                      "--steps", "2", "-o", "ranks", "train.py", cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.trace("ranks", 0).exists() and self.trace("ranks", 1).exists())
        self.assertEqual(done.stderr.count("rooftile: recorded"), 1)
        self.assertIn("ranks/rank1.json.gz", done.stderr)

    def test_modules_and_scripts_without_torch(self):
        folder = pathlib.Path(self.folder.name)
        (folder / "plain.py").write_text("import sys\nprint(sys.argv, 'torch' in sys.modules)\n")
        done = python("-m", "rooftile", "run", "-m", "plain", "--x", cwd=folder)
        self.assertIn("plain.py', '--x'] False", done.stdout)
        self.assertIn("no step of training was seen", done.stderr)

    def test_work_in_other_processes_is_said(self):
        (pathlib.Path(self.folder.name) / "starts.py").write_text(textwrap.dedent("""
            import subprocess, sys
            work = "import time; end = time.process_time() + 3\\nwhile time.process_time() < end: pass"
            subprocess.run([sys.executable, "-c", work], check=True)
        """))
        done = python("-m", "rooftile", "run", "starts.py", cwd=self.folder.name)
        self.assertIn("in processes that the program started", done.stderr)

    def test_an_error_before_the_first_step(self):
        (pathlib.Path(self.folder.name) / "early.py").write_text("import no_such_module\n")
        done = python("-m", "rooftile", "run", "early.py", cwd=self.folder.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn("\n\nrooftile: nothing was recorded: the program ended before its first step", done.stderr)

    def test_a_script_that_profiles_itself(self):
        (pathlib.Path(self.folder.name) / "own.py").write_text(textwrap.dedent("""
            import torch
            model = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            def step():
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()
            for _ in range(6):
                step()
            with torch.profiler.profile() as own:
                step()
            print(len(own.key_averages()) > 3)
        """))
        done = python("-m", "rooftile", "run", "-o", "own", "own.py", cwd=self.folder.name)
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)


@needs_torch
class Profile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = torch.nn.Linear(16, 16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, count, after=lambda: None):
        for _ in range(count):
            self.model(torch.randn(4, 16)).sum().backward()
            self.optimizer.step()
            after()

    def test_steps_of_the_optimizer(self):
        before = dict(vars(self.optimizer))
        with rooftile.profile(steps=3, folder=self.folder) as p:
            self.train(10)
        self.assertTrue(p.done)
        self.assertEqual(len(steps_of(p.trace)), 3)
        self.assertGreater(p.overhead, 0)
        self.assertIn("recorded 3 steps", p.summary())
        self.assertEqual(set(vars(self.optimizer)), set(before))
        self.assertIs(p.report, p.report)
        self.assertIsInstance(p.report, rooftile.Report)

    def test_steps_by_hand(self):
        with rooftile.profile(steps=2, folder=self.folder) as p:
            for _ in range(12):
                self.train(2)
                p.step()
        recorded = events(p.trace)
        (first, second) = steps_of(p.trace)
        inside = [e for e in recorded if e["name"] == "Optimizer.step#SGD.step" and
                  first["ts"] <= e["ts"] <= first["ts"] + first["dur"]]
        self.assertEqual(len(inside), 2)
        self.assertNotEqual(first["name"], second["name"])

    def test_one_of_several_optimizers_counts(self):
        other = torch.optim.Adam(self.model.parameters())
        with rooftile.profile(steps=2, folder=self.folder) as p:
            self.train(10, other.step)
        inside = [e for e in events(p.trace) if e["name"].startswith("Optimizer.step#Adam")]
        self.assertEqual(len(inside), 2)

    def test_exceptions_pass_through(self):
        with self.assertRaises(ZeroDivisionError), rooftile.profile(steps=9, folder=self.folder) as p:
            self.train(7)
            1 / 0  # noqa: B018
        self.assertIn("recorded 3 steps", p.summary())
        self.assertEqual(len(steps_of(p.trace)), 3)

    def test_nothing_recorded(self):
        with rooftile.profile(folder=self.folder) as p:
            pass
        self.assertIsNone(p.trace)
        with self.assertRaisesRegex(rooftile.Error, "no step of training was seen"):
            _ = p.report
        stream = io.StringIO()
        p.finish(stream)
        self.assertTrue(stream.getvalue().startswith("\nrooftile: nothing was recorded"))

    def test_weights_that_are_changed_by_hand(self):
        del self.optimizer
        gc.collect()
        with rooftile.profile(steps=2, folder=self.folder, gpu="h100") as p:
            for _ in range(8):
                self.model(torch.randn(4, 16)).sum().backward()
                for weight in self.model.parameters():
                    weight.data.sub_(weight.grad)
        self.assertEqual(len(steps_of(p.trace)), 2)
        self.assertIn("counted as SGD", " ".join(p.report.notes))
        self.assertEqual(torch.autograd.backward.__module__, "torch.autograd")

    def test_two_recordings_at_once(self):
        with rooftile.profile(steps=2, folder=self.folder / "a") as first:
            self.train(3)
            with rooftile.profile(steps=2, folder=self.folder / "b") as second:
                self.train(10)
        self.assertTrue(first.trace is not None or second.trace is not None)

    def test_wrong_number_of_steps(self):
        with self.assertRaises(ValueError):
            rooftile.profile(steps=0)

    def test_cost_beside_the_profiler(self):
        recorder = _recorder.Recorder(self.folder / "r.json.gz", 5)
        begin = time.perf_counter()
        for _ in range(2):
            recorder.step()
        self.assertLess(time.perf_counter() - begin, 0.01)
        recorder.close()


@unittest.skipUnless(PACKAGE.is_dir(), "the sources")
class Program(unittest.TestCase):
    """The subcommand of the program, which hands over to Python."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name) / "bin"
        self.bin.mkdir()
        self.program = self.bin / "rooftile"
        self.program.symlink_to(os.environ["ROOFTILE_PROGRAM"])
        self.script = pathlib.Path(folder.name) / "plain.py"
        self.script.write_text("import os, sys\nprint(sys.argv[1:], os.environ['ROOFTILE_PROGRAM'])\nsys.exit(5)\n")

    def run_program(self, **variables):
        return subprocess.run([self.program, "run", self.script, "--help", "check"], capture_output=True, text=True,
                              check=False, env={**environment(), **variables})

    def test_python_of_the_path(self):
        (self.bin / "python3").symlink_to(sys.executable)
        done = self.run_program(PATH=str(self.bin))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("['--help', 'check']", done.stdout)

    def test_python_without_the_package(self):
        (self.bin / "python3").symlink_to(sys.executable)
        done = self.run_program(PATH=str(self.bin), PYTHONPATH="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("in a checkout of Rooftile: ", done.stderr)
        self.assertIn("-m pip install .", done.stderr)

    def test_no_python(self):
        done = self.run_program(PATH=str(self.bin))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no python3 on the PATH", done.stderr)


if __name__ == "__main__":
    unittest.main()
