"""Tests of the launcher and of the installation of packages, with a stand-in for apt-get."""

import fcntl
import os
import pathlib
import pty
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

FAKES = {
    "apt-get": """#!/bin/sh
echo "$*" >>"$FAKE_LOG"
case "$*" in
  *update*) exit 0 ;;
esac
case "$FAKE_APT" in
  locked)
    echo "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend."
    echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 17 (unattended-upgr)"
    echo "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)"
    exit 100 ;;
  offline)
    echo "E: Unable to locate package mold"
    exit 100 ;;
esac
touch "$FAKE_LOG.installed"
""",
    "dpkg-query": """#!/bin/sh
case "$*" in
  *mold* | *libyaml-dev*) [ -e "$FAKE_LOG.installed" ] && printf installed || printf not-installed ;;
  *) printf installed ;;
esac
""",
    "id": "#!/bin/sh\necho 0\n",
    "cmake": "#!/bin/sh\necho cmake version 3.31.0\n",
    "python3": """#!/bin/sh
if [ "$2" = venv ]; then
  mkdir -p "$3/bin"
  printf '#!/bin/sh\\nexit 0\\n' >"$3/bin/python"
  chmod +x "$3/bin/python"
fi
""",
}


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


class Checkout:
    """A copy of the launchers, where ONNX and tree-sitter are built already."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder) / "a checkout"
        shutil.copytree(ROOT / "tools", self.root / "tools",
                        ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "rooftile", self.root / "rooftile")
        for name in ("src", "data", "cmake"):
            (self.root / name).mkdir()
        for name in ("CMakeLists.txt", "CMakePresets.json"):
            (self.root / name).touch()
        self.fakes = pathlib.Path(folder) / "bin"
        for name, text in FAKES.items():
            write_program(self.fakes / name, text)
        listed = subprocess.run([self.root / "tools/install_dependencies", "list"],
                                capture_output=True, text=True, check=True).stdout
        pins = {line.split()[2]: line.split()[3] for line in listed.splitlines()
                if line.startswith("source ")}
        installed = self.root / "build/deps/install"
        installed.mkdir(parents=True)
        (installed / f".onnx_{pins['onnx']}").touch()
        (installed / f".isal_{pins['isal']}").touch()
        (installed / (f".tree_sitter_{pins['tree-sitter']}_{pins['tree-sitter-python']}"
                      "_with_core")).touch()
        self.log = pathlib.Path(folder) / "apt_log"

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if k not in ("CI", "TERM")}
        return {**kept, "PATH": f"{self.fakes}:{os.environ['PATH']}", "TERM": "dumb",
                "FAKE_LOG": str(self.log), "FAKE_APT": "", **more}

    def apt_calls(self):
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def install(self, *arguments, **environment):
        """Without a terminal."""
        return subprocess.run([self.root / "tools/install_dependencies", *arguments],
                              env=self.environment(**environment), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60)

    def install_at_terminal(self, answer, *arguments, **environment):
        """(exit status, what the terminal shows) when someone answers so."""
        master, slave = pty.openpty()
        process = subprocess.Popen([self.root / "tools/install_dependencies", *arguments],
                                   env=self.environment(**environment), stdin=slave, stdout=slave,
                                   stderr=slave)
        os.close(slave)
        os.write(master, answer.encode())
        shown = b""
        try:
            while piece := os.read(master, 4096):
                shown += piece
        except OSError:  # the other side is closed
            pass
        os.close(master)
        return process.wait(timeout=60), shown.decode()


class WithCheckout(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.checkout = Checkout(folder.name)


class Packages(WithCheckout):
    def test_without_a_terminal_they_are_named_and_installed(self):
        done = self.checkout.install("test")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("Debian packages: libyaml-dev mold", done.stdout)
        self.assertNotIn("[Y/n]", done.stdout)
        self.assertIn("install -y --no-install-recommends libyaml-dev mold",
                      self.checkout.apt_calls())

    def test_a_person_can_refuse(self):
        status, shown = self.checkout.install_at_terminal("n\n", "run")
        self.assertEqual(status, 2, shown)
        self.assertIn("Debian packages: libyaml-dev", shown)
        self.assertIn("n: nothing is installed", shown)
        self.assertIn("nothing was installed", shown)
        self.assertIn("apt-get install -y libyaml-dev", shown)
        self.assertEqual(self.checkout.apt_calls(), "")

    def test_the_end_of_the_input_is_no_consent(self):
        status, shown = self.checkout.install_at_terminal("\x04", "run")
        self.assertEqual(status, 2, shown)
        self.assertEqual(self.checkout.apt_calls(), "")

    def test_a_person_agrees_by_return(self):
        status, shown = self.checkout.install_at_terminal("\n", "run")
        self.assertEqual(status, 0, shown)
        self.assertIn("install", self.checkout.apt_calls())

    def test_yes_and_ci_ask_nothing(self):
        for arguments, environment in ((["--yes", "run"], {}), (["run"], {"CI": "true"})):
            (self.checkout.log.parent / "apt_log.installed").unlink(missing_ok=True)
            for stamp in (self.checkout.root / "build/deps").glob("installed_*"):
                stamp.unlink()
            status, shown = self.checkout.install_at_terminal("", *arguments, **environment)
            self.assertEqual(status, 0, shown)
            self.assertNotIn("[Y/n]", shown)

    def test_ci_switched_off_is_no_ci(self):
        status, shown = self.checkout.install_at_terminal("n\n", "run", CI="false")
        self.assertEqual(status, 2, shown)

    def test_a_held_lock_is_said(self):
        done = self.checkout.install("run", FAKE_APT="locked")
        self.assertEqual(done.returncode, 2)
        self.assertIn("rooftile: another program holds apt's lock; call again when it has ended",
                      done.stdout)
        self.assertIn("held by process 17 (unattended-upgr)", done.stdout)
        self.assertNotIn("offline?", done.stdout)

    def test_other_failures_are_no_lock(self):
        done = self.checkout.install("test", FAKE_APT="offline")
        self.assertEqual(done.returncode, 2)
        self.assertIn("is the machine offline?", done.stdout)
        self.assertNotIn("lock", done.stdout)

    def test_a_second_launch_says_that_it_waits(self):
        lock = open(self.checkout.root / "build/deps/lock", "w", encoding="utf-8")
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen([self.checkout.root / "tools/install_dependencies", "run"],
                                   env=self.checkout.environment(), stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.assertIn("Another launch installs", process.stderr.readline())
        self.assertIsNone(process.poll())
        lock.close()
        _, rest = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, rest)


class Launcher(WithCheckout):
    def setUp(self):
        super().setUp()
        self.build = self.checkout.root / "build"

    def make_program(self, is_stale):
        write_program(self.build / "release/rooftile", '#!/bin/sh\necho "ran $*"\n')
        stamp = self.build / "release/up_to_date"
        stamp.touch()
        os.utime(stamp, (1, 1) if is_stale else (4e9, 4e9))

    def launch(self, *arguments):
        """As somebody who cannot write to folders of the mode 555: root can."""
        def drop_root():
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
        top = self.checkout.root.parent
        for folder in (top, *self.checkout.root.rglob("*"), self.checkout.root):
            if folder.is_dir():
                folder.chmod(0o555)
        try:
            return subprocess.run([self.checkout.root / "rooftile", *arguments], text=True,
                                  env=self.checkout.environment(), capture_output=True, timeout=60,
                                  preexec_fn=drop_root)
        finally:
            for folder in (top, self.checkout.root, *self.checkout.root.rglob("*")):
                if folder.is_dir():
                    folder.chmod(0o755)

    def test_a_program_that_is_up_to_date_runs(self):
        self.make_program(is_stale=False)
        done = self.launch("--yes", "check", "a b")
        self.assertEqual((done.stdout, done.stderr), ("ran check a b\n", ""))

    def test_where_nothing_can_be_written_the_old_program_runs(self):
        self.make_program(is_stale=True)
        done = self.launch("check")
        self.assertEqual((done.returncode, done.stdout), (0, "ran check\n"))
        self.assertIn("sources are newer than the program", done.stderr)

    def test_where_nothing_can_be_written_and_nothing_is_built_one_line_says_so(self):
        done = self.launch("check")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("cannot be written", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)


class Sbom(unittest.TestCase):
    def test_is_that_of_the_pinned_versions(self):
        done = subprocess.run([ROOT / "tools/sbom", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_has_what_the_format_asks_for(self):
        import json
        sbom = json.loads((ROOT / "docs/sbom.cdx.json").read_text(encoding="utf-8"))
        self.assertEqual((sbom["bomFormat"], sbom["specVersion"]), ("CycloneDX", "1.5"))
        refs = [part["bom-ref"] for part in sbom["components"]]
        self.assertEqual(len(refs), len(set(refs)))
        for part in sbom["components"]:
            self.assertIn(part["scope"], ("required", "excluded"))
            self.assertRegex(part["purl"], r"^pkg:(deb/debian|pypi)/[A-Za-z0-9.%+-]+[@?]")
            if part["purl"].startswith("pkg:pypi/"):
                hashes = part["externalReferences"][0]["hashes"]
                self.assertTrue(part["version"] and hashes)
                self.assertTrue(all(len(each["content"]) == 64 for each in hashes))
        self.assertTrue(set(sbom["dependencies"][0]["dependsOn"]) <= set(refs))

    def test_a_changed_pin_makes_it_stale(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("tools", "docs"):
                shutil.copytree(ROOT / name, root / name)
            (root / "src/rooftile/base").mkdir(parents=True)
            shutil.copy(ROOT / "src/rooftile/base/version.h", root / "src/rooftile/base")
            script = root / "tools/install_dependencies"
            script.write_text(script.read_text(encoding="utf-8").replace(
                "onnx_version=", "onnx_version=9"), encoding="utf-8")
            done = subprocess.run([root / "tools/sbom", "--check"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("run tools/sbom", done.stderr)


if __name__ == "__main__":
    unittest.main()
