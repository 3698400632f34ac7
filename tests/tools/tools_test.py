"""Tests of the scripts in tools/."""

import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(TOOLS / name))
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Layers(unittest.TestCase):
    ALLOWED = [
        ("rules/gemm/padding.cpp", "rules/gate.h"),
        ("rules/gemm/padding.cpp", "rules/gemm/shared.h"),
        ("rules/gemm/padding.cpp", "tuner/width_search.h"),
        ("readers/onnx.cpp", "formats/onnx/load.h"),
        ("readers/onnx_ops.cpp", "readers/onnx.h"),
        ("readers/onnx.cpp", "readers/reader.h"),
        ("hardware/device.h", "workload/tensor.h"),
        ("cli/main.cpp", "rooftile.h"),
        ("pipeline/check.cpp", "rules/rule.h"),
        ("base/text.cpp", "base/text.h"),
    ]
    FORBIDDEN = [
        ("rules/gemm/padding.cpp", "rules/conv/depthwise.h"),
        ("rules/gemm/padding.cpp", "readers/reader.h"),
        ("readers/onnx.cpp", "readers/hf_config.h"),
        ("readers/onnx.cpp", "hardware/device.h"),
        ("hardware/device.h", "workload/op.h"),
        ("workload/op.h", "analysis/cost.h"),
        ("findings/report.h", "analysis/cost.h"),
        ("reports/text.cpp", "analysis/cost.h"),
        ("analysis/cost.cpp", "rules/rule.h"),
        ("cli/main.cpp", "reports/reports.h"),
        ("base/text.cpp", "workload/op.h"),
        ("new_folder/file.cpp", "workload/op.h"),
        ("loose_file.cpp", "workload/op.h"),
    ]

    def test_table(self):
        layers = load("check_layers")
        for source, included in self.ALLOWED:
            self.assertIsNone(layers.breach_of_layers(source, included), (source, included))
        for source, included in self.FORBIDDEN:
            self.assertIsNotNone(layers.breach_of_layers(source, included), (source, included))

    def test_libraries(self):
        layers = load("check_layers")
        self.assertIsNone(layers.breach_of_libraries("formats/onnx/load.cpp", "onnx/onnx_pb.h", {}))
        self.assertIsNotNone(layers.breach_of_libraries("rules/rule.cpp", "onnx/onnx_pb.h", {}))
        self.assertIsNone(layers.breach_of_libraries("cli/measure.cpp", "gpu/bench.h", {}))
        self.assertIsNotNone(layers.breach_of_libraries("tuner/calibrate.cpp", "gpu/bench.h", {}))
        header, json = "reports/values.h", "nlohmann/json.hpp"
        inside, outside = {header: ["reports/json.cpp"]}, {header: ["cli/main.cpp"]}
        self.assertIsNone(layers.breach_of_libraries(header, json, inside))
        self.assertIsNotNone(layers.breach_of_libraries(header, json, outside))


class NewRule(unittest.TestCase):
    def test_creates_three_places_once(self):
        new_rule = load("new_rule")
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            listed = root / "src/rooftile/rules/rule_list.inc"
            listed.parent.mkdir(parents=True)
            listed.write_text("RULE(conv_depthwise)\nRULE(gemm_single_row)\n", encoding="utf-8")
            paths = new_rule.create(root, "gemm/a-b", "Something is wrong")
            self.assertEqual(len(paths), 3)
            self.assertIn('.id = "gemm/a-b"', paths[0].read_text(encoding="utf-8"))
            self.assertEqual(listed.read_text(encoding="utf-8"),
                             "RULE(conv_depthwise)\nRULE(gemm_a_b)\nRULE(gemm_single_row)\n")
            self.assertIn("# finding: gemm/a-b", paths[2].read_text(encoding="utf-8"))
            self.assertIsNone(new_rule.create(root, "gemm/a-b", "Something is wrong"))
            script = new_rule.create(root, "launch/c-d", "Something is wrong", "script")
            self.assertIn(".in_scripts", script[0].read_text(encoding="utf-8"))
            self.assertIn("```python\n", script[2].read_text(encoding="utf-8"))
            trace = new_rule.create(root, "launch/e-f", "Something is wrong", "trace")
            self.assertIn("judge_ranks", trace[0].read_text(encoding="utf-8"))
            spec = trace[2].read_text(encoding="utf-8")
            self.assertIn("```trace device=h100_sxm\n# finding: launch/e-f\nrepeat", spec)
            self.assertIn("ProfilerStep#{i}", spec)


class Consoles(unittest.TestCase):
    def test_output_is_replaced_and_foreign_commands_are_not_run(self):
        docs = load("refresh_docs")
        text = ("Before\n```console\n$ echo 'a b' | ./rooftile\nold\n$ ./rooftile -s c\nold\n```\n"
                "```console\n$ rm -rf nothing\nkept\n```\nAfter\n")
        new = docs.refresh_consoles(text, "/bin/cat")
        self.assertIn("$ echo 'a b' | ./rooftile\na b\n", new)
        self.assertIn("$ rm -rf nothing\nkept\n", new)
        self.assertTrue(new.startswith("Before\n") and new.endswith("After\n"))
        self.assertEqual(docs.refresh_consoles(new, "/bin/cat"), new)


class TidyBatches(unittest.TestCase):
    def test_names_that_cannot_get_a_number_are_apart(self):
        import sys
        sys.path.insert(0, str(TOOLS))
        import tidy_cache
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {
                "a.cpp": "namespace {\nint judge(int x) {\n  return x;\n}\n}\n",
                "b.cpp": "namespace {\nstd::vector<int> judge() {\n}\n}\n",
                "c.cpp": "namespace {\nstruct Part {\n};\nint x = Part::size();\n}\n",
                "d.cpp": "class Part {\n};\nint y = here::Part::size();\n",
            }
            for name, text in texts.items():
                (root / name).write_text(text, encoding="utf-8")
            batches = tidy_cache.make_batches([root / name for name in texts])
            self.assertEqual([[p.name for p in b] for b in batches],
                             [["a.cpp", "b.cpp", "c.cpp"], ["d.cpp"]])


if __name__ == "__main__":
    unittest.main()
