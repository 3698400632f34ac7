"""The notebook runs, and documentation names what exists."""

import ast
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import rooftile
from support import ROOT, TRAINING_SCRIPT, environment

PAGES = ["docs/python.md", "docs/run.md", "docs/lightning.md", "docs/transformers.md", "docs/accelerate.md"]


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


class Notebook(unittest.TestCase):
    def test_runs_and_shows_the_finding(self):
        for name in ("nbclient", "ipykernel", "pandas"):
            if importlib.util.find_spec(name) is None:
                self.skipTest(f"{name} is not installed")
        import nbclient
        import nbformat

        for name, value in environment().items():
            os.environ[name] = value
        with tempfile.TemporaryDirectory() as folder:
            for path in sorted((ROOT / "examples").glob("*.ipynb")):
                notebook = nbformat.read(path, as_version=4)
                nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3",
                                        resources={"metadata": {"path": folder}}).execute()
                outputs = json.dumps([cell.get("outputs", []) for cell in notebook.cells])
                self.assertIn("unaligned-row-stride", outputs)
                self.assertIn("text/html", outputs)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


class Documentation(unittest.TestCase):
    def test_python_blocks_use_what_exists(self):
        for page in PAGES:
            self.assertTrue(blocks(page, "python"), page)
            for block in blocks(page, "python"):
                names = {node.attr for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Attribute)
                         and isinstance(node.value, ast.Name) and node.value.id == "rooftile"}
                for name in names - {"lightning", "transformers"}:
                    self.assertTrue(hasattr(rooftile, name), f"{page}: rooftile.{name}")

    def test_hooks_run_the_program(self):
        hooks = re.findall(r"(?m)^\s+entry: rooftile (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text())
        hooks += re.findall(r"(?m)^\s+entry: rooftile (.*)$", (ROOT / "docs/ci.md").read_text())
        self.assertEqual(len(hooks), 3)
        for hook in hooks:
            with tempfile.TemporaryDirectory() as folder:
                script = pathlib.Path(folder) / "train.py"
                script.write_text(TRAINING_SCRIPT)
                done = subprocess.run([os.environ["ROOFTILE_PROGRAM"], *hook.split(), script], capture_output=True,
                                      text=True, check=False)
                self.assertIn(done.returncode, (0, 1), done.stderr)

    def test_action(self):
        action = (ROOT / "action.yml").read_text()
        (command,) = re.findall(r"(?m)^      run: (rooftile .*)$", action)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "rooftile"
            program.symlink_to(os.environ["ROOFTILE_PROGRAM"])
            (pathlib.Path(folder) / "train.py").write_text(TRAINING_SCRIPT)
            for gpu in ("", "h100"):
                variables = {"PATH": f"{folder}:{os.environ['PATH']}", "INPUTS": "train.py", "GPU": gpu,
                             "FAIL_ON": "warning", "ARGUMENTS": "--verbose"}
                done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False,
                                      cwd=folder, env=variables)
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertRegex(done.stdout, r"(?m)^::(notice|warning) file=train.py,line=8,title=rooftile ")


if __name__ == "__main__":
    unittest.main()
