"""Sources of a checkout: statements of a file, cells of a notebook, files of one project."""

import ast
import functools
import json
import os
import pathlib
import re

LIBRARIES = {"torch", "torchvision", "numpy", "transformers", "detectron2", "mmcv"}
MOST_FILES = 400  # of one project


class Source:
    """Statements of a file, and where the lines of a notebook's cells stand in its JSON."""

    def __init__(self, path):
        self.spans = {}  # cell -> {line: (first, last)} of simple statements
        self.raw = {}    # line of the JSON -> (cell, line)
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if path.suffix == ".ipynb":
            self.read_notebook(text)
        else:
            self.spans[0] = simple_statements(text)

    def statement(self, cell, line):
        """First and last line of the simple statement there, or None."""
        return self.spans.get(cell, {}).get(line)

    def read_notebook(self, text):
        try:
            notebook = json.loads(text)
        except ValueError:
            return
        cells = notebook.get("cells") or notebook.get("worksheets", [{}])[0].get("cells", [])
        lines, at = text.split("\n"), 0
        for number, cell in enumerate(cells, 1):
            source = cell.get("source", cell.get("input", []))
            pieces = source.splitlines(True) if isinstance(source, str) else source
            if cell.get("cell_type") != "code":
                continue
            code = re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", "".join(pieces))
            self.spans[number] = simple_statements(code)
            for line, piece in enumerate(pieces, 1):
                forms = {json.dumps(piece), json.dumps(piece, ensure_ascii=False)}
                found = next((i for i in range(at, len(lines))
                              if lines[i].strip().rstrip(",") in forms), None)
                if found is not None:
                    self.raw[found + 1], at = (number, line), found + 1


def simple_statements(code):
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    spans = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            for line in range(node.lineno, node.end_lineno + 1):
                spans[line] = (node.lineno, node.end_lineno)
    return spans


def imported_files(folder, files):
    """The files and, through their imports, others of the checkout; at most MOST_FILES."""
    found, waiting = dict.fromkeys(files), list(files)
    while waiting and len(found) < MOST_FILES:
        file = waiting.pop()
        if not file.endswith(".py"):
            continue
        text = (folder / file).read_text(encoding="utf-8", errors="replace")
        for name in module_names(text):
            for other in module_files(folder, file, name):
                if other not in found:
                    found[other] = None
                    waiting.append(other)
    return list(found)


def projects(folder, files):
    """The files of each run: those below one directory, with what they import."""
    parents = {str(pathlib.PurePosixPath(file).parent) for file in files}
    inside = lambda path, root: root == "." or path == root or path.startswith(root + "/")
    roots = [path for path in parents if not any(
        path != other and inside(path, other) for other in parents)]
    groups = [[file for file in files if inside(str(pathlib.PurePosixPath(file).parent), root)]
              for root in sorted(roots)]
    runs = []
    for group in groups:
        run = set(imported_files(folder, group))
        for other in [other for other in runs if other & run]:
            runs.remove(other)
            run |= other
        runs.append(run)
    return [sorted(run) for run in runs]


def module_names(text):
    names = set()
    for match in re.finditer(r"(?m)^\s*import\s+([\w., \t]+)", text):
        names.update(part.split(" as ")[0].strip() for part in match[1].split(","))
    for match in re.finditer(r"(?m)^\s*from\s+([.\w]+)\s+import\s+((?:\([\w, \t\n]*)|[\w, \t]*)", text):
        separator = "" if match[1].endswith(".") else "."
        names.add(match[1])
        names.update(match[1] + separator + part.split(" as ")[0].strip()
                     for part in match[2].strip("(").split(",") if part.strip())
    return names


def module_files(folder, importer, name):
    here = pathlib.PurePosixPath(importer).parent
    dots = len(name) - len(name.lstrip("."))
    parts = [part for part in name.lstrip(".").split(".") if part]
    bases = [here, *here.parents]
    if dots:
        bases = bases[dots - 1:dots]
    places = [(base, parts) for base in bases + ([] if dots else added_folders(folder, here))]
    if not dots and parts and parts[0] not in LIBRARIES:  # a path of the tree that this was part of
        top = pathlib.PurePosixPath(".")
        places += [(top, parts[first:]) for first in range(1, len(parts) - 1)]
    for base, inner in places:
        for path in (base.joinpath(*inner).with_suffix(".py") if inner else None,
                     base.joinpath(*inner, "__init__.py")):
            if path is not None and (folder / path).is_file():
                yield str(path)
                return


@functools.lru_cache(maxsize=None)
def added_folders(folder, here):
    """Folders beside that scripts of `here` put on sys.path, by a literal: "lib", "../src"."""
    texts = [path.read_text(encoding="utf-8", errors="replace")
             for path in sorted((folder / here).glob("*.py")) if path.is_file()]
    added = []
    for text in texts:
        if "sys.path" not in text:
            continue
        for word in re.findall(r"""["']([\w./-]{2,60})["']""", text):
            if not any(c.isalpha() for c in word):
                continue
            for base in (here, *here.parents):
                path = pathlib.PurePosixPath(os.path.normpath(base / word.strip("/")))
                inside = ".." not in path.parts and path not in added
                if inside and (folder / path).is_dir():
                    added.append(path)
    return added
