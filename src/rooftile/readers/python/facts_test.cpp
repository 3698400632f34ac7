// What the reader tells of the lines of small scripts: tests/inputs/python_facts.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/readers/python/read_python.h"

namespace rooftile::source {
namespace {

// What is expected of a line of a file; of the file itself where the line is 0.
struct Expected {
  std::string path;
  std::uint32_t line = 0;
  std::string text;
};

struct Script {
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<Expected> expected;
  std::string text;
};

void add_line(const std::string& written, Script& script) {
  constexpr std::string_view kMark = "  # ";
  constexpr const char* kHead = "import torch\nfrom torch import nn\n";
  script.text += written + "\n";
  const std::size_t mark = written.find(kMark);
  std::string code = written.substr(0, mark);
  const bool is_path = code.starts_with("@ ");
  if (is_path || script.files.empty()) {
    script.files.emplace_back(is_path ? code.substr(2) : "train.py", kHead);
  }
  auto& [path, text] = script.files.back();
  const auto lines = static_cast<std::uint32_t>(std::ranges::count(text, '\n'));
  if (mark != std::string::npos) {
    script.expected.push_back({path, is_path ? 0 : lines + 1, written.substr(mark + kMark.size())});
  }
  if (!is_path) text += code + "\n";
}

std::vector<Script> read_scripts() {
  std::ifstream file(std::string(ROOFTILE_ROOT) + "/tests/inputs/python_facts.txt");
  std::vector<Script> scripts(1);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && !line.starts_with("## ")) {
      add_line(line, scripts.back());
    } else if (!scripts.back().files.empty()) {
      scripts.emplace_back();
    }
  }
  if (scripts.back().files.empty()) scripts.pop_back();
  return scripts;
}

// The words that hold, with spaces between.
std::string words(std::initializer_list<std::pair<bool, const char*>> all) {
  std::string text;
  for (const auto& [holds, word] : all) {
    if (holds) text += (text.empty() ? "" : " ") + std::string(word);
  }
  return text;
}

// "module gpu half of Net by Net": the kind, where it is, its class, and what made it.
std::string described(const Type& type) {
  constexpr const char* kKinds[] = {
      "unknown", "module",    "loss",        "optimizer", "scheduler",  "loader",
      "dataset", "sampler",   "scaler",      "tensor",    "gradients",  "device",
      "dtype",   "profiler",  "accelerator", "trainer",   "array",      "number",
      "text",    "container", "function",    "class_",    "host_object"};
  std::string text = kKinds[static_cast<std::size_t>(type.kind)];
  if (type.guessed) text += "?";
  const std::string more = words({{type.residence == Residence::host, "host"},
                                  {type.residence == Residence::gpu, "gpu"},
                                  {type.data_parallel, "data_parallel"},
                                  {type.ddp, "ddp"},
                                  {type.fsdp, "fsdp"},
                                  {type.compiled, "compiled"},
                                  {type.frozen, "frozen"},
                                  {type.half, "half"},
                                  {type.bfloat16, "bfloat16"},
                                  {type.channels_last, "channels_last"},
                                  {type.requires_grad, "grad"}});
  if (!more.empty()) text += " " + more;
  std::string classes;
  for (const ClassDef* def : type.classes()) {
    classes += (classes.empty() ? " of " : "|") + std::string(def->name);
  }
  text += classes;
  if (type.function != nullptr) text += " of " + std::string(type.function->name);
  if (type.made_by != nullptr) {
    const std::string_view by = type.made_by->method;
    text += " by " + std::string(by.empty() ? "?" : by);
  }
  if (type.items != nullptr) text += " written";
  if (type.element != nullptr) text += " [" + described(*type.element) + "]";
  return text;
}

// "4 by default": the value, and how sure it is.
std::string described(const Value& value) {
  std::string text;
  switch (value.kind) {
    case ValueKind::none:
      text = "None";
      break;
    case ValueKind::boolean:
      text = value.boolean ? "True" : "False";
      break;
    case ValueKind::integer:
      text = std::to_string(value.integer);
      break;
    case ValueKind::text:
      text = "'" + std::string(value.text) + "'";
      break;
    default:
      return "?";
  }
  if (value.certainty == Certainty::constant) text += " constant";
  if (value.certainty == Certainty::configurable) text += " by default";
  return text;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

// Reads facts of one line.
class Line {
 public:
  Line(const SourceFacts& facts, const File& file, std::uint32_t line)
      : facts_(facts), file_(file), line_(line) {}

  std::string told(const std::string& expected) const {
    if (expected.starts_with("is ")) return values();
    if (expected.starts_with("->")) return targets();
    for (const Loop* loop : file_.loops) {
      if (is_here(*loop->statement)) return role(*loop);
    }
    for (const ClassDef* def : file_.classes) {
      if (!is_here(*def->statement)) continue;
      if (expected.starts_with("layers")) return layers(*def);
      return expected.starts_with("forward") ? forward(*def) : kinds(*def);
    }
    for (const FunctionDef* def : file_.functions) {
      if (is_here(*def->statement)) return steps(*def);
    }
    const Call* probe = probed();
    if (probe == nullptr) return "nothing";
    std::vector<std::string> types;
    for (const Argument& each : probe->arguments) types.push_back(described(*each.value->type));
    return joined(types, ", ");
  }

 private:
  bool is_here(ByteRange range) const { return file_.place(range.begin).line == line_; }
  bool is_here(const Statement& statement) const { return is_here(statement.range); }

  // f(…)
  const Call* probed() const {
    const auto found = std::ranges::find_if(file_.calls, [&](const Call* call) {
      return call->method == "f" && is_here(call->expr->range);
    });
    return found == file_.calls.end() ? nullptr : *found;
  }

  std::string values() const {
    const Call* probe = probed();
    if (probe == nullptr) return "nothing";
    std::vector<std::string> all;
    for (const Argument& each : probe->arguments) {
      const std::string name = each.name.empty() ? "" : std::string(each.name) + "=";
      all.push_back(name + (each.unpacked ? "*" : described(facts_.value(each.value))));
    }
    if (probe->unknown_arguments) all.emplace_back("...");
    return "is " + joined(all, ", ");
  }

  // The first call, with all that stands before its last dot.
  const Call* first_call() const {
    const Call* first = nullptr;
    for (const Call* each : file_.calls) {
      if (!is_here(each->expr->range)) continue;
      const ByteRange range = each->expr->range;
      const bool is_around = first != nullptr && range.begin == first->expr->range.begin &&
                             range.end > first->expr->range.end;
      if (first == nullptr || is_around) first = each;
    }
    return first;
  }

  // What the first call may lead to, what it stands for first.
  std::string targets() const {
    const Call* call = first_call();
    if (call == nullptr) return "nothing";
    std::vector<std::string> names;
    if (call->target != nullptr) names.emplace_back(call->target->full_name);
    for (const auto& file : facts_.files) {
      for (const FunctionDef* def : file->functions) {
        const bool leads =
            std::ranges::find(def->callers, call) != def->callers.end() && def != call->target;
        if (leads) names.emplace_back(def->full_name);
      }
    }
    return names.empty() ? "->" : "-> " + joined(names, ", ");
  }

  static std::string role(const Loop& loop) {
    constexpr const char* kRoles[] = {"training", "evaluation", "epoch", "other"};
    std::string text = kRoles[static_cast<std::size_t>(loop.role)];
    if (loop.on_gpu) text += " on gpu";
    if (loop.loader != nullptr) text += " of " + std::string(loop.loader->method);
    return text;
  }

  static std::string layers(const ClassDef& def) {
    std::string text = "layers";
    for (const Layer& layer : def.layers) {
      text += " " + std::string(layer.attribute);
      if (layer.conditional) text += "?";
      if (layer.repeated) text += "*";
    }
    return text;
  }

  static std::string forward(const ClassDef& def) {
    std::string text = "forward";
    for (const LayerUse& use : def.forward) {
      text += " " + std::string(use.layer == nullptr ? "-" : use.layer->attribute);
      if (use.consumes_previous) text += "<";
    }
    return text;
  }

  static std::string kinds(const ClassDef& def) {
    const std::string text = words({{def.is_module, "module"},
                                    {def.is_lightning_module, "lightning"},
                                    {def.is_lightning_callback, "callback"},
                                    {def.is_dataset, "dataset"},
                                    {def.is_autograd_function, "autograd"},
                                    {def.is_hf_trainer, "hf"},
                                    {def.is_config, "config"}});
    return text.empty() ? "plain" : text;
  }

  static std::string steps(const FunctionDef& def) {
    const std::string text = words({{def.is_training_step, "training step"},
                                    {def.is_evaluation_step, "evaluation step"},
                                    {def.is_open_step, "open step"}});
    return text.empty() ? "no step" : text;
  }

  const SourceFacts& facts_;
  const File& file_;
  std::uint32_t line_;
};

// Which files it imports, or which programs begin with it and whether they train on a GPU.
std::string told_of_file(const SourceFacts& facts, const File& file, const std::string& expected) {
  std::vector<std::string> names;
  if (expected.starts_with("imports")) {
    names.emplace_back("imports");
    for (const File* other : file.imported) names.push_back(other->path);
    return joined(names, " ");
  }
  for (const Program& program : facts.programs) {
    if (program.files.front() != &file) continue;
    std::string text = "runs";
    for (const File* other : program.files) text += " " + other->path;
    names.push_back(text + (program.trains_on_gpu ? " on gpu" : ""));
  }
  return names.empty() ? "no" : joined(names, ", ");
}

std::string told(const SourceFacts& facts, const Expected& expected) {
  const auto file = std::ranges::find_if(
      facts.files, [&](const auto& one) { return one->path == expected.path; });
  if (file == facts.files.end()) return "no file";
  return expected.line == 0 ? told_of_file(facts, **file, expected.text)
                            : Line(facts, **file, expected.line).told(expected.text);
}

TEST(PythonFacts, AreToldOfEachLine) {
  const std::vector<Script> scripts = read_scripts();
  EXPECT_GT(scripts.size(), 400U);
  for (const Script& script : scripts) {
    const auto facts = read_python_texts(script.files);
    ASSERT_TRUE(facts.has_value()) << script.text;
    for (const Expected& each : script.expected) {
      EXPECT_EQ(told(*facts, each), each.text) << "line " << each.line << " of\n" << script.text;
    }
  }
}

// The pattern for each number below `count`, for which `$` stands, and `%` for the one behind it.
std::string times(int count, std::string_view pattern) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (const char c : pattern) {
      text += c == '$' ? std::to_string(i) : c == '%' ? std::to_string(i + 1) : std::string(1, c);
    }
  }
  return text;
}

// How many of something are looked at: a script with `count` of them, and what is told of its
// marked line while there are not too many.
struct Limit {
  const char* what;
  int most;
  std::string (*text)(int count);
  const char* told;
};

const Limit kLimits[] = {
    {"classes with a method", 16,
     [](int count) {
       return times(count, "class A$:\n  def run_it(self):\n    return 1\n") +
              "def g(o):\n  o.run_it()  # ->";
     },
     "A0.run_it"},
    {"networks with a method", 48,
     [](int count) {
       return times(count, "class A$(nn.Module):\n  def predict(self):\n    return 1\n") +
              "def g(model):\n  model.predict()  # ->";
     },
     "A0.predict"},
    {"derived classes", 64,
     [](int count) {
       return "class A:\n  def go(self):\n    self.part()  # ->\n" +
              times(count, "class A$(A):\n  def part(self):\n    return 1\n");
     },
     "A0.part"},
    {"overrides", 63,
     [](int count) {
       return "class A:\n  def part(self):\n    return 1\n  def go(self):\n    self.part()  # "
              "->\n" +
              times(count, "class A$(A):\n  def part(self):\n    return 1\n");
     },
     "A0.part"},
    {"generations", 8,
     [](int count) {
       return "class A0:\n  def go(self):\n    self.part()  # ->\n" +
              times(count, "class A%(A$):\n  pass\n") + "class A(A" + std::to_string(count) +
              "):\n  def part(self):\n    return 1";
     },
     "A.part"},
    {"callers with options", 8,
     [](int count) { return "def g(k):\n  f(**k)  # is ?\n" + times(count, "g({'n': 7})\n"); },
     "n=7"},
    {"dictionaries in each other", 7,
     [](int count) {
       return "f(**" + times(count, "{**") + "{'n': 7}" + times(count, "}") + ")  # is ?";
     },
     "n=7"},
    {"options", 256,
     [](int count) { return "f(**{" + times(count, "'a$': 1, ") + "**{'n': 7}})  # is ?"; }, "n=7"},
    {"modules that hand on", 8,
     [](int count) {
       return "@ mx.py\nfrom m0 import n\nf(n)  # number\n" +
              times(count - 1, "@ m$.py\nfrom m% import n\n") + "@ m" + std::to_string(count - 1) +
              ".py\nn = 1";
     },
     "number"},
    {"classes of one variable", 32,
     [](int count) {
       return "class B:\n  pass\n" + times(count - 1, "class A$:\n  pass\n") + "if x:\n  C = B\n" +
              times(count - 1, "elif x:\n  C = A$\n") + "f(C)  # class_";
     },
     "A0"},
    {"parts of a name", 8,
     [](int count) {
       return "@ train.py  # imports\nimport importlib\nimportlib.import_module('m.'" +
              times(count, " + a$") + ")\n@ m/a.py\nx = 1\n@ n/a.py\nx = 1";
     },
     "m/a.py"},
    {"layers in each other", 7,
     [](int count) {
       return "class N(nn.Module):  # layers\n  def __init__(self):\n    self.a = " +
              times(count, "nn.Sequential(") + "nn.ModuleDict({'deep': nn.ReLU()})" +
              times(count, ")");
     },
     "deep"},
    {"methods of a forward", 7,
     [](int count) {
       return "class N(nn.Module):  # forward\n  def __init__(self):\n    self.deep = nn.ReLU()\n"
              "  def forward(self, x):\n    return self.m0(x)\n" +
              times(count - 1, "  def m$(self, x):\n    return self.m%(x)\n") + "  def m" +
              std::to_string(count - 1) + "(self, x):\n    return self.deep(x)";
     },
     "deep"},
    {"names of a device", 7,
     [](int count) {
       return "a0 = get_gpu()\n" + times(count, "a% = a$\n") + "f(torch.ones(2, device=a" +
              std::to_string(count) + "))  # tensor";
     },
     "gpu"},
    {"files that nothing imports", 24,
     [](int count) {
       return "@ train.py  # imports\nimport importlib\nimportlib.import_module(name)\n" +
              times(count, "@ a$.py\nclass N(nn.Module):\n  def forward(self, x):\n    return x\n");
     },
     "a0.py"},
    {"files of one name", 64,
     [](int count) {
       return "@ q/x/train.py  # imports\nfrom lib.net import N\n@ q/y/lib/net.py\nx = 1\n" +
              times(count - 1, "@ p$/y/lib/net.py\nx = 1\n");
     },
     "q/y/lib/net.py"},
    {"names beside a network", 253,
     [](int count) {
       return "class N(nn.Module):\n  pass\n" + times(count, "a$ = 1\n") +
              "x = globals()[name]\nf(x)  # class_ of N";
     },
     "of N"},
    {"bytes of a name", 113,
     [](int count) {
       return "@ train.py  # imports\nx = 'models." + times(count, "a") + "'\n@ models.py\nclass " +
              times(count, "a") + ":\n  pass";
     },
     "models.py"},
    {"imports by name", 199,
     [](int count) {
       return "@ train.py  # imports\nimport importlib\n" +
              times(count, "importlib.import_module('b')\n") +
              "importlib.import_module('m')\n@ m.py\nx = 1\n@ b.py\nx = 1";
     },
     "m.py"},
};

TEST(PythonFacts, AreLookedForWithinLimits) {
  for (const Limit& limit : kLimits) {
    for (const int count : {limit.most, limit.most + 1}) {
      Script script;
      std::istringstream lines(limit.text(count));
      for (std::string line; std::getline(lines, line);) add_line(line, script);
      const auto facts = read_python_texts(script.files);
      ASSERT_TRUE(facts.has_value()) << limit.what;
      const bool is_told =
          told(*facts, script.expected.front()).find(limit.told) != std::string::npos;
      EXPECT_EQ(is_told, count == limit.most) << count << " " << limit.what;
    }
  }
}

}  // namespace
}  // namespace rooftile::source
