// Changes Python scripts as scripts: statements and expressions move, so that most of them still
// parse and reach the reader, the rules and the edits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/formats/python/syntax_tree.h"
#include "tests/fuzz/choice.h"

namespace fuzzing {

// Where the statements, expressions and names of a text are.
struct ScriptParts {
  struct Part {
    std::size_t begin = 0, end = 0;
  };
  std::string text;
  std::vector<Part> statements, expressions, names;

  std::string of(const Part& part) const { return text.substr(part.begin, part.end - part.begin); }

  // The blanks before a statement; none where something else is on its line.
  std::optional<std::string> indent(const Part& part) const {
    const std::size_t end_of_last =
        part.begin == 0 ? std::string::npos : text.rfind('\n', part.begin - 1);
    const std::size_t line = end_of_last == std::string::npos ? 0 : end_of_last + 1;
    std::string before = text.substr(line, part.begin - line);
    if (before.find_first_not_of(" \t") != std::string::npos) return std::nullopt;
    return before;
  }
};

inline bool is_expression(rooftile::python::SyntaxKind kind) {
  using Kind = rooftile::python::SyntaxKind;
  constexpr Kind kKinds[] = {Kind::call,
                             Kind::attribute,
                             Kind::subscript,
                             Kind::list,
                             Kind::tuple,
                             Kind::dictionary,
                             Kind::string,
                             Kind::integer,
                             Kind::float_,
                             Kind::true_,
                             Kind::false_,
                             Kind::none,
                             Kind::lambda,
                             Kind::conditional_expression,
                             Kind::binary_operator,
                             Kind::boolean_operator,
                             Kind::comparison_operator,
                             Kind::not_operator,
                             Kind::list_comprehension,
                             Kind::parenthesized_expression};
  return std::ranges::find(kKinds, kind) != std::end(kKinds);
}

// None where the text cannot be parsed at all.
inline std::optional<ScriptParts> parts_of(std::string_view text) {
  using Kind = rooftile::python::SyntaxKind;
  const auto tree = rooftile::python::parse_python(text);
  if (!tree) return std::nullopt;
  ScriptParts parts{std::string(text), {}, {}, {}};
  std::vector<std::pair<Kind, std::uint32_t>> parents;
  for (std::uint32_t i = 0; i < tree->nodes.size(); ++i) {
    while (!parents.empty() && parents.back().second <= i) parents.pop_back();
    const auto& node = tree->nodes[i];
    const bool in_block = !parents.empty() && (parents.back().first == Kind::block ||
                                               parents.back().first == Kind::module);
    const ScriptParts::Part part{node.begin, node.end};
    if (part.end > text.size() || part.begin >= part.end) continue;
    if (in_block && node.kind != Kind::comment && node.kind != Kind::error &&
        node.kind != Kind::token) {
      parts.statements.push_back(part);
    }
    if (is_expression(node.kind)) parts.expressions.push_back(part);
    if (node.kind == Kind::identifier) parts.names.push_back(part);
    parents.emplace_back(node.kind, node.after);
  }
  return parts;
}

// All lines but the first get another beginning.
inline std::string reindented(const std::string& statement, const std::string& old_indent,
                              const std::string& indent) {
  std::string text;
  std::size_t at = 0;
  while (at < statement.size()) {
    const std::size_t end = std::min(statement.find('\n', at), statement.size() - 1) + 1;
    std::string line = statement.substr(at, end - at);
    if (at > 0) {
      if (line.starts_with(old_indent)) line.erase(0, old_indent.size());
      line = indent + line;
    }
    text += line;
    at = end;
  }
  return text;
}

class ScriptMutator {
 public:
  // Statements and expressions of the donor may come into the script.
  ScriptMutator(const ScriptParts& script, const ScriptParts& donor, std::uint32_t seed)
      : script_(script), donor_(donor), choice_(seed) {}

  std::string mutate() {
    switch (choice_.below(8)) {
      case 0:
        return replaced(statement(), "pass");
      case 1:
        return beside(statement(), script_, statement());
      case 2:
      case 3:
        return beside(statement(), donor_, choice_of(donor_.statements));
      case 4:
        return wrapped(statement());
      case 5:
        return replaced(choice_of(script_.names), donor_.of(choice_of(donor_.names)));
      default:
        return replaced(choice_of(script_.expressions), donor_.of(choice_of(donor_.expressions)));
    }
  }

 private:
  using Part = ScriptParts::Part;

  Part choice_of(const std::vector<Part>& parts) {
    return parts.empty() ? Part{} : choice_.of(parts);
  }
  Part statement() { return choice_of(script_.statements); }

  std::string replaced(const Part& part, const std::string& with) const {
    if (part.end == 0 || with.empty()) return script_.text;
    return script_.text.substr(0, part.begin) + with + script_.text.substr(part.end);
  }

  // Another statement in front of one, or in its place.
  std::string beside(const Part& at, const ScriptParts& from, const Part& other) {
    const auto indent = script_.indent(at), old = from.indent(other);
    if (at.end == 0 || other.end == 0 || !indent || !old) return script_.text;
    std::string text = reindented(from.of(other), *old, *indent);
    if (choice_.below(3) != 0) text += "\n" + *indent + script_.of(at);
    return replaced(at, text);
  }

  std::string wrapped(const Part& at) {
    constexpr std::string_view kHeads[] = {"if cond:",
                                           "for step in range(3):",
                                           "while True:",
                                           "with torch.no_grad():",
                                           "def f(x):",
                                           "class A(torch.nn.Module):",
                                           "async def g(*args):",
                                           "with torch.autocast('cuda'):"};
    const auto indent = script_.indent(at);
    if (at.end == 0 || !indent) return script_.text;
    const std::string inner = *indent + "    ";
    return replaced(at, std::string(choice_.of(kHeads)) + "\n" + inner +
                            reindented(script_.of(at), *indent, inner));
  }

  const ScriptParts& script_;
  const ScriptParts& donor_;
  Choice choice_;
};

}  // namespace fuzzing
