"""clang-tidy on the project's sources, several files in one run.

Nearly all of clang-tidy's time goes into the standard library's headers, so files are read in
batches, as one translation unit. A name that several files define outside any class gets a number
in the copy that is read; where that cannot be done the file goes to another batch. A file whose
text, headers and checks are unchanged since it was clean is not read again: build/tidy holds one
empty file per clean state.
"""

import collections
import functools
import hashlib
import pathlib
import re
import subprocess
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLEAN = ROOT / "build" / "tidy"
BATCH_SIZE = 48
FLAGS = ["-std=c++20", f"-I{ROOT}/src", f"-isystem{ROOT}/build/deps/install/include",
         "-isystem/usr/include/eigen3", "-DONNX_ML=1",
         "-DONNX_NAMESPACE=onnx", "-DONNX_USE_LITE_PROTO=1", "-Wno-everything"]
INCLUDE = re.compile(r'^\s*#\s*include\s*"((?:rooftile|gpu)/[^"]+)"', re.MULTILINE)
# Names defined at the start of a line: functions, constants, types; also those that only look like
# it, which costs no more than a smaller batch.
DEFINED = re.compile(
    r"^(?:struct|class|enum class|enum)\s+(\w+)|^using\s+(\w+)\s*="
    r"|^(?!namespace|using|extern|[#}/\"])\S[^;(){}=\n]*?(?<![\w:])(\w+)\s*[({=\[]", re.MULTILINE)


# A namespace of a file's own, as rules have: names in it meet no others.
OWN_NAMESPACE = re.compile(r"^namespace (?!rooftile)(\w+) \{$.*?^\}  // namespace \1$",
                           re.MULTILINE | re.DOTALL)


@functools.lru_cache(maxsize=None)
def own_headers(path):
    """The project's headers that a file includes, directly or not, with the file itself."""
    found, waiting = set(), [path]
    while waiting:
        current = waiting.pop()
        if current in found or not current.exists():
            continue
        found.add(current)
        for name in INCLUDE.findall(current.read_text(encoding="utf-8")):
            waiting.append(ROOT / "src" / name)
    return sorted(found)


def mark_of(path):
    """Named by all that clang-tidy's answer depends on, but for the system's headers."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in own_headers(path):
        digest.update(header.read_bytes())
    return CLEAN / digest.hexdigest()


@functools.lru_cache(maxsize=None)
def names_of(path):
    """Name that only this file knows -> whether a number after it changes nothing else.

    Functions that a header declares are left out: where several files define one, they overload it.
    """
    text = path.read_text(encoding="utf-8")
    shared = OWN_NAMESPACE.sub("", text)
    names = {name for found in DEFINED.findall(shared) for name in found if name} - {"new", "delete"}
    headers = " ".join(h.read_text(encoding="utf-8") for h in own_headers(path) if h != path)
    # A designator (.in_ops = check) stays as it is.
    return {name: not re.search(rf"(?:->|::|[.](?!{name} =)){name}\b", text)
            for name in names if not re.search(rf"\b{name}(?:\(|;)|(?:class|struct) {name}\b", headers)}


def make_batches(files):
    """Batches of about equal size; a name that cannot get a number is in one file of its batch.

    What a file is read with can hide a finding or bring one, so its path alone says where it goes:
    an edit elsewhere changes no answer.
    """
    batches = [[] for _ in range(-(-len(files) // BATCH_SIZE))]
    for path in files:
        names = names_of(path)
        first = zlib.crc32("/".join(path.parts[-2:]).encode()) % len(batches)
        for batch in batches[first:] + batches[:first]:
            others = [names_of(other) for other in batch]
            if all(numbered or not any(name in other for other in others)
                   for name, numbered in names.items()):
                batch.append(path)
                break
        else:
            batches.append([path])
    return [batch for batch in batches if batch]


def run_tidy(path):
    result = subprocess.run(
        ["clang-tidy-14", "--quiet", str(path), "--", *FLAGS], cwd=ROOT, text=True, check=False,
        errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    return result.returncode == 0, result.stdout


def findings_by_file(output, files):
    """File -> its part of clang-tidy's output; what is in a header goes to the first file."""
    parts, current = collections.defaultdict(list), files[0]
    for line in output.splitlines():
        place = re.match(r"(/[^:]+):\d+:\d+: (?:error|warning)", line)
        if place:
            found = pathlib.Path(place[1])
            current = found if found in files else files[0]
        if place or current in parts:
            parts[current].append(line)
    return parts


def write_batch(files, folder):
    """Copies of the files that can be read as one; returns the file that includes them."""
    for number, path in enumerate(files):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        own = "|".join(sorted(name for name, numbered in names_of(path).items() if numbered))
        if own:
            text = re.sub(rf"(?m)^(?!\s*#include).*$", lambda line: re.sub(
                rf"(?<![.\w>:])({own})(?!\w)", rf"\g<1>{number}", line[0]), text)
        copy.write_text(text, encoding="utf-8")
    together = folder / "all.cpp"
    together.write_text(
        "".join(f'#include "{folder / path.relative_to(ROOT)}"\n' for path in files),
        encoding="utf-8")
    return together


def check_batch(files):
    """(passed, failed, text) of the files; those that do not compile with the others go alone."""
    folder = CLEAN / ("batch_" + hashlib.sha256("".join(map(str, files)).encode()).hexdigest()[:16])
    clean, output = run_tidy(files[0] if len(files) == 1 else write_batch(files, folder))
    output = output.replace(str(folder), str(ROOT))
    if not clean and len(files) > 1 and "clang-diagnostic-error" in output:
        broken = {pathlib.Path(line.split(":")[0]) for line in output.splitlines()
                  if "clang-diagnostic-error" in line} & set(files)
        alone = [path for path in files if path in broken or not broken]
        together = [path for path in files if path not in alone]
        passed, failed, texts = zip(*(check_batch(group) for group in
                                      [*([path] for path in alone), together] if group))
        return sum(passed), sum(failed), "\n".join(filter(None, texts))
    bad = findings_by_file(output, files) if not clean else {}
    if not clean and not bad:
        bad = {files[0]: output.splitlines()[-20:]}
    for path in files:
        if clean or (path not in bad and files[0] not in bad):
            mark_of(path).touch()
    text = "\n".join(line for lines in bad.values() for line in lines[:30])
    return len(files) - len(bad), len(bad), text


def jobs():
    """Name -> function that gives (passed, failed, text); files known to be clean come together."""
    CLEAN.mkdir(parents=True, exist_ok=True)
    sources = [p for p in (ROOT / "src").rglob("*.cpp") if not p.name.endswith("_test.cpp")]
    known = [p for p in sources if mark_of(p).exists()]
    batches = make_batches([p for p in sorted(sources) if not mark_of(p).exists()])
    # The longest first, so that no core waits at the end.
    batches.sort(key=lambda batch: -sum(path.stat().st_size for path in batch))
    result = {"clang-tidy": lambda: (len(known), 0, "")} if known else {}
    for batch in batches:
        name = f"clang-tidy {batch[0].relative_to(ROOT)} …"
        result[name] = functools.partial(check_batch, batch)
    return result
