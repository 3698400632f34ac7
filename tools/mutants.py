"""Finds the places in C++ sources that a mutation can change, and the changed texts.

Works on tokens and relies on clang-format: a binary operator has a space on both sides, a pointer,
a reference or a template's bracket does not. What a compiler refuses is found when it is built.
"""

import bisect
import collections
import re

Mutant = collections.namedtuple("Mutant", "path begin end text operator")
Token = collections.namedtuple("Token", "kind text begin end")

TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<raw>(?:u8|[uUL])?R\"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\")"
    r"|(?P<string>(?:u8|[uUL])?\"(?:\\.|[^\"\\\n])*\"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|['\w.])*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|&&|\|\||[<>=!+\-*/%&|^]=|[^\w\s])",
    re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)

COMPARISONS = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="),
               "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*",
              "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
FUNCTIONS = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil",
             "any_of": "all_of", "all_of": "any_of", "none_of": "any_of"}
LOGICAL = {"&&": "||", "||": "&&"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
# Calls whose arguments change a text, a log, or only the memory that is set aside.
TEXT_CALLS = {"format", "print", "format_to", "fail", "error", "assert", "static_assert", "reserve",
              "plural", "EXPECT", "what", "hash", "shrink_to_fit"}
NO_STATEMENT = {"if", "else", "for", "while", "do", "switch", "case", "default", "return", "using",
                "namespace", "struct", "class", "enum", "template", "static_assert", "const", "auto",
                "constexpr", "static", "goto", "throw", "try", "catch", "co_return", "public",
                "private", "protected", "friend", "typedef", "union", "extern", "assert", "delete"}


def tokens_of(source):
    """All tokens but comments and directives."""
    hidden = [(m.start(), m.end()) for m in DIRECTIVE.finditer(source)]
    begins = [begin for begin, _ in hidden]
    found, at = [], 0
    while match := TOKEN.search(source, at):
        at = match.end()
        i = bisect.bisect_right(begins, match.start()) - 1
        if i >= 0 and match.start() < hidden[i][1]:
            at = max(at, hidden[i][1]) if match.lastgroup == "comment" else hidden[i][1]
            continue
        kind = "string" if match["raw"] else match.lastgroup
        if kind != "comment":
            found.append(Token(kind, match[0], match.start(), match.end()))
    return found


class Source:
    """The tokens of a file with their brackets."""

    def __init__(self, path, text):
        self.path, self.text, self.tokens = path, text, tokens_of(text)
        self.partner, self.outer = {}, []
        stack = []
        for i, token in enumerate(self.tokens):
            if token.text in (")", "]", "}") and stack:
                self.partner[stack[-1]] = i
                self.partner[i] = stack.pop()
            self.outer.append(stack[-1] if stack else None)
            if token.text in CLOSING:
                stack.append(i)

    def spaced(self, i):
        token = self.tokens[i]
        return (self.text[token.begin - 1:token.begin].isspace()
                and self.text[token.end:token.end + 1].isspace())

    def word(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def in_text_call(self, i):
        """Whether a bracket around the token belongs to one of TEXT_CALLS."""
        at = self.outer[i]
        while at is not None:
            if self.word(at) in "({" and self.word(at - 1) in TEXT_CALLS:
                return True
            at = self.outer[at]
        return False

    def is_function_body(self, i):
        """Whether `{` opens the body of a function: after `)`, or after a return type or qualifiers
        that follow one, and not after a control word."""
        at = i - 1
        while self.word(at) in ("const", "noexcept", "override", "final", "mutable"):
            at -= 1
        if self.word(at) != ")" or at not in self.partner:
            return False
        before = self.word(self.partner[at] - 1)
        return re.fullmatch(r"\w+", before) is not None and before not in (
            "if", "for", "while", "switch", "catch", "constexpr", "return")

    def in_function(self, i):
        at = self.outer[i]
        while at is not None:
            if self.word(at) == "{" and (self.is_function_body(at) or self.word(at - 1) == "]"):
                return True
            at = self.outer[at]
        return False

    def in_enum(self, i):
        at = self.outer[i]
        if at is None or self.word(at) != "{":
            return False
        return "enum" in [self.word(j) for j in range(max(0, at - 6), at)]

    def change(self, first, last, text, operator):
        return Mutant(self.path, self.tokens[first].begin, self.tokens[last].end, text, operator)


def operators_of_tokens(source):
    for i, token in enumerate(source.tokens):
        if token.kind == "sign" and source.spaced(i) and source.word(i - 1) != "operator":
            for text in COMPARISONS.get(token.text, ()):
                yield source.change(i, i, text, "comparison")
            beside_text = "string" in (source.tokens[i - 1].kind,
                                       source.tokens[min(i + 1, len(source.tokens) - 1)].kind)
            if token.text in ARITHMETIC and not beside_text:
                yield source.change(i, i, ARITHMETIC[token.text], "arithmetic")
            if token.text in LOGICAL:
                yield source.change(i, i, LOGICAL[token.text], "logical")
        elif token.kind == "name" and token.text in FUNCTIONS and source.word(i + 1) == "(":
            yield source.change(i, i, FUNCTIONS[token.text], "arithmetic")


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


def constants(source):
    for i, token in enumerate(source.tokens):
        if source.in_enum(i):
            continue
        if token.kind == "number":
            changed = changed_number(token.text)
            if changed:
                yield source.change(i, i, changed, "constant")
        elif token.text in ("true", "false"):
            yield source.change(i, i, "false" if token.text == "true" else "true", "constant")


def conditions(source):
    for i, token in enumerate(source.tokens):
        if token.text != "if" or source.word(i + 1) != "(" or i + 1 not in source.partner:
            continue
        first, last = i + 2, source.partner[i + 1] - 1
        top = [j for j in range(first, last + 1) if source.outer[j] == i + 1]
        semicolons = [j for j in top if source.word(j) == ";"]
        if semicolons:
            first = semicolons[-1] + 1
        elif any(source.word(j) == "=" for j in top):
            continue  # a declaration, true when it is set
        if first <= last:
            begin, end = source.tokens[first].begin, source.tokens[last].end
            yield Mutant(source.path, begin, end, f"!({source.text[begin:end]})", "condition")


def arguments_of(source, opening):
    """[(first, last)] tokens of the arguments between brackets."""
    parts, first = [], opening + 1
    for j in range(opening + 1, source.partner[opening] + 1):
        if source.word(j) == "," and source.outer[j] == opening or j == source.partner[opening]:
            parts.append((first, j - 1))
            first = j + 1
    return [(a, b) for a, b in parts if a <= b]


def is_simple(source, first, last):
    """A chain of names, members and calls, or a number: `a`, `x.size()`, `2 * n` are."""
    kinds = [source.tokens[j].kind for j in range(first, last + 1)]
    words = [source.word(j) for j in range(first, last + 1)]
    if "string" in kinds or any(w in ("const", "{", "<", "&", "=", "[") for w in words):
        return False
    return not any(a == b == "name" for a, b in zip(kinds, kinds[1:]))


def swaps(source):
    for i, token in enumerate(source.tokens):
        if token.text != "(" or i not in source.partner or source.tokens[i - 1].kind != "name":
            continue
        if source.word(i - 1) in ("if", "for", "while", "switch", "return", *FUNCTIONS):
            continue
        parts = arguments_of(source, i)
        for (a, b), (c, d) in zip(parts, parts[1:]):
            if not (is_simple(source, a, b) and is_simple(source, c, d)):
                continue
            text, t = source.text, source.tokens
            left, right = text[t[a].begin:t[b].end], text[t[c].begin:t[d].end]
            if left != right:
                between = text[t[b].end:t[c].begin]
                yield source.change(a, d, right + between + left, "swap")


def statements(source):
    for i, token in enumerate(source.tokens):
        if token.text not in (";", "{", "}") and not (
                token.text == ")" and source.word(source.partner.get(i, 0) - 1) == "if"):
            continue
        first = i + 1
        if first >= len(source.tokens) or source.word(first) in NO_STATEMENT | {"}", "{", ";"}:
            continue
        if source.outer[first] is not None and source.word(source.outer[first]) != "{":
            continue  # inside the head of a `for`
        last = first
        while last < len(source.tokens) and not (
                source.word(last) == ";" and source.outer[last] == source.outer[first]):
            last = source.partner[last] if source.word(last) in CLOSING and (
                last in source.partner) else last
            last += 1
        if last >= len(source.tokens) or not source.in_function(first):
            continue
        if is_expression(source, first, last):
            yield source.change(first, last, ";", "statement")


def is_expression(source, first, last):
    """No declaration: `f(x);`, `a.b = c;`, `++i;`, `continue;`, `break;`."""
    if source.word(first) in ("continue", "break", "++", "--", "*"):
        return True
    if source.tokens[first].kind != "name":
        return False
    j = first + 1
    while j < last and source.word(j) in (".", "->", "::", "[", "("):
        j = source.partner[j] + 1 if source.word(j) in "[(" else j + 2
    return source.word(j) in (";", "=", "++", "--", "+=", "-=", "*=", "/=", "|=", "&=", "<<")


def returns(source):
    """Functions that return at once, with the default value of their type."""
    for i, token in enumerate(source.tokens):
        if token.text != "{" or not source.is_function_body(i) or source.outer[i] is None:
            continue
        head = i - 1
        while head >= 0 and source.word(head) not in (";", "}", "{"):
            head -= 1
        words = [source.word(j) for j in range(head + 1, i)]
        if any(w in words for w in ("operator", "constexpr", "consteval", "template", ":")):
            continue
        name = source.partner[max(j for j in range(i) if source.word(j) == ")"
                                  and source.outer[j] == source.outer[i])] - 1
        if name - 1 <= head or words[0] in ("return", "=") or i + 1 == source.partner.get(i):
            continue
        if source.word(i + 1) == "return" and source.word(i + 2) in (";", "{"):
            continue
        text = "{ return;" if words[0] == "void" else "{ return {};"
        yield source.change(i, i, text, "return")


OPERATORS = (operators_of_tokens, constants, conditions, swaps, statements, returns)


def mutants_of(path, text):
    """All mutants of a file, without those that change only a text or the memory set aside."""
    source = Source(path, text)
    begins = [token.begin for token in source.tokens]
    found = []
    for operator in OPERATORS:
        for mutant in operator(source):
            first = bisect.bisect_left(begins, mutant.begin)
            concerned = source.word(first)
            if concerned in TEXT_CALLS or source.in_text_call(first):
                continue
            if mutant.operator == "statement" and re.search(
                    r"\.(?:reserve|shrink_to_fit)\(", text[mutant.begin:mutant.end]):
                continue
            found.append(mutant)
    return found


def applied(text, mutant):
    return text[:mutant.begin] + mutant.text + text[mutant.end:]


def shown_line(text, at):
    """The line's number, and the line."""
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    return text.count("\n", 0, at) + 1, text[begin:end if end >= 0 else len(text)].strip()


def sample(mutants, count, random):
    """As many of each operator, as far as there are any; the same for the same seed."""
    pools = collections.defaultdict(list)
    for mutant in sorted(mutants):
        pools[mutant.operator].append(mutant)
    for pool in pools.values():
        random.shuffle(pool)
    chosen = []
    while len(chosen) < count and any(pools.values()):
        for name in sorted(pools):
            if pools[name] and len(chosen) < count:
                chosen.append(pools[name].pop())
    return chosen
