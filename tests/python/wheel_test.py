"""The wheel in fresh environments of every Python on the machine.

ROOFTILE_WHEEL names a built wheel to test. Without it one is put together from the sources and the program of the
tests, with the names that the built one has: a release takes minutes to build.
"""

import base64
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

from support import PACKAGE, ROOT, VOCABULARY

OLDEST = (3, 9)
MODULES = sorted(path.stem for path in (PACKAGE / "rooftile").glob("_*.py"))
CHECK = f"""
import importlib, json, sys
import rooftile
for name in {MODULES!r}:
    if name not in ("__init__", "__main__"):
        importlib.import_module("rooftile." + name)
report = rooftile.check({VOCABULARY!r}, gpu="h100")
print(json.dumps([report.findings[0].rule, len(report.operations), report.memory.verdict, rooftile.__file__]))
"""
MOST_BYTES, MOST_START_S = 8e6, 0.02


def pythons():
    """An interpreter of each version that the package supports."""
    own = pathlib.Path("~/.pyenv/versions").expanduser()
    places = [*map(pathlib.Path, os.environ["PATH"].split(os.pathsep)), *own.glob("*/bin")]
    found = {}
    for path in (path for place in places for path in place.glob("python3.[0-9]*")):
        if not re.fullmatch(r"python3\.\d+", path.name):
            continue
        asked = subprocess.run([path, "-c", "import sys, venv; print(*sys.version_info[:2])"], capture_output=True,
                               text=True, check=False)
        if asked.returncode == 0:
            found.setdefault(tuple(map(int, asked.stdout.split())), path)
    return {version: path for version, path in sorted(found.items()) if version >= OLDEST}


def settings():
    """Name, version and tag, as the build makes them."""
    text = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'kVersion = "([^"]+)"', (ROOT / "src/rooftile/base/version.h").read_text())[1]
    return re.search(r'(?m)^name = "(.*)"', text)[1], version, re.search(r'wheel.py-api = "(.*)"', text)[1]


def assemble(folder):
    """A wheel around the program of the tests, without its debug information."""
    name, version, api = settings()
    stem, program = f"{name}-{version}", folder / "rooftile"
    stripped = subprocess.run(["strip", "-o", program, os.environ["ROOFTILE_PROGRAM"]], check=False).returncode == 0
    if not stripped:
        shutil.copy(os.environ["ROOFTILE_PROGRAM"], program)
    tag = f"{api}-none-linux_{os.uname().machine}"
    files = {str(path.relative_to(PACKAGE)): path.read_bytes() for path in (PACKAGE / "rooftile").rglob("*")
             if path.is_file() and "__pycache__" not in path.parts}
    files[f"{stem}.data/scripts/rooftile"] = program.read_bytes()
    files[f"{stem}.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{stem}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    rows = [f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
            for path, data in files.items()]
    files[f"{stem}.dist-info/RECORD"] = "\n".join([*rows, f"{stem}.dist-info/RECORD,,", ""]).encode()
    wheel = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if path.endswith("scripts/rooftile") else 0o100644) << 16
            archive.writestr(entry, data)
    return wheel


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        given = os.environ.get("ROOFTILE_WHEEL")
        cls.is_release = bool(given)
        cls.wheel = pathlib.Path(given) if given else assemble(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def install(self, version, python):
        """An environment that holds the wheel alone."""
        place = self.folder / f"python{version[0]}.{version[1]}"
        subprocess.run([python, "-m", "venv", "--without-pip", place], check=True)
        # Another Python's pip may be too old for this one.
        has_pip = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
        done = subprocess.run(
            [python if has_pip else sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "-q",
             "--no-index", "--disable-pip-version-check", "--no-compile", self.wheel],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return place / "bin"

    def test_every_python(self):
        versions = pythons()
        self.assertTrue(versions)
        for version, python in versions.items():
            with self.subTest(version=version):
                folder = self.install(version, python)
                clean = {"PATH": f"{folder}:/usr/bin:/bin"}
                done = subprocess.run([folder / "python", "-c", CHECK], capture_output=True, text=True, env=clean,
                                      check=False, cwd=self.folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                rule, operations, fit, place = json.loads(done.stdout)
                self.assertEqual((rule, operations, fit), ("gemm/unaligned-row-stride", 1, "fits"))
                self.assertIn(str(folder.parent), place)
                script = self.folder / "script.py"
                script.write_text("import sys\nprint(sys.version_info[:2], sys.argv[1:])\nsys.exit(3)\n")
                ran = subprocess.run(["rooftile", "run", script, "--x"], capture_output=True, text=True, env=clean,
                                     check=False, cwd=self.folder)
                self.assertEqual((ran.returncode, ran.stdout), (3, f"{version} ['--x']\n"), ran.stderr)
                shutil.rmtree(folder.parent)

    def test_the_program_itself_is_the_script(self):
        with zipfile.ZipFile(self.wheel) as archive:
            (script,) = [name for name in archive.namelist() if name.endswith(".data/scripts/rooftile")]
            self.assertEqual(archive.read(script)[:4], b"\x7fELF")
            self.assertFalse([name for name in archive.namelist() if ".so" in name])
        self.assertRegex(self.wheel.name, r"^rooftile-[0-9.]+-py3-none-(many)?linux")

    def test_limits_of_a_release(self):
        if not self.is_release:
            self.skipTest("ROOFTILE_WHEEL names no built wheel")
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)
        folder = self.install(sys.version_info[:2], sys.executable)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            subprocess.run([folder / "rooftile", "--version"], check=True, capture_output=True)
            times.append(time.perf_counter() - begin)
        self.assertLess(min(times), MOST_START_S)


@unittest.skipUnless(importlib.util.find_spec("pathspec") and (ROOT / ".git").exists(), "no pathspec, or no checkout")
class SourceDistribution(unittest.TestCase):
    """Which files of the repository `python -m build --sdist` takes: those that it tracks without the excluded ones."""

    @classmethod
    def setUpClass(cls):
        import pathspec

        text = (ROOT / "pyproject.toml").read_text()
        excluded = json.loads(re.search(r"(?m)^sdist\.exclude = (\[.*\])", text)[1])
        tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        cls.without = pathspec.PathSpec.from_lines("gitignore", excluded)
        cls.files = {path for path in tracked.splitlines() if not cls.without.match_file(path)}

    def assert_held(self, patterns):
        for pattern in patterns:
            named = {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern) if not path.name.endswith("_test.cpp")}
            with self.subTest(pattern=pattern):
                self.assertTrue(named)
                self.assertEqual(named - self.files, set())

    def test_what_cmake_reads(self):
        program = (ROOT / "CMakeLists.txt").read_text().partition("if(ROOFTILE_TESTS)\n  find_package")[0]
        globs = re.findall(r"file\(GLOB(_RECURSE)? \w+ CONFIGURE_DEPENDS ([^)]*)\)", program)
        self.assertGreater(len(globs), 5)
        for recursive, patterns in globs:
            self.assert_held(re.sub(r"/(?=[^/]*$)", "/**/", one) if recursive else one for one in patterns.split())
        self.assert_held(re.findall(r"(?m)^include\((.*)\)", program))
        self.assert_held(("CMakeLists.txt", "CMakePresets.json", "src/**/*.h", "cmake/*.cmake"))

    def test_what_the_package_and_its_dependencies_need(self):
        self.assert_held(("pyproject.toml", "README.md", "LICENSE", "python/rooftile/**/*.py",
                          "python/rooftile/py.typed", "tools/install_dependencies", "tools/progress.sh",
                          "tools/fetch_sdist.py", "tools/requirements/*.txt"))

    def test_nothing_else(self):
        folders = {path.partition("/")[0] for path in self.files if "/" in path}
        self.assertEqual(folders, {"cmake", "data", "python", "src", "tools"})
        self.assertFalse([path for path in self.files if path.endswith("_test.cpp")])
        self.assertTrue(self.without.match_file("build/wheel/rooftile"))


if __name__ == "__main__":
    unittest.main()
