"""Finds what a mutation can change in C++ sources, and writes sources that hold many mutants at once.

Places come from Clang's syntax tree. Each mutant is text inserted around an expression or a statement
of a function's body, so that a number chosen at run time decides which one is in force:
`(ROOFTILE_MUTANT(17) ? (a <= b) : (a < b))`. What constant expressions need is left alone.
Offsets are in bytes.
"""

import collections
import hashlib
import json
import os
import re
import shlex

# places: [(begin, end, prefix, suffix)], in which %d stands for the mutant's number.
# begin, end: what is shown as changed; text: what it becomes.
Mutant = collections.namedtuple("Mutant", "path begin end text operator places")

COMPARISONS = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="),
               "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*",
              "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
LOGICAL = {"&&": "||", "||": "&&"}
FUNCTIONS = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil",
             "any_of": "all_of", "all_of": "any_of", "none_of": "any_of"}
# Calls whose arguments change a text, a log, or only the memory that is set aside.
TEXT_CALLS = {"format", "print", "format_to", "fail", "error", "reserve", "plural", "what", "hash",
              "shrink_to_fit"}
# Arguments of these in another order give the same.
SYMMETRIC = re.compile(r"min|max|swap|gcd|lcm|hypot|product|elements|common_result|"
                       r"(is|has|are|may_be)_(same|equal|alike).*|exclude_each_other|operator.*")
NOTHING = {"{}", "0", "0.0", "nullptr", "std::nullopt", "nullopt", "true", "false", '""'}

FLOATING = {"FLOAT", "DOUBLE", "LONGDOUBLE"}
# Inside of these the compiler needs constants, or there is nothing to change.
CLOSED = {"STATIC_ASSERT", "ENUM_DECL", "CXX_UNARY_EXPR", "TYPE_REF", "TEMPLATE_REF", "PARM_DECL",
          "ASM_STMT", "FRIEND_DECL", "CONCEPT_DECL"}
FUNCTION_KINDS = {"FUNCTION_DECL", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "CONVERSION_FUNCTION",
                  "FUNCTION_TEMPLATE"}
BODIES = {"COMPOUND_STMT", "IF_STMT", "FOR_STMT", "CXX_FOR_RANGE_STMT", "WHILE_STMT", "DO_STMT",
          "CASE_STMT", "DEFAULT_STMT"}

HEADER = b'#include "rooftile/base/active_mutant.h"\n#line 1\n'


def changed_number(text):
    """Another number of the same type, or none."""
    match = re.fullmatch(r"(\d[\d']*)(\.\d*)?([eE][+-]?\d+)?(\w*)", text)
    if not match or text.startswith(("0x", "0X", "0b")):
        return None
    whole, fraction, exponent, suffix = match.groups()
    if fraction is None and exponent is None:
        return f"{int(whole.replace(chr(39), '')) + 1}{suffix}"
    value = float(text[:len(text) - len(suffix)].replace("'", ""))
    return f"{value * 1.25 if value else 1.0!r}{suffix}"


def either(changed):
    return f"(ROOFTILE_MUTANT(%d) ? ({changed}) : (", "))"


NEGATED = ("(ROOFTILE_MUTANT(%d) != static_cast<bool>(", "))")
SKIPPED = ("(ROOFTILE_MUTANT(%d) ? static_cast<void>(0) : static_cast<void>(", "))")
LEFT_OUT = ("{ if (!ROOFTILE_MUTANT(%d)) { ", " } }")
RETURNED = ("{ if (ROOFTILE_MUTANT(%d)) return {}; ", " }")


def is_empty_value(cursor):
    """What `{}` makes too: an object without arguments, the enumerator that is 0."""
    while cursor.kind.name == "UNEXPOSED_EXPR" and len(list(cursor.get_children())) == 1:
        cursor = next(cursor.get_children())
    made = cursor.referenced
    if cursor.kind.name == "DECL_REF_EXPR" and made is not None:
        return made.kind.name == "ENUM_CONSTANT_DECL" and made.enum_value == 0
    return (cursor.kind.name == "CALL_EXPR" and made is not None and made.kind.name == "CONSTRUCTOR"
            and not any(True for _ in cursor.get_arguments()))


class Finder:
    """The mutants of the files of one translation unit."""

    def __init__(self, texts):
        self.texts = texts  # {absolute path: (shown path, bytes)}
        self.found = {}     # by place and text: implicit conversions repeat what they convert
        self.constants = {}  # {(path, offset of the name): changed initialiser}
        self.uses = collections.defaultdict(list)

    def visit(self, unit):
        for cursor in unit.cursor.get_children():
            file = cursor.location.file
            if file is not None and os.path.realpath(file.name) in self.texts:
                self.path, self.text = self.texts[os.path.realpath(file.name)]
                self.walk(cursor, None)
        for (path, at), places in self.uses.items():
            begin, end, changed = self.constants[path, at]
            wrapped = [(b, e, *either(changed)) for b, e in sorted(places)]
            mutant = Mutant(path, begin, end, changed, "constant", tuple(wrapped))
            self.found[path, begin, end, changed] = mutant
        return sorted(self.found.values())

    # -- text ---------------------------------------------------------------

    def extent(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def of(self, begin, end):
        return self.text[begin:end].decode("utf-8", "replace")

    def semicolon(self, end):
        """The offset after the `;` that follows, or none."""
        match = re.compile(rb"\s*;").match(self.text, end)
        return match.end() if match else None

    def add(self, begin, end, changed, operator, wrapped, last=None):
        places = ((begin, last or end, *wrapped),)
        self.found.setdefault((self.path, begin, end, changed),
                              Mutant(self.path, begin, end, changed, operator, places))

    # -- the tree -----------------------------------------------------------

    def walk(self, cursor, function):
        kind = cursor.kind.name
        if kind in CLOSED:
            return
        begin, end = self.extent(cursor)
        if kind in FUNCTION_KINDS:
            if re.search(r"\b(constexpr|consteval)\b", self.of(begin, begin + 60).split("(")[0]):
                return
            function = cursor
        elif kind == "LAMBDA_EXPR":
            function = cursor
        elif kind == "VAR_DECL" and re.search(r"\bconstexpr\b", self.of(begin, end).split("=")[0]):
            self.note_constant(cursor)
            return
        children = list(cursor.get_children())
        if function is not None:
            if kind == "CALL_EXPR" and cursor.spelling in TEXT_CALLS:
                return
            if kind in BODIES:
                self.statements(kind, children)
            self.at(cursor, kind, children, function)
        if kind == "CASE_STMT":
            children = children[1:]
        elif kind == "IF_STMT" and re.match(r"if\s+constexpr", self.of(begin, begin + 20)):
            children = children[1:]
        elif kind == "VAR_DECL":  # `int parts[4]`
            children = [c for c in children if self.text[self.extent(c)[0] - 1:][:1] != b"["]
        for child in children:
            self.walk(child, function)

    def note_constant(self, cursor):
        """A number with a name: its uses change, because a constant itself cannot."""
        begin, end = self.extent(cursor)
        value = re.search(r"(?:=\s*|\{)([\d.'eE+-]+\w*)\}?$", self.of(begin, end))
        changed = value and changed_number(value[1])
        if changed and cursor.type.get_canonical().kind.name not in ("RECORD", "CONSTANTARRAY"):
            at = begin + len(self.of(begin, end)[:value.start(1)].encode())
            self.constants[self.path, cursor.location.offset] = (
                at, at + len(value[1]), changed)

    def at(self, cursor, kind, children, function):
        begin, end = self.extent(cursor)
        if begin >= end:
            return
        if len(children) >= 2 and kind in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR",
                                           "CALL_EXPR", "UNEXPOSED_EXPR"):
            self.operators(cursor, children, begin, end)
        if kind == "CALL_EXPR":
            self.functions(cursor, children, begin, end)
            self.swaps(cursor, begin, end)
        elif kind in ("INTEGER_LITERAL", "FLOATING_LITERAL"):
            changed = changed_number(self.of(begin, end))
            if changed:
                self.add(begin, end, changed, "constant", either(changed))
        elif kind == "CXX_BOOL_LITERAL_EXPR" and self.of(begin, end) in ("true", "false"):
            changed = "false" if self.of(begin, end) == "true" else "true"
            self.add(begin, end, changed, "constant", either(changed))
        elif kind == "DECL_REF_EXPR":
            self.note_use(cursor, begin, end)
        elif kind == "IF_STMT":
            self.condition_of_if(begin, children)
        elif kind == "CONDITIONAL_OPERATOR" and children:
            self.negate(children[0])
        elif kind == "RETURN_STMT" and children:
            self.returns(cursor, begin, end, children[0], function)

    def operators(self, cursor, children, begin, end):
        left_end, right = self.extent(children[0])[1], self.extent(children[-1])[0]
        between = self.of(left_end, right)
        sign = re.sub(r"/\*.*?\*/|//[^\n]*", "", between).strip()
        if not (self.extent(children[0])[0] == begin and self.extent(children[-1])[1] == end):
            return
        before, after = self.of(begin, left_end), self.of(right, end)
        if sign in COMPARISONS:
            for changed in COMPARISONS[sign]:
                border = changed.rstrip("=") == sign or sign.rstrip("=") == changed
                if border and sign not in ("==", "!=") and self.are_computed(children):
                    continue
                text = before + between.replace(sign, changed) + after
                self.add(begin, end, text, "comparison", either(text))
        elif sign in LOGICAL:
            text = f"({before}) {LOGICAL[sign]} ({after})"
            self.add(begin, end, text, "logical", either(text))
        elif sign in ARITHMETIC and not self.is_text(cursor) and not self.is_text(children[0]):
            text = f"{before} {ARITHMETIC[sign]} {after}"
            if sign in ("+", "-") and re.search(r"[-+<>=&|?:](?!>)", after):
                text = f"{before} {ARITHMETIC[sign]} ({after})"
            self.add(begin, end, text, "arithmetic", either(text))

    def are_computed(self, children):
        """Two floating-point numbers that were computed: they are never exactly the same, and where
        they are, as of two equal candidates, either will do."""
        if any(c.type.get_canonical().kind.name not in FLOATING for c in (children[0], children[-1])):
            return False
        return not any(re.fullmatch(r"-?[\d.'eE]+\w*|(?:\w+::)*k[A-Z]\w*", self.of(*self.extent(c)))
                       for c in (children[0], children[-1]))

    def is_text(self, cursor):
        spelling = cursor.type.get_canonical().spelling
        return "basic_string" in spelling or "char *" in spelling or "char [" in spelling

    def functions(self, cursor, children, begin, end):
        changed = FUNCTIONS.get(cursor.spelling)
        text = self.of(begin, end)
        bracket = text.find("(")
        if not changed or bracket < 0:
            return
        callee = text[:bracket]
        at = callee.rfind(cursor.spelling)
        if at >= 0:
            text = callee[:at] + changed + callee[at + len(cursor.spelling):] + text[bracket:]
            self.add(begin, end, text, "arithmetic", either(text))

    def swaps(self, cursor, begin, end):
        if SYMMETRIC.fullmatch(cursor.spelling):
            return
        arguments = [a for a in cursor.get_arguments() if a is not None]
        for first, second in zip(arguments, arguments[1:]):
            (a, b), (c, d) = self.extent(first), self.extent(second)
            if not begin <= a < b <= c < d <= end:
                continue
            left, right, between = self.of(a, b), self.of(c, d), self.of(b, c)
            if between.strip() != "," or left == right or '"' in left + right or (
                    left.endswith("begin()")):  # of a range: nothing that a test could survive
                continue
            if self.plain_type(first) != self.plain_type(second):
                continue
            if cursor.spelling == "clamp" and first is arguments[0]:
                continue  # the larger of the two either way
            text = self.of(begin, a) + right + between + left + self.of(d, end)
            self.add(begin, end, text, "swap", either(text))

    def plain_type(self, cursor):
        spelling = cursor.type.get_canonical().spelling.replace("const ", "")
        return spelling.rstrip(" &")

    def note_use(self, cursor, begin, end):
        declared = cursor.referenced
        if declared is None or declared.location.file is None:
            return
        where = os.path.realpath(declared.location.file.name)
        if where in self.texts and self.texts[where][0] == self.path:
            key = (self.path, declared.location.offset)
            if key in self.constants and not self.of(begin, end).startswith("&"):
                if (begin, end) not in self.uses[key]:
                    self.uses[key].append((begin, end))

    def condition_of_if(self, begin, children):
        if re.match(r"if\s+constexpr", self.of(begin, begin + 20)):
            return
        if any(c.kind.name == "VAR_DECL" for c in children):
            return  # true when what it declares is
        for child in children:
            if child.kind.is_expression() and re.match(rb"\s*\)", self.text[self.extent(child)[1]:]):
                self.negate(child)
                return

    def negate(self, cursor):
        begin, end = self.extent(cursor)
        self.add(begin, end, f"!({self.of(begin, end)})", "condition", NEGATED)

    def returns(self, cursor, begin, end, value, function):
        first, last = self.extent(value)
        text = self.of(first, last)
        if text in NOTHING or is_empty_value(value) or not self.of(begin, end).startswith("return"):
            return
        if value.type.get_canonical().kind.name == "BOOL":
            self.add(first, last, f"!({text})", "return", NEGATED)
            return
        result = None if function.kind.name == "LAMBDA_EXPR" else function.result_type
        stop = self.semicolon(end)
        if result is None or stop is None or result.kind.name in ("LVALUEREFERENCE", "AUTO"):
            return
        self.add(begin, end, "return {}", "return", RETURNED, stop)

    def statements(self, kind, children):
        if kind in ("FOR_STMT", "CXX_FOR_RANGE_STMT", "WHILE_STMT", "CASE_STMT", "DEFAULT_STMT"):
            children = children[-1:]
        elif kind == "DO_STMT":
            children = children[:1]
        for child in children:
            begin, end = self.extent(child)
            stop = self.semicolon(end)
            if stop is None or begin >= end:
                continue
            if child.kind.name in ("CONTINUE_STMT", "BREAK_STMT"):
                self.add(begin, end, "", "statement", LEFT_OUT, stop)
            elif child.kind.is_expression() and not self.is_aside(child):
                self.add(begin, end, "", "statement", SKIPPED)

    def is_aside(self, cursor):
        return (cursor.kind.name == "CALL_EXPR" and cursor.spelling in TEXT_CALLS
                or any(self.is_aside(c) for c in cursor.get_children()
                       if c.kind.name == "CALL_EXPR" and self.extent(c) == self.extent(cursor)))


def overlaps_badly(places):
    """Whether two places cross, which no nesting can be written for."""
    stack = []
    for begin, end in sorted(places, key=lambda p: (p[0], -p[1])):
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and end > stack[-1]:
            return True
        stack.append(end)
    return False


def mutants_of(unit, texts):
    """All mutants of a parsed translation unit; texts: {absolute path: (shown path, bytes)}."""
    return Finder(texts).visit(unit)


def written(text, numbered):
    """The source that holds the mutants, [(number, mutant)], and where each one is in it:
    [(begin, end, number)], with what was inserted."""
    # Outer ones open first and close last; of the same extent, in one order.
    opening, closing = collections.defaultdict(list), collections.defaultdict(list)
    places = [(begin, end, number, prefix, suffix) for number, mutant in numbered
              for begin, end, prefix, suffix in mutant.places]
    for begin, end, number, prefix, suffix in places:
        opening[begin].append((-end, number, prefix, (begin, end, number)))
        closing[end].append((-begin, -number, suffix, (begin, end, number)))
    made, at, started, spans = [HEADER], 0, {}, []
    length = len(HEADER)
    for offset in sorted({*opening, *closing}):
        made.append(text[at:offset])
        length += offset - at
        at = offset
        for _, _, suffix, place in sorted(closing[offset]):
            made.append(suffix.encode())
            length += len(made[-1])
            spans.append((started[place], length, place[2]))
        for _, number, prefix, place in sorted(opening[offset]):
            started[place] = length
            made.append(prefix.replace("%d", str(number), 1).encode())
            length += len(made[-1])
    made.append(text[at:])
    return b"".join(made), spans


def concerned(spans, offset):
    """The number of the innermost mutant around an offset, or none."""
    around = [(end - begin, number) for begin, end, number in spans if begin <= offset < end]
    return min(around)[1] if around else None


def line_of(text, at):
    """The line's number, and the line."""
    begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
    line = text[begin:end if end >= 0 else len(text)]
    return text.count(b"\n", 0, at) + 1, line.decode("utf-8", "replace").strip()


def short(text, limit=70):
    words = " ".join(text.split())
    return words if len(words) <= limit else words[:limit - 1] + "…"


def key_of(mutant, text, seen):
    """What a mutant is called as long as its line stays: other changes do not shuffle a sample."""
    name = (mutant.path, mutant.operator, line_of(text, mutant.begin)[1],
            text[mutant.begin:mutant.end].decode("utf-8", "replace"), mutant.text)
    seen[name] += 1
    return hashlib.sha256(json.dumps([*name, seen[name]]).encode()).hexdigest()[:20]


def keyed(mutants, texts):
    """{key: mutant}; texts: {shown path: bytes}."""
    seen = collections.Counter()
    return {key_of(mutant, texts[mutant.path], seen): mutant for mutant in sorted(mutants)}


def sample(by_key, count, seed):
    """Keys drawn at random from all; the same for the same seed."""
    return sorted(by_key, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())[:count]


def arguments_of(entry):
    """What Clang needs of a line of compile_commands.json to parse the file, without the precompiled
    header."""
    words, kept, i = shlex.split(entry["command"]), [], 0
    while i < len(words):
        if words[i] in ("-isystem", "-include") and words[i - 1] != "-Xclang":
            kept += words[i:i + 2]
            i += 1
        elif words[i].startswith(("-D", "-I", "-std")):
            kept.append(words[i])
        i += 1
    return kept

