"""Tests of the mutations that tools/mutate makes."""

import importlib.machinery
import importlib.util
import pathlib
import random
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
import mutants  # noqa: E402  (needs the path above)

SOURCE = """\
#include <vector>  // a < b
#define LIMIT 3 + 4 \\
  + 5

namespace rooftile {
enum class Kind { a = 3, b };
constexpr double kShare = 0.5;

// a comment: x < y && z
bool is_small(const std::vector<int>& values, int limit) {
  if (values.empty() && limit > 0) return true;
  const char* text = R"(x < y)";
  int found = 0;
  for (int i = 0; i < limit; ++i) {
    if (int value = values[i]) continue;
    found += scaled(values[i], limit);
    log.add(found, limit);
  }
  if (const int last = values.back(); last == 3) found = last;
  values.reserve(found + 10);
  say(fmt::format("{} of {}", found + 1, limit - 1));
  return found <= std::min(limit, 7) || text == "a" + suffix;
}

void Part::reset() {
  total_ = 1'000;
}
}
"""


def changes(operator=None):
    """Each mutant as the line that it makes, stripped."""
    found = []
    for mutant in mutants.mutants_of("x.cpp", SOURCE):
        if operator in (None, mutant.operator):
            found.append(mutants.shown_line(mutants.applied(SOURCE, mutant), mutant.begin)[1])
    return found


class Operators(unittest.TestCase):
    def test_comparisons_move_their_border_and_turn_round(self):
        found = changes("comparison")
        self.assertIn("if (values.empty() && limit >= 0) return true;", found)
        self.assertIn("if (values.empty() && limit < 0) return true;", found)
        self.assertIn("for (int i = 0; i <= limit; ++i) {", found)
        self.assertIn("if (const int last = values.back(); last != 3) found = last;", found)
        self.assertEqual(len(found), 8)

    def test_logical_operators_but_no_references(self):
        self.assertEqual(changes("logical"),
                         ["if (values.empty() || limit > 0) return true;",
                          'return found <= std::min(limit, 7) && text == "a" + suffix;'])

    def test_arithmetic_but_no_pointers_and_no_texts(self):
        found = changes("arithmetic")
        self.assertIn("found -= scaled(values[i], limit);", found)
        self.assertIn('return found <= std::max(limit, 7) || text == "a" + suffix;', found)
        self.assertEqual(len(found), 2)

    def test_constants_keep_their_type(self):
        found = changes("constant")
        self.assertIn("constexpr double kShare = 0.625;", found)
        self.assertIn("total_ = 1001;", found)
        self.assertIn("if (values.empty() && limit > 0) return false;", found)
        self.assertNotIn("enum class Kind { a = 4, b };", found)
        for number, changed in (("0", "1"), ("0.0", "1.0"), ("2.0f", "2.5f"), ("7U", "8U"),
                                ("1e6", "1250000.0"), ("0xff", None), ("1.5h_", "1.875h_")):
            self.assertEqual(mutants.changed_number(number), changed)

    def test_conditions_but_no_declarations(self):
        self.assertEqual(changes("condition"),
                         ["if (!(values.empty() && limit > 0)) return true;",
                          "if (const int last = values.back(); !(last == 3)) found = last;"])

    def test_arguments_but_no_parameters(self):
        self.assertEqual(changes("swap"), ["log.add(limit, found);"])

    def test_statements_but_no_declarations(self):
        found = changes("statement")
        self.assertEqual(found.count(";"), 4)  # found +=, log.add, say, total_ =
        self.assertIn("if (int value = values[i]) ;", found)
        self.assertIn("if (const int last = values.back(); last == 3) ;", found)

    def test_functions_return_at_once(self):
        found = changes("return")
        self.assertEqual([line.split(") ", 1)[1] for line in found],
                         ["{ return {};", "{ return;"])

    def test_nothing_in_comments_directives_texts_and_reservations(self):
        lines = [mutants.shown_line(SOURCE, m.begin) for m in mutants.mutants_of("x.cpp", SOURCE)
                 if m.operator != "statement"]
        for number, line in lines:
            self.assertGreater(number, 6, line)
            self.assertNotIn("comment", line)
            self.assertNotIn("fmt::format", line)
            self.assertNotIn("reserve", line)

    def test_all_of_them_on_a_real_file(self):
        path = TOOLS.parent / "src/rooftile/rules/gate.cpp"
        text = path.read_text(encoding="utf-8")
        found = mutants.mutants_of("gate.cpp", text)
        self.assertGreaterEqual({m.operator for m in found},
                                {"comparison", "arithmetic", "constant", "condition", "statement"})
        for mutant in found:
            self.assertNotEqual(mutants.applied(text, mutant), text)


class Sampling(unittest.TestCase):
    def test_each_operator_has_its_share_and_a_seed_is_repeatable(self):
        found = mutants.mutants_of("x.cpp", SOURCE)
        first = mutants.sample(found, 8, random.Random(5))
        self.assertEqual(first, mutants.sample(list(reversed(found)), 8, random.Random(5)))
        self.assertEqual(len({m.operator for m in first}), 8)
        self.assertEqual(len(mutants.sample(found, 1000, random.Random(5))), len(found))


class Outcomes(unittest.TestCase):
    def setUp(self):
        loader = importlib.machinery.SourceFileLoader("mutate", str(TOOLS / "mutate"))
        spec = importlib.util.spec_from_loader("mutate", loader)
        self.mutate = importlib.util.module_from_spec(spec)
        loader.exec_module(self.mutate)

    def worker(self, folder, tests, limit_s=20):
        """A worker on a program that stands for the tests."""
        self.mutate.OUT = pathlib.Path(folder)
        program = self.mutate.OUT / "rooftile_tests"
        program.write_text("#!/bin/sh\n" + tests, encoding="utf-8")
        program.chmod(0o755)
        return self.mutate.Worker(0, None, 2, limit_s)

    def test_killed_survived_and_timed_out(self):
        with tempfile.TemporaryDirectory() as folder:
            tests = ('if [ "$GTEST_SHARD_INDEX" = 1 ]; then echo "[  FAILED  ] A.B (3 ms)"; exit 1;'
                     " fi\nexec sleep 30\n")
            outcome = self.worker(folder, tests).test(program=self.mutate.OUT)
            self.assertEqual(outcome, ("killed", "A.B"))
            self.assertEqual(self.worker(folder, "exit 0\n").test(program=self.mutate.OUT)[0],
                             "survived")
            outcome = self.worker(folder, "exec sleep 30\n", 0.3).test(program=self.mutate.OUT)
            self.assertEqual(outcome[0], "timed out")
            self.assertEqual(self.mutate.PROCESSES.running, set())

    def test_tests_of_the_folder_and_specs_of_the_rule_come_first(self):
        near = self.mutate.near_tests(self.mutate.SOURCES / "rules/gemm/many_small.cpp")
        self.assertIn("gemm/many_small.*", near)
        near = self.mutate.near_tests(self.mutate.SOURCES / "readers/hf_config/emit_feed.cpp")
        self.assertIn("HfDecode.*", near)
        with tempfile.TemporaryDirectory() as folder:
            worker = self.worker(folder, 'case "$*" in *=A.*:*/A.*-B.*) exit 0 ;; esac; exit 1\n')
            worker.excluded = ["B.*"]
            outcome = worker.test(["A.*", "*/A.*"], program=self.mutate.OUT)
            self.assertEqual(outcome[0], "survived")

    def test_a_crash_names_the_test_that_ran(self):
        with tempfile.TemporaryDirectory() as folder:
            tests = 'echo "[ RUN      ] A.C"; kill -SEGV $$\n'
            self.assertEqual(self.worker(folder, tests).test(program=self.mutate.OUT),
                             ("killed", "A.C (ended)"))

    def test_the_end_is_the_end_of_all_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            worker = self.worker(folder, "exec sleep 30\n")
            process = self.mutate.PROCESSES.start(["sleep", "30"])
            self.mutate.PROCESSES.end()
            self.assertLess(process.wait(timeout=5), 0)
            with self.assertRaises(self.mutate.Stopped):
                worker.test(program=self.mutate.OUT)


if __name__ == "__main__":
    unittest.main()
