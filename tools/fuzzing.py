"""How a fuzz target is started: for ./test and tools/fuzz."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
STORED = ROOT / "tests" / "fuzz" / "corpus"
DICTIONARIES = ROOT / "tests" / "fuzz" / "dictionaries"
LEARNT = BUILD / "fuzz_corpus"
CRASHES = BUILD / "fuzz_crashes"
# Fuzz targets that take the same inputs as another one.
SHARED_CORPUS = {"script_fix": "python"}
# libFuzzer's exit status after SIGINT.
INTERRUPTED = 72

# The ONNX library is built without sanitizers; its containers know nothing of ASan's marks.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_container_overflow=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
# With ASan's default quarantine of 256 MiB each run touches fresh pages: about a fifth of the CPU time of
# targets with large buffers (kineto, nsys), and five times the memory. To record where memory was allocated
# takes a tenth of the time, to fill it another; who runs an input that failed again sees both.
FUZZ_OPTIONS = SANITIZER_OPTIONS | {
    "ASAN_OPTIONS": SANITIZER_OPTIONS["ASAN_OPTIONS"]
                    + ":quarantine_size_mb=4:malloc_context_size=0:max_malloc_fill_size=0",
}


def targets():
    """Names of all targets: python for tests/fuzz/python_fuzz.cpp."""
    return sorted(path.stem.removesuffix("_fuzz")
                  for path in (ROOT / "tests" / "fuzz").glob("*_fuzz.cpp"))


def program(name, preset="dev"):
    return BUILD / preset / f"{name}_fuzz"


def limits(name):
    return ["-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={CRASHES}/{name}-"]


def command(name, seconds, preset="dev", seed=0):
    """From the stored corpus; what is learnt stays under build/. A seed of 0 is another each time.

    Without entropic scheduling: it searches a list of all features for every feature of every run,
    and where a run has some 50,000 of them, as scripts do, that takes nine tenths of the time. There,
    how often a branch was taken is no feature either: nearly every script would be a new one by it. Nine in ten
    of the specs' scripts have less than a kibibyte; what longer ones would add is little for their time.
    """
    shared = SHARED_CORPUS.get(name, name)
    learnt = LEARNT / name
    learnt.mkdir(parents=True, exist_ok=True)
    CRASHES.mkdir(parents=True, exist_ok=True)
    dictionary = DICTIONARIES / f"{shared}.dict"
    return [str(program(name, preset)), f"-max_total_time={seconds}", f"-seed={seed}", "-entropic=0", "-print_funcs=0",
            "-len_control=100", "-print_final_stats=1", *limits(name),
            *(["-use_counters=0", "-max_len=1024"] if shared == "python" else []),
            *([f"-dict={dictionary}"] if dictionary.exists() else []), str(learnt),
            *(str(folder) for folder in (STORED / shared,) if folder.is_dir())]


def statistics(output):
    """libFuzzer's last words: {"average_exec_per_sec": 12, ...}."""
    return {name: int(value) for name, value in re.findall(r"^stat::(\w+):\s+(\d+)", output,
                                                           re.MULTILINE)}


def finding(output):
    """What a sanitizer or libFuzzer found, or none."""
    found = re.search(r"^SUMMARY: (.+)$|^==\d+== (ERROR: libFuzzer: .+)$", output, re.MULTILINE)
    if found:
        return found[1] or found[2]
    written = re.search(r"Test unit written to (\S+)", output)
    return f"input in {written[1]}" if written else None
