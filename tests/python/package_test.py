"""check, compare and sweep over what needs no other library."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing
import unittest
from unittest import mock

import rooftile
from rooftile import _commands, _flags, _html, _program, _schemas, _source, _table
from rooftile._next_step import with_next_step
from support import ALIGNED, PACKAGE, ROOT, TRAINING_SCRIPT, VOCABULARY, environment, python


class Check(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.report = rooftile.check(VOCABULARY, gpu="h100")

    def test_fields_are_those_of_the_program(self):
        document = json.loads(self.report.to_json())
        finding, found = self.report.findings[0], document["findings"][0]
        self.assertEqual(finding.rule, "gemm/unaligned-row-stride")
        self.assertEqual(finding.saving_s.expected, found["saving_s"]["expected"])
        self.assertEqual(finding.location.node, "vocab")
        self.assertEqual(self.report.memory.verdict, document["memory"]["verdict"])
        self.assertEqual(self.report.total_s.high, document["total_s"]["high"])
        self.assertEqual(self.report.gpu.name, "H100 SXM5 80 GB")
        self.assertIsNone(self.report.timeline)

    def test_every_key_of_the_json_is_in_the_record(self):
        for report in (self.report, rooftile.check([VOCABULARY, ALIGNED], gpu="a100", mode="train")):
            compare_keys(self, json.loads(report.to_json()), report)

    def test_other_forms(self):
        self.assertEqual(json.loads(self.report.to_sarif())["version"], "2.1.0")
        self.assertIn("unaligned-row-stride", self.report.to_markdown())
        self.assertIn("unaligned-row-stride", str(self.report))
        self.assertIn("1 finding>", repr(self.report))

    def test_what_comes_next_is_a_call(self):
        text = str(rooftile.check(ALIGNED, gpu="h100"))
        self.assertIn("report.to_text(verbose=True) shows", text[text.index("Next: "):])
        for line, here in (
            ("Next: rooftile ops /tmp/gone/model.rooftile.json", "Next: report.operations"),
            ("Next: --verbose shows 2 more for information.", "Next: report.to_text(verbose=True) shows 2 more for "
             "information."),
            ("Next: rooftile explain a/b; --verbose shows 1 more", "Next: rooftile explain a/b; "
             "report.to_text(verbose=True) shows 1 more"),
            ("Next: rooftile explain a/b; --verbose\nshows 1 more", "Next: rooftile explain a/b; "
             "report.to_text(verbose=True) shows 1 more"),
        ):
            found = with_next_step("rooftile ops stays\n" + line + "\n", "report.to_text(verbose=True)",
                                   "report.operations")
            self.assertEqual(found, "rooftile ops stays\n" + here + "\n")

    def test_operations(self):
        (operation,) = self.report.operations
        self.assertEqual((operation.kind, operation.dims), ("gemm", "m=4096 n=50257 k=768"))
        self.assertIs(self.report.operations, self.report.operations)

    def test_hypertext_escapes_what_users_wrote(self):
        report = rooftile.check("gemm <b>&x bf16 m=4096 n=50257 k=768", gpu="h100")
        text = report._repr_html_()
        self.assertIn("&lt;b&gt;&amp;x", text)
        self.assertNotIn("<b>&x", text)
        self.assertIn("unaligned-row-stride", text)
        self.assertIn(f"({_html.EXACTNESS[report.findings[0].fix.exactness]})", text)
        self.assertEqual(report._repr_markdown_(), report.to_markdown())

    def test_a_saving_that_may_be_a_loss_is_up_to(self):
        text = _html.saving_text(_schemas.Range(expected=12e-6, low=-5e-6, high=52e-6))
        self.assertEqual(text, "up to 52 µs, likely 12 µs")
        self.assertEqual(_html.saving_text(_schemas.Range(expected=2e-6, low=1e-6, high=4e-6)), "2 µs (1 µs–4 µs)")

    def test_scripts_need_no_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(TRAINING_SCRIPT)
            report = rooftile.check(script)
            self.assertEqual(report.scripts.training_programs, 1)
            self.assertTrue(all(finding.location.file.endswith("train.py") for finding in report.findings))
            chosen = rooftile.check(script, ignore=[finding.rule for finding in report.findings])
            self.assertEqual(len(chosen.findings), 0)

    def test_what_cannot_be_judged_is_a_report(self):
        report = rooftile.check("other mystery fp32 fn=MyOp", gpu="h100")
        self.assertEqual(report.verdict, "not_judged")
        self.assertTrue(report.not_judged_because)
        self.assertIn("Not judged", report._repr_html_())


class Errors(unittest.TestCase):
    def test_the_line_of_the_program(self):
        with self.assertRaises(rooftile.Error) as caught:
            rooftile.check("/no/such.onnx", gpu="h100")
        self.assertEqual(str(caught.exception), "/no/such.onnx: No such file or directory")
        self.assertEqual(caught.exception.exit_code, 2)

    def test_objects_that_are_nothing_to_check(self):
        for target in (42, None, [], [VOCABULARY, 3], object()):
            with self.assertRaisesRegex(rooftile.Error, "expected a path"):
                rooftile.check(target, gpu="h100")

    def test_a_class_is_no_model(self):
        with self.assertRaisesRegex(rooftile.Error, r"found the class Path: make one first, Path\(...\)"):
            rooftile.check(pathlib.Path, (2, 8), gpu="h100")

    def test_models_need_inputs(self):
        with self.assertRaisesRegex(rooftile.Error, "needs its inputs"):
            rooftile.check(lambda x: x, gpu="h100")
        with self.assertRaisesRegex(rooftile.Error, "needs its inputs"):
            rooftile.check(lambda x: x, "8,3,224,224", gpu="h100")

    def test_a_loss_gets_the_output_alone(self):
        with self.assertRaisesRegex(rooftile.Error, "the model's output alone"):
            rooftile.check(lambda x: x, (2, 8), gpu="h100", mode="train", loss=lambda out, target: out - target)

    def test_arguments_are_named_as_in_python(self):
        for text, here in (
            ("--gpu is missing: add --gpu h100 for example", 'gpu is missing: add gpu="h100" for example'),
            ("no driver: name the GPU with --gpu or describe it with --gpu-file",
             'no driver: name it, gpu="h100" for example'),
            ("--batch: expected FROM:TO", "batch: expected FROM:TO"),
            ("a file named x--batch is --gpu-file", "a file named x--batch is --gpu-file"),
        ):
            self.assertEqual(_program.in_python(text), here)
        with self.assertRaisesRegex(rooftile.Error, '^gpu is missing: add gpu="'):
            rooftile.check(VOCABULARY)

    def test_program_is_missing(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"PATH": folder}):
            with mock.patch.object(_program, "candidates", return_value=[pathlib.Path(folder) / "rooftile"]):
                os.environ.pop("ROOFTILE_PROGRAM", None)
                with self.assertRaisesRegex(rooftile.Error, "install the package again"):
                    rooftile.check(VOCABULARY, gpu="h100")
            os.environ["ROOFTILE_PROGRAM"] = folder + "/none"
            with self.assertRaisesRegex(rooftile.Error, "is not a program"):
                rooftile.check(VOCABULARY, gpu="h100")

    def test_program_that_dies(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "rooftile"
            program.write_text("#!/bin/sh\nkill -9 $$\n")
            program.chmod(0o755)
            chosen = mock.patch.dict(os.environ, {"ROOFTILE_PROGRAM": str(program)})
            with chosen, self.assertRaisesRegex(rooftile.Error, "signal 9"):
                rooftile.check(VOCABULARY, gpu="h100")


class OtherCommands(unittest.TestCase):
    def test_compare(self):
        result = rooftile.compare(VOCABULARY, ALIGNED, gpu="h100")
        self.assertEqual(result.verdict, "faster")
        self.assertGreater(result.saving_s.low, 0)
        self.assertEqual(result.changed[0].before.dims, "m=4096 n=50257 k=768")

    def test_compare_takes_two(self):
        with self.assertRaisesRegex(rooftile.Error, "two inputs"):
            rooftile.compare([VOCABULARY, ALIGNED], ALIGNED, gpu="h100")

    def test_sweep(self):
        text = "workload batch=4\n" + ALIGNED + "\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "layer.txt"
            path.write_text(text)
            result = rooftile.sweep(path, gpu="h100", batch="1:8")
            with_pair = rooftile.sweep(path, gpu="h100", batch=(1, 8))
        self.assertEqual([row.batch for row in result.curves[0].rows], [1, 2, 4, 8])
        self.assertEqual(result.curves[0].rows[0].fit, "fits")
        self.assertEqual(with_pair.curves, result.curves)


class Flags(unittest.TestCase):
    def test_names_of_types(self):
        for given, short in {"torch.bfloat16": "bfloat16", "float16": "float16", "fp8": "fp8", None: None}.items():
            self.assertEqual(_flags.dtype_name(given), short)

    def test_sizes(self):
        flags = _flags.size_flags(2, None, None, {"N": 4}, {"x": (1, 3, 224)})
        self.assertEqual(flags, ["--batch=2", "--dim=N=4", "--shape=x=1x3x224"])

    def test_a_gpu_of_a_file(self):
        source = _commands.source_of(VOCABULARY, _commands.Wish())
        self.assertEqual(_commands.flags_of(source, "my.json", "train", "float16", []),
                         ["--gpu-file=my.json", "--dtype=float16", "--mode=train"])


class Inputs(unittest.TestCase):
    def test_shapes(self):
        self.assertEqual(rooftile.Input((2, 3)).shape, (2, 3))
        self.assertEqual(rooftile.Input([2], "torch.int64"), rooftile.Input(2, "int64"))
        self.assertEqual(rooftile.Input(()).dtype, "float32")

    def test_shapes_among_arguments(self):
        given = {"ids": rooftile.Input((2, 8), "int64", high=50), "rest": [(2, 3), None, ((4,), "x")]}
        taken = _source.as_inputs(given)
        self.assertEqual(taken["ids"], given["ids"])
        self.assertEqual(taken["rest"], [rooftile.Input((2, 3)), None, (rooftile.Input(4), "x")])

    def test_what_is_no_shape(self):
        with self.assertRaises(ValueError):
            rooftile.Input((2, -1))
        with self.assertRaises(TypeError):
            rooftile.Input((2.5,))


class Tables(unittest.TestCase):
    def test_rows_are_flat(self):
        report = rooftile.check(VOCABULARY, gpu="h100")
        (row,) = report.operations.rows()
        self.assertEqual(row["time_s"], report.operations[0].time_s.expected)
        self.assertEqual(row["time_low_s"], report.operations[0].time_s.low)
        self.assertIn("parts_s_memory", row)
        self.assertEqual(report.findings.rows()[0]["location_node"], "vocab")

    def test_is_a_sequence(self):
        table = _table.Table([_schemas.Range(1, 2, 3), _schemas.Range(4, 5, 6)])
        self.assertEqual(len(table[:1]), 1)
        self.assertIsInstance(table[:1], _table.Table)
        self.assertEqual([r.low for r in table], [1, 4])
        self.assertEqual(table, _table.Table(list(table)))
        self.assertIn("<th>expected</th>", table._repr_html_())

    def test_data_frames(self):
        operations = rooftile.check(VOCABULARY, gpu="h100").operations
        try:
            frame = operations.to_pandas()
        except ModuleNotFoundError as error:
            self.skipTest(str(error))
        self.assertEqual(frame.loc[0, "dims"], "m=4096 n=50257 k=768")
        self.assertEqual(operations.to_arrow().num_rows, 1)


class Package(unittest.TestCase):
    def test_import_is_fast_and_imports_nothing_of_others(self):
        code = ("import sys, time; begin = time.perf_counter(); import rooftile; took = time.perf_counter() - begin\n"
                "others = {'torch', 'numpy', 'pandas', 'pyarrow', 'onnx', 'dataclasses', 'json'} & set(sys.modules)\n"
                "print(took, *others)")
        runs = [python("-S", "-c", code).stdout.split() for _ in range(5)]
        self.assertEqual([run[1:] for run in runs], [[]] * 5)
        self.assertLess(min(float(run[0]) for run in runs), 0.03)

    def test_names(self):
        for name in rooftile.__all__:
            self.assertTrue(getattr(rooftile, name).__doc__, name)
        self.assertLessEqual(set(rooftile.__all__), set(dir(rooftile)))
        with self.assertRaises(AttributeError):
            rooftile.nothing  # noqa: B018

    def test_hints_can_be_resolved(self):
        self.assertEqual(typing.get_type_hints(_schemas.Finding)["level"],
                         typing.Literal["error", "warning", "advice", "info"])

    def test_records_are_those_of_the_contracts(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "make_python_types", "--check"], check=False)
        self.assertEqual(done.returncode, 0)

    def test_module_passes_its_arguments_to_the_program(self):
        done = python("-m", "rooftile", "check", VOCABULARY, "--gpu", "h100", "--format", "json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["schema"], "rooftile-report/2")

    def test_overhead_of_a_call_is_small(self):
        program = _program.find_program()
        with tempfile.TemporaryDirectory() as folder:
            stand_in = pathlib.Path(folder) / "rooftile"
            output = subprocess.run([program, "check", VOCABULARY, "--gpu", "h100", "--format", "json"],
                                    capture_output=True, check=False).stdout
            (pathlib.Path(folder) / "answer").write_bytes(output)
            stand_in.write_text(f"#!/bin/sh\nexec cat {folder}/answer\n")
            stand_in.chmod(0o755)
            with mock.patch.dict(os.environ, {"ROOFTILE_PROGRAM": str(stand_in)}):
                times = []
                for _ in range(10):
                    begin = time.perf_counter()
                    rooftile.check(VOCABULARY, gpu="h100")
                    times.append(time.perf_counter() - begin)
        self.assertLess(min(times), 0.03)


@unittest.skipUnless(PACKAGE.is_dir(), "the sources")
class Style(unittest.TestCase):
    def check_with(self, module, *words):
        if python("-c", f"import {module}").returncode:
            self.skipTest(f"{module} is not installed")
        done = python("-m", module, *words, cwd=ROOT, env=environment(RUFF_NO_CACHE="true"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_ruff(self):
        self.check_with("ruff", "check")

    def test_mypy(self):
        self.check_with("mypy", "--cache-dir", str(ROOT / "build" / "mypy"))


def compare_keys(test, document, record, path=""):
    """Every key of the JSON is an attribute of the record, with the same value."""
    if isinstance(document, dict):
        for key, value in document.items():
            if isinstance(record, dict):
                compare_keys(test, value, record[key], f"{path}.{key}")
            else:
                compare_keys(test, value, getattr(record, key if key != "with" else "with_"), f"{path}.{key}")
    elif isinstance(document, list):
        test.assertEqual(len(document), len(record), path)
        for index, value in enumerate(document):
            compare_keys(test, value, record[index], f"{path}[{index}]")
    else:
        test.assertEqual(document, record, path)


if __name__ == "__main__":
    unittest.main()
