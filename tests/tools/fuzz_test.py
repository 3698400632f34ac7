"""Tests of tools/fuzz, with a stand-in for the fuzz targets."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
import fuzzing  # noqa: E402  (needs the path above)

STATISTICS = """\
#128 DONE cov: 9 ft: 9 corp: 3/4b exec/s: 64 rss: 40Mb
stat::number_of_executed_units: 1280
stat::average_exec_per_sec:     64
stat::new_units_added:          3
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              40
"""
TARGET = """#!/bin/sh
echo "$@" >>"$0.calls"
case "$*" in
  *-merge=1*)
    for kept in "$@"; do case "$kept" in *.merged) touch "$kept/small" ;; esac; done
    exit 0 ;;
esac
for learnt in "$@"; do case "$learnt" in */fuzz_corpus/*) touch "$learnt/a" "$learnt/b" ;; esac; done
cat "$0.output"
exit $(cat "$0.status")
"""


class Fuzz(unittest.TestCase):
    def setUp(self):
        loader = importlib.machinery.SourceFileLoader("fuzz", str(TOOLS / "fuzz"))
        spec = importlib.util.spec_from_loader("fuzz", loader)
        self.fuzz = importlib.util.module_from_spec(spec)
        loader.exec_module(self.fuzz)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        for name, value in (("BUILD", self.build), ("LEARNT", self.build / "fuzz_corpus"),
                            ("CRASHES", self.build / "fuzz_crashes")):
            self.addCleanup(setattr, fuzzing, name, getattr(fuzzing, name))
            setattr(fuzzing, name, value)

    def run_target(self, name="python", output=STATISTICS, status=0):
        program = fuzzing.program(name, self.fuzz.PRESET)
        program.parent.mkdir(exist_ok=True)
        program.write_text(TARGET, encoding="utf-8")
        program.chmod(0o755)
        program.with_name(program.name + ".output").write_text(output, encoding="utf-8")
        program.with_name(program.name + ".status").write_text(str(status), encoding="utf-8")
        row = self.fuzz.fuzz(name, 5, self.build / "seeds")
        calls = program.with_name(program.name + ".calls").read_text(encoding="utf-8")
        return row, calls.splitlines()

    def test_a_clean_target_is_minimised(self):
        row, calls = self.run_target()
        self.assertEqual(self.fuzz.table([row]).splitlines()[-1],
                         "| python | 1,280 | 64 | 3 | < 1 s | 40 MB | clean |")
        self.assertIn("-max_total_time=5", calls[0])
        self.assertIn("dictionaries/python.dict", calls[0])
        self.assertIn("tests/fuzz/corpus/python", calls[0])
        self.assertIn("seeds", calls[0])
        self.assertIn("-merge=1", calls[1])
        self.assertEqual([p.name for p in (fuzzing.LEARNT / "python").iterdir()], ["small"])

    def test_a_crash_is_a_finding(self):
        row, _ = self.run_target(
            output="==7==ERROR: AddressSanitizer: heap\nSUMMARY: AddressSanitizer: heap a.cpp:3\n"
                   + STATISTICS, status=1)
        self.assertTrue(row[3])
        self.assertIn("| AddressSanitizer: heap a.cpp:3 |", self.fuzz.table([row]))

    def test_a_time_out_and_a_silent_end_are_findings(self):
        row, _ = self.run_target(output="==7== ERROR: libFuzzer: timeout after 11 seconds\n",
                                 status=70)
        self.assertEqual(row[2], "ERROR: libFuzzer: timeout after 11 seconds")
        row, _ = self.run_target(output="", status=139)
        self.assertEqual((row[2], row[3]), ("ended with status 139", True))
        self.assertIn("| – | – | – | – | – |", self.fuzz.table([row]))

    def test_executions_add_up_in_the_record(self):
        page = "# Page\n<!-- executions -->\n" + self.fuzz.RECORD_HEAD + "<!-- end -->\nand on\n"
        stats = {"number_of_executed_units": 1_800_000, "average_exec_per_sec": 500}
        page = self.fuzz.with_row(page, ("python", stats, "clean", False))
        page = self.fuzz.with_row(page, ("onnx", stats, "clean", False))
        stats = {"number_of_executed_units": 3600, "average_exec_per_sec": 1000}
        page = self.fuzz.with_row(page, ("python", stats, "clean", False))
        page = self.fuzz.with_row(page, ("python", {}, "ended with status 139", True))
        self.assertEqual(page.splitlines()[4:],
                         ["| onnx | 1,800,000 | 1.00 | 500 |",
                          "| python | 1,803,600 | 1.00 | 1,000 |",
                          "| all | 3,603,600 | 2.00 | |", "<!-- end -->", "and on"])
        self.assertEqual(self.fuzz.recorded(page)["python"], (1_803_600, 1.0, 1000))

    def test_the_record_is_on_its_page(self):
        done = self.fuzz.recorded(self.fuzz.RECORD.read_text(encoding="utf-8"))
        self.assertLessEqual(set(done), set(fuzzing.targets()))

    def test_an_interruption_is_none(self):
        row, _ = self.run_target(status=fuzzing.INTERRUPTED)
        self.assertFalse(row[3])

    def test_targets_that_share_a_corpus_share_a_dictionary(self):
        command = fuzzing.command("script_fix", 1)
        self.assertTrue(any(each.endswith("dictionaries/python.dict") for each in command))
        self.assertTrue(any(each.endswith("corpus/python") for each in command))

    def test_all_dictionaries_belong_to_targets_and_can_be_read(self):
        import re
        for path in fuzzing.DICTIONARIES.glob("*.dict"):
            self.assertIn(path.stem, fuzzing.targets())
            for line in path.read_text(encoding="utf-8").splitlines():
                self.assertRegex(line, r'^(#.*|"([^"\\]|\\\\|\\"|\\x[0-9a-f]{2})+")$')

    def test_scripts_of_the_specs_are_seeds(self):
        folder = self.fuzz.write_seeds_of_specs(self.build / "seeds")
        seeds = list(folder.iterdir())
        self.assertGreater(len(seeds), 1000)
        self.assertFalse(any("```" in seed.read_text(encoding="utf-8") for seed in seeds))


if __name__ == "__main__":
    unittest.main()
