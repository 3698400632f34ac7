"""Tests of the mutations that tools/mutate makes, and of how it judges them."""

import collections
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

from clang import cindex

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))
import mutants  # noqa: E402  (needs the path above)

SOURCE = """\
#define LIMIT 3 + 4 \\
  + 5
namespace math {
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
}
struct Values {
  bool empty() const;
  int size() const;
  void reserve(int);
  int operator[](int) const;
};
struct Log { void add(int, int); };
int scaled(int, int);
bool is_same(int, int);
const char* format(const char*, int, int);

namespace rooftile {
enum class Kind { zero, a = 3, b };
constexpr double kShare = 0.5;
constexpr int twice(int n) { return 2 * n; }
static_assert(twice(3) == 6);

// a comment: x < y && z
bool is_small(const Values& values, int limit, double share, double least, Log& log) {
  if (values.empty() && limit > 0) return true;
  const char* text = "x < y";
  int found = 0;
  for (int i = 0; i < limit; ++i) {
    if (int value = values[i]) continue;
    found += scaled(values[i], limit);
    log.add(found, limit);
  }
  if (const int last = values.size(); last == 3) found = last;
  Values().reserve(found + 10);
  format("{} of {}", found + 1, limit - 1);
  switch (found) {
    case 7: break;
    default: found = limit - (found + 1);
  }
  if (share < least || share * 2.5 > kShare) return is_same(found, limit);
  return found <= math::min(limit, 7) || text != nullptr;
}

Kind plain() { return Kind::zero; }
Kind other() { return Kind::b; }
Values nothing() { return Values(); }
int Half(int n) {
  int parts[4] = {};
  return parts[n] % 2;
}
}
"""


def found_in(source, path="x.cpp"):
    """(mutants, the syntax tree's errors)."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder).resolve() / "x.cpp"
        file.write_text(source, encoding="utf-8")
        unit = cindex.Index.create().parse(str(file), ["-std=c++20", "-w"])
        errors = [str(d) for d in unit.diagnostics]
        return mutants.mutants_of(unit, {str(file): (path, source.encode())}), errors


FOUND, ERRORS = found_in(SOURCE)


def changes(operator):
    """Each mutant of an operator: what it changes and into what."""
    text = SOURCE.encode()
    return [(text[m.begin:m.end].decode(), m.text) for m in FOUND if m.operator == operator]


class Operators(unittest.TestCase):
    def test_the_source_is_understood(self):
        self.assertEqual(ERRORS, [])

    def test_comparisons_move_their_border_and_turn_round(self):
        found = changes("comparison")
        self.assertIn(("limit > 0", "limit >= 0"), found)
        self.assertIn(("limit > 0", "limit < 0"), found)
        self.assertIn(("i < limit", "i <= limit"), found)
        self.assertIn(("last == 3", "last != 3"), found)
        self.assertNotIn("x < y", [old for old, _ in found])

    def test_a_border_between_computed_numbers_is_none(self):
        found = changes("comparison")
        self.assertIn(("share < least", "share > least"), found)
        self.assertNotIn(("share < least", "share <= least"), found)
        self.assertIn(("share * 2.5 > kShare", "share * 2.5 >= kShare"), found)

    def test_logical_operators_but_no_references(self):
        self.assertIn(("values.empty() && limit > 0", "(values.empty()) || (limit > 0)"),
                      changes("logical"))
        self.assertEqual(len(changes("logical")), 3)

    def test_arithmetic_keeps_what_bound_closer(self):
        found = changes("arithmetic")
        self.assertIn(("found += scaled(values[i], limit)", "found -= scaled(values[i], limit)"),
                      found)
        self.assertIn(("limit - (found + 1)", "limit + ((found + 1))"), found)
        self.assertIn(("math::min(limit, 7)", "math::max(limit, 7)"), found)
        self.assertIn(("parts[n] % 2", "parts[n] * 2"), found)

    def test_constants_keep_their_type(self):
        for number, changed in (("0", "1"), ("0.0", "1.0"), ("2.0f", "2.5f"), ("7U", "8U"),
                                ("1e6", "1250000.0"), ("0xff", None), ("1.5h_", "1.875h_")):
            self.assertEqual(mutants.changed_number(number), changed)
        found = changes("constant")
        self.assertIn(("2.5", "3.125"), found)
        self.assertIn(("true", "false"), found)

    def test_a_named_constant_changes_where_it_is_used(self):
        share = [m for m in FOUND if m.text == "0.625"]
        self.assertEqual(len(share), 1)
        text = SOURCE.encode()
        self.assertEqual([text[b:e] for b, e, *_ in share[0].places], [b"kShare"])

    def test_what_a_compiler_must_know_stays(self):
        olds = [old for operator in ("constant", "arithmetic", "comparison")
                for old, _ in changes(operator)]
        self.assertFalse({"4", "6", "2 * n", "twice(3) == 6"} & set(olds))
        self.assertEqual(olds.count("3"), 1)  # `last == 3`, no enumerator and no argument
        self.assertEqual(olds.count("7"), 1)  # math::min(limit, 7), no label

    def test_conditions_but_no_declarations(self):
        self.assertEqual({old for old, _ in changes("condition")} - {"b < a", "a < b"},
                         {"values.empty() && limit > 0", "last == 3",
                          "share < least || share * 2.5 > kShare"})

    def test_arguments_of_one_type_but_no_symmetric_calls(self):
        self.assertEqual([new for _, new in changes("swap")],
                         ["scaled(limit, values[i])", "log.add(limit, found)"])

    def test_statements_but_no_declarations_heads_and_reservations(self):
        self.assertEqual([old for old, _ in changes("statement")],
                         ["continue", "found += scaled(values[i], limit)", "log.add(found, limit)",
                          "found = last", "break", "found = limit - (found + 1)"])

    def test_returned_values(self):
        found = changes("return")
        self.assertIn(("is_same(found, limit)", "!(is_same(found, limit))"), found)
        self.assertIn(("return parts[n] % 2", "return {}"), found)
        self.assertIn(("return Kind::b", "return {}"), found)
        self.assertFalse({"true", "return Kind::zero", "return Values()"} & {old for old, _ in found})


class Written(unittest.TestCase):
    def setUp(self):
        self.numbered = []
        places = set()
        for number, mutant in enumerate(FOUND, 1):
            mine = {(b, e) for b, e, *_ in mutant.places}
            if not mutants.overlaps_badly(places | mine):
                places |= mine
                self.numbered.append((number, mutant))

    def run_with(self, number, text):
        """What Half(5) and the loop give in a program with all mutants at once."""
        program = text.replace(mutants.HEADER.decode(), "") + """
#include <cstdlib>
extern "C" int printf(const char*, ...);
bool Values::empty() const { return false; }
int Values::size() const { return 3; }
void Values::reserve(int) {}
int Values::operator[](int i) const { return i % 2; }
void Log::add(int, int) {}
int scaled(int a, int b) { return 10 * a + b; }
bool is_same(int a, int b) { return a == b; }
const char* format(const char*, int, int) { return ""; }
int main() {
  Log log;
  printf("%d %d", rooftile::Half(3), rooftile::is_small(Values(), 4, 0.1, 0.2, log));
}
"""
        program = ("#include <cstdlib>\nbool is_active(int n) { return n == atoi(getenv(\"N\")); }\n"
                   "#define ROOFTILE_MUTANT(n) is_active(n)\n" + program)
        with tempfile.TemporaryDirectory() as folder:
            file, made = pathlib.Path(folder) / "x.cpp", pathlib.Path(folder) / "x"
            file.write_text(program, encoding="utf-8")
            subprocess.run(["clang++-14", "-std=c++20", "-w", file, "-o", made], check=True)
            return [subprocess.run([made], env={"N": str(n)}, capture_output=True, text=True,
                                   check=False).stdout for n in number]

    def test_all_at_once_compile_and_only_the_chosen_one_is_in_force(self):
        text, spans = mutants.written(SOURCE.encode(), self.numbered)
        returned = next(n for n, m in self.numbered if m.text == "return {}" and "parts" in
                        SOURCE.encode()[m.begin:m.end].decode())
        same = next(n for n, m in self.numbered if m.text == "!(is_same(found, limit))")
        plain = SOURCE.replace("int parts[4] = {};", "int parts[4] = {1, 1, 1, 1};")
        self.assertNotEqual(plain, SOURCE)
        text = text.decode().replace("int parts[4] = {};", "int parts[4] = {1, 1, 1, 1};")
        self.assertEqual(self.run_with([0, returned, same], text), ["1 0", "0 0", "1 1"])
        self.assertEqual({n for *_, n in spans}, {n for n, _ in self.numbered})

    def test_an_error_belongs_to_the_innermost_mutant(self):
        text, spans = mutants.written(SOURCE.encode(), self.numbered)
        for number, mutant in self.numbered:
            if mutant.operator == "logical":
                at = text.find(f"ROOFTILE_MUTANT({number})".encode())
                self.assertEqual(mutants.concerned(spans, at), number)
        self.assertIsNone(mutants.concerned(spans, 0))

    def test_places_that_cross_are_seen(self):
        self.assertTrue(mutants.overlaps_badly({(0, 5), (3, 8)}))
        self.assertFalse(mutants.overlaps_badly({(0, 8), (0, 5), (5, 8), (6, 7)}))


class Sampling(unittest.TestCase):
    def test_a_seed_is_repeatable_and_draws_from_all(self):
        by_key = mutants.keyed(FOUND, {"x.cpp": SOURCE.encode()})
        self.assertEqual(len(by_key), len(FOUND))
        first = mutants.sample(by_key, 8, 5)
        self.assertEqual(first, mutants.sample(dict(reversed(by_key.items())), 8, 5))
        drawn = {key for seed in range(100) for key in mutants.sample(by_key, 8, seed)}
        self.assertEqual(drawn, set(by_key))
        self.assertNotEqual(first, mutants.sample(by_key, 8, 6))
        self.assertEqual(len(mutants.sample(by_key, 1000, 5)), len(FOUND))

    def test_a_change_elsewhere_leaves_the_names(self):
        changed = SOURCE.replace("int found = 0;", "int found = 0, other = 1;")
        others, _ = found_in(changed)
        before = set(mutants.keyed(FOUND, {"x.cpp": SOURCE.encode()}))
        after = set(mutants.keyed(others, {"x.cpp": changed.encode()}))
        self.assertEqual(len(before - after), 1)
        self.assertEqual(len(after - before), 2)


class Outcomes(unittest.TestCase):
    def setUp(self):
        loader = importlib.machinery.SourceFileLoader("mutate", str(TOOLS / "mutate"))
        spec = importlib.util.spec_from_loader("mutate", loader)
        self.mutate = importlib.util.module_from_spec(spec)
        loader.exec_module(self.mutate)

    def judged(self, script, seconds=0.1):
        """The outcome of mutant 17 with a program that stands for the tests."""
        tests = [self.mutate.Test("A.B", seconds, frozenset([17])),
                 self.mutate.Test("A.C", 100.0, frozenset([17, 18]))]
        with tempfile.TemporaryDirectory() as folder:
            self.mutate.OUT = pathlib.Path(folder)
            program = self.mutate.OUT / "rooftile_tests"
            program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
            program.chmod(0o755)
            worker = self.mutate.Worker(0, self.mutate.OUT)
            outcome = worker.judge(17, self.mutate.batches_of(17, tests, collections.Counter()))
        self.assertEqual(self.mutate.PROCESSES.running, set())
        return outcome

    def test_killed_and_survived(self):
        failing = 'test "$ROOFTILE_ACTIVE_MUTANT" = 17 && echo "[  FAILED  ] A.B (3 ms)" && exit 1'
        self.assertEqual(self.judged(failing), ("killed", "A.B"))
        self.assertEqual(self.judged("exit 0"), ("survived", ""))

    def test_a_hang_is_a_failure(self):
        self.mutate.LIMIT_S, self.mutate.LIMIT_RATIO = 0.2, 0.0
        outcome = self.judged('echo "[ RUN      ] A.B"; exec sleep 30')
        self.assertEqual(outcome, ("timed out", "after 0 s in A.B"))

    def test_a_crash_names_the_test_that_ran(self):
        self.assertEqual(self.judged('echo "[ RUN      ] A.C"; kill -SEGV $$'),
                         ("killed", "A.C (ended)"))

    def test_only_the_tests_that_reach_it_run_and_the_fast_ones_first(self):
        tests = [self.mutate.Test("Slow.A", 9.0, frozenset([3])),
                 self.mutate.Test("Fast.A", 0.1, frozenset([3])),
                 self.mutate.Test("Broad.A", 0.1, frozenset(range(1000))),
                 self.mutate.Test("Other.A", 0.1, frozenset([4]))]
        def names(number, kills):
            batches = self.mutate.batches_of(number, tests, collections.Counter(kills))
            return [[test.name for test in batch] for batch in batches]

        self.assertEqual(names(3, {}), [["Fast.A"], ["Slow.A", "Broad.A"]])
        self.assertEqual(names(3, {"Broad": 2000}), [["Broad.A", "Fast.A"], ["Slow.A"]])
        self.assertEqual(names(2000, {}), [])
        self.assertEqual(self.mutate.Worker.judge(None, 2000, []),
                         ("survived", "no test reaches it"))

    def test_the_end_is_the_end_of_all_processes(self):
        process = self.mutate.PROCESSES.start(["sleep", "30"])
        self.mutate.PROCESSES.end()
        self.assertLess(process.wait(timeout=5), 0)
        with self.assertRaises(self.mutate.Stopped):
            self.judged("exit 0")


if __name__ == "__main__":
    unittest.main()
