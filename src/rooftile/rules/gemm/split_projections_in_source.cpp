#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace projections_in_source {

using namespace source;

constexpr std::int64_t kAdapter = 64;  // outputs; narrower ones are low-rank adapters

// A Linear layer of a module, or a weight that a matmul multiplies with.
struct Projection {
  const Expr* at = nullptr;     // the product
  const Expr* input = nullptr;  // a variable
  std::string_view name;        // of the attribute
  bool is_set_again = false;    // the variable, in branches or a loop: it holds up to there
};

// Projections that read one value.
struct Family {
  std::vector<Projection> uses;

  const Expr* input() const { return uses.front().input; }
  bool is_set_again() const { return uses.front().is_set_again; }
};

int parameter_index(const FunctionDef& function, std::string_view name) {
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    if (function.parameters[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// `if key is None: key = query`: the assignment.
bool fills_in(const Statement& statement, std::string_view parameter) {
  const Statement* outer = statement.parent;
  if (outer == nullptr || outer->kind != StatementKind::if_) return false;
  const Expr& asked = *outer->value;
  const bool asks_none = asked.kind == ExprKind::comparison && asked.word() == "is" &&
                         asked.children().size() == 2 && asked.children()[0]->word() == parameter &&
                         asked.children()[1]->kind == ExprKind::none;
  return asks_none && statement.kind == StatementKind::assignment &&
         statement.target->kind == ExprKind::name && statement.target->word() == parameter &&
         outer->otherwise.empty();
}

// What a call of the method gives for a parameter, where that is a plain variable or attribute.
std::string_view given_for(const Call& call, const FunctionDef& method, int parameter) {
  const auto& name = method.parameters[static_cast<std::size_t>(parameter)].name;
  const Argument* given = call.argument(name, parameter - 1);
  const bool is_plain =
      given != nullptr && !given->unpacked &&
      (given->value->kind == ExprKind::name || given->value->kind == ExprKind::attribute);
  return is_plain ? call.file->slice(given->value->range) : std::string_view();
}

// attention(x, x, x): two parameters that all calls seen give the same value.
bool are_given_the_same(const FunctionDef& method, std::string_view a, std::string_view b) {
  const int first = parameter_index(method, a), second = parameter_index(method, b);
  if (first < 1 || second < 1 || method.callers.empty()) return false;
  return std::all_of(method.callers.begin(), method.callers.end(), [&](const Call* call) {
    const std::string_view given = given_for(*call, method, first);
    return !given.empty() && given == given_for(*call, method, second);
  });
}

// Whether the variable is set again in the function before it is read, or may be in a loop; its
// binding is then unknown in branches.
bool is_set_again(const Expr& input) {
  if (input.binding() != nullptr) return false;
  const FunctionDef* function = input.statement->function;
  if (function == nullptr) return true;
  const bool is_parameter = parameter_index(*function, input.word()) >= 0;
  bool is_in_loop = false;
  for (const Statement* at = input.statement; at != function->statement && at != nullptr;
       at = at->parent) {
    is_in_loop = is_in_loop || at->loop != nullptr;
  }
  return any_statement(function->body, [&](const Statement& statement) {
    const bool is_before = statement.range.begin < input.statement->range.begin;
    if (is_parameter && !is_in_loop && !is_before) return false;
    const Expr* target = statement.target;
    return target != nullptr && uses_variable(target, input.word()) &&
           !fills_in(statement, input.word());
  });
}

// Whether no statement from the one of `a` to the one of `b` in the same block sets the variable.
bool is_unchanged_between(const Expr& a, const Expr& b) {
  const Statement& first = *a.statement;
  const Statement& last = *b.statement;
  if (first.block.data() != last.block.data() || first.index > last.index) return false;
  const bool is_set = any_statement(
      first.block.subspan(first.index, last.index - first.index), [&](const Statement& statement) {
        return statement.target != nullptr && uses_variable(statement.target, a.word());
      });
  return !is_set;
}

// Of variables that are not set again.
bool is_same_value(const Expr& a, const Expr& b) {
  if (a.binding() != b.binding()) return false;
  if (a.word() == b.word()) return true;
  const FunctionDef* function = a.statement->function;
  return a.binding() == nullptr && function != nullptr &&
         are_given_the_same(*function, a.word(), b.word());
}

// nn.Linear, or an own class derived from it.
bool makes_linear(const Call& made) {
  if (made.name == "torch.nn.Linear") return true;
  const ClassDef* def = made.expr->type->class_def;
  return def != nullptr && std::ranges::any_of(def->bases, [](const Expr* base) {
           return base->full_name() == "torch.nn.Linear";
         });
}

// `if use_bias: self.q = nn.Linear(n, m) else: self.q = nn.Linear(n, m, bias=False)`: whichever
// branch runs, there is one.
bool has_same_sizes(const Call& a, const Call& b) {
  const auto text = [](const Call& call, std::string_view name, int position) {
    const Argument* size = call.argument(name, position);
    return size == nullptr ? std::string_view() : call.file->slice(size->value->range);
  };
  return text(a, "in_features", 0) == text(b, "in_features", 0) &&
         text(a, "out_features", 1) == text(b, "out_features", 1);
}

bool is_made_in_both_branches(const ClassDef& def, const Layer& layer) {
  const Statement* test = layer.statement->parent;
  if (test == nullptr || test->kind != StatementKind::if_) return false;
  const bool is_in_body = layer.statement->block.data() == test->body.data();
  return std::ranges::any_of(def.layers, [&](const Layer& other) {
    return other.attribute == layer.attribute && makes_linear(*other.made_by) &&
           other.statement->parent == test && has_same_sizes(*other.made_by, *layer.made_by) &&
           (other.statement->block.data() == test->body.data()) != is_in_body;
  });
}

bool is_plain_linear(const SourceFacts& facts, const ClassDef& def, const LayerUse& use) {
  if (use.layer == nullptr || use.layer->repeated) return false;
  if (use.layer->conditional && !is_made_in_both_branches(def, *use.layer)) return false;
  // Members of a Sequential run one after the other.
  if (use.layer->attribute.find('.') != std::string_view::npos) return false;
  const Call* made = use.layer->made_by;
  if (made == nullptr || !makes_linear(*made)) return false;
  const auto out = fixed_argument(facts, *made, "out_features", 1);
  const std::string name = lower(use.layer->attribute);
  return (!out || *out >= kAdapter) && name.find("lora") == std::string::npos;
}

std::vector<Projection> layers_of(const SourceFacts& facts, const ClassDef& def) {
  std::vector<Projection> found;
  for (const LayerUse& use : def.forward) {
    if (!is_plain_linear(facts, def, use) || use.call->arguments.size() != 1) continue;
    found.push_back({use.call->expr, use.call->arguments.front().value, use.layer->attribute});
  }
  return found;
}

// self.w = nn.Parameter(…)
bool is_parameter(const ClassDef& def, const Expr& expr) {
  if (expr.kind != ExprKind::attribute || expr.children()[0]->word() != "self") return false;
  const FunctionDef* init = def.method("__init__");
  return init != nullptr && std::ranges::any_of(init->calls, [&](const Call* call) {
           const Expr* target = call->statement->target;
           return call->name == "torch.nn.Parameter" && target != nullptr &&
                  target->kind == ExprKind::attribute && target->word() == expr.word();
         });
}

// `h @ self.w`, torch.matmul(h, self.w), torch.mm(h, self.w).
std::optional<Projection> product_with_parameter(const ClassDef& def, const Expr& expr) {
  const Expr *left = nullptr, *right = nullptr;
  const Call* call = expr.call();
  if (expr.kind == ExprKind::binary && expr.word() == "@") {
    left = expr.children()[0];
    right = expr.children()[1];
  } else if (call != nullptr && is_one_of(call->name, {"torch.matmul", "torch.mm"}) &&
             call->arguments.size() == 2) {
    left = call->arguments[0].value;
    right = call->arguments[1].value;
  }
  if (left == nullptr || !is_parameter(def, *right)) return std::nullopt;
  return Projection{&expr, left, right->word()};
}

std::vector<Projection> products_of(const ClassDef& def) {
  std::vector<Projection> found;
  const FunctionDef* forward = def.method("forward");
  if (forward == nullptr || !has_text(*def.file, "Parameter")) return found;
  for_statements(forward->body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        if (const auto product = product_with_parameter(def, part)) found.push_back(*product);
        return true;
      });
    });
  });
  return found;
}

// The family that reads the same value; null where there is none.
Family* family_of(std::vector<Family>& families, const Projection& one) {
  if (!one.is_set_again) {
    const auto known = std::ranges::find_if(families, [&](const Family& family) {
      return !family.is_set_again() && is_same_value(*family.input(), *one.input);
    });
    return known == families.end() ? nullptr : &*known;
  }
  // The last that reads the variable: earlier ones read what it was before.
  const auto last = std::find_if(families.rbegin(), families.rend(), [&](const Family& family) {
    return family.is_set_again() && family.input()->word() == one.input->word();
  });
  const bool is_same = last != families.rend() && is_unchanged_between(*last->input(), *one.input);
  return is_same ? &*last : nullptr;
}

std::vector<Family> families_of(const SourceFacts& facts, const ClassDef& def) {
  std::vector<Family> families;
  for (auto projections : {layers_of(facts, def), products_of(def)}) {
    for (Projection& one : projections) {
      if (one.input->kind != ExprKind::name) continue;
      one.is_set_again = is_set_again(*one.input);
      if (Family* family = family_of(families, one)) {
        family->uses.push_back(one);
      } else {
        families.push_back({{one}});
      }
    }
  }
  return families;
}

std::size_t different_layers(const Family& family) {
  std::set<std::string_view> names;
  for (const Projection& use : family.uses) names.insert(use.name);
  return names.size() == family.uses.size() ? names.size() : 0;
}

bool is_named(const Family& family, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      family.uses, [&](const Projection& use) { return contains_any(lower(use.name), words); });
}

bool has_exact_name(const Family& family, Words names) {
  return std::ranges::any_of(family.uses,
                             [&](const Projection& use) { return is_one_of(use.name, names); });
}

// Two layers are one only where their names say so: keys and values, gate and up. Others, as mean
// and variance or two heads, gain little.
bool belongs_together(const Family& family) {
  const std::size_t layers = different_layers(family);
  if (layers >= 3) return true;
  // Cross attention shares the class where the queries differ.
  const auto is_other = [&](const Projection& use) {
    return use.input->word() != family.input()->word();
  };
  if (layers != 2 || std::ranges::any_of(family.uses, is_other)) return false;
  const bool keys = is_named(family, {"key", "k_proj", "to_k", "w_k"}) &&
                    is_named(family, {"val", "v_proj", "to_v", "w_v"});
  const bool gate = is_named(family, {"gate"}) && is_named(family, {"up", "value", "fc", "proj"});
  const bool llama = has_exact_name(family, {"w1"}) && has_exact_name(family, {"w3"});
  return keys || gate || llama;
}

bool is_of_library(const Call& call) {
  const std::string_view name = call.name;
  return call.target == nullptr &&
         (name.starts_with("torch.") || name.starts_with("transformers.") ||
          name.starts_with("pytorch_transformers.") ||
          name.starts_with("pytorch_pretrained_bert.") || name.starts_with("diffusers.") ||
          name.starts_with("timm.") || name.starts_with("torchvision."));
}

bool loads_weights(const Call& call) {
  const std::string_view method = call.method;
  if (method == "from_pretrained") return !is_of_library(call);
  return method == "load_from" ||
         (method.starts_with("load_") && (method.find("pretrained") != std::string_view::npos ||
                                          method.find("weights") != std::string_view::npos));
}

// A parameter, a variable or an option: `args.pretrained`, `pretrained = weights.endswith(".pt")`.
bool offers_pretrained(const File& file) {
  const auto takes = [](const FunctionDef* function) {
    return std::any_of(
        function->parameters.begin(), function->parameters.end(), [](const Parameter& parameter) {
          return is_one_of(
              parameter.name,
              {"pretrained", "pretrain_file", "pretrain_path", "pretrained_file", "pretrained_path",
               "pretrained_model", "pretrained_model_path", "init_checkpoint"});
        });
  };
  if (std::any_of(file.functions.begin(), file.functions.end(), takes)) return true;
  return std::any_of(file.statements.begin(), file.statements.end(), [](const Statement* one) {
    bool reads = false;
    for_own_expressions(*one, [&](const Expr* expr) {
      reads = reads || uses_name(expr, {"pretrained", "pretrained_weights"});
    });
    return reads;
  });
}

// `model.load_state_dict(weights, strict=False)`: what has another name is dropped without a word.
bool loads_in_part(const SourceFacts& facts, const Program& program) {
  return std::ranges::any_of(facts.method_calls("load_state_dict"), [&](const Call* call) {
    return program.has(*call->file) && facts.argument(*call, "strict", 1).is_false();
  });
}

// Names of the weights are fixed where somebody else's checkpoint is loaded.
bool is_loaded_by_name(const SourceFacts& facts, const ClassDef& def) {
  for (const FunctionDef* method : def.methods) {
    if (method->name.find("load") != std::string::npos) return true;
  }
  const auto programs = training_programs_of(facts, *def.file);
  const auto in_part = [&](const Program* program) { return loads_in_part(facts, *program); };
  if (std::ranges::any_of(programs, in_part)) return true;
  return std::any_of(programs.begin(), programs.end(), [](const Program* program) {
    return std::any_of(program->files.begin(), program->files.end(), [](const File* file) {
      if (!mentions(*file, {"from_pretrained", "load_from", "weights", "pretrained", "pretrain",
                            "init_checkpoint"}))
        return false;
      const auto loads = [](const Call* call) { return loads_weights(*call); };
      return std::any_of(file->calls.begin(), file->calls.end(), loads) ||
             (mentions(*file, {"pretrained", "pretrain", "init_checkpoint"}) &&
              offers_pretrained(*file));
    });
  });
}

// [layer(x) for layer, x in zip(self.layers, (query, key, value))] with three or more layers
// written as one, and all inputs the same; null for others.
const Expr* zipped_inputs(const SourceFacts& facts, const ClassDef& def, const Expr& written) {
  if (written.kind != ExprKind::comprehension || written.children().size() != 2) return nullptr;
  const Expr& clause = *written.children()[1];
  if (clause.kind != ExprKind::for_clause || clause.children().size() != 2) return nullptr;
  const Call* zip = clause.children()[1]->call();
  const Expr& target = *clause.children()[0];
  const bool is_zip = zip != nullptr && zip->method == "zip" && zip->arguments.size() == 2 &&
                      target.kind == ExprKind::tuple && target.children().size() == 2;
  if (!is_zip) return nullptr;
  const Expr* layers = zip->arguments[0].value;
  const Expr* inputs = zip->arguments[1].value;
  const Layer* layer = def.layer(std::string(last_name(layers)) + ".0");
  const bool is_linear =
      layer != nullptr && layer->made_by->name == "torch.nn.Linear" &&
      fixed_argument(facts, *layer->made_by, "out_features", 1).value_or(kAdapter) >= kAdapter;
  const bool is_list = inputs->kind == ExprKind::tuple || inputs->kind == ExprKind::list;
  if (!is_linear || !is_list || inputs->children().size() < 3) return nullptr;
  for (const Expr* input : inputs->children()) {
    const bool is_parameter = input->kind == ExprKind::name && !is_set_again(*input);
    if (!is_parameter || !is_same_value(*inputs->children()[0], *input)) return nullptr;
  }
  return inputs;
}

const Expr* zipped_inputs_of(const SourceFacts& facts, const ClassDef& def) {
  const FunctionDef* forward = def.method("forward");
  if (forward == nullptr) return nullptr;
  const Expr* found = nullptr;
  for_statements(forward->body, [&](const Statement& statement) {
    visit(statement.value, [&](const Expr& part) {
      if (found == nullptr) found = zipped_inputs(facts, def, part);
      return true;
    });
  });
  return found;
}

Finding finding_for(const Expr& at, std::size_t count, const std::string& message) {
  const Fix fix{
      "Make those that read one value one nn.Linear with all their outputs, and split its result "
      "(.chunk, .split)",
      Exactness::exact_arithmetic};
  Finding finding = at.call() != nullptr ? finding_at(*at.call(), message, fix)
                                         : finding_at(*at.statement, message, fix);
  finding.count = static_cast<std::int64_t>(count);
  finding.evidence = {Evidence::published("concatenate weights that share an input",
                                          "NVIDIA, GTC 2019 talk S9143")};
  return finding;
}

// "4 layers of Cell read x one by one: xi, xf, xg, xo; 4 read h: hi, hf, hg, ho"
Finding finding_for(const ClassDef& def, const std::vector<Family>& families) {
  std::string text;
  std::size_t count = 0;
  for (const Family& family : families) {
    std::vector<std::string> names;
    for (const Projection& use : family.uses) names.emplace_back(use.name);
    text += text.empty() ? fmt::format("{} layers of {} read {} one by one: {}", names.size(),
                                       def.name, family.input()->word(), join(names, ", "))
                         : fmt::format("; {} read {}: {}", names.size(), family.input()->word(),
                                       join(names, ", "));
    count += names.size();
  }
  return finding_for(*families.front().uses.front().at, count, text);
}

std::optional<Finding> judge(const SourceFacts& facts, const ClassDef& def) {
  if (const Expr* inputs = zipped_inputs_of(facts, def)) {
    const std::size_t count = inputs->children().size();
    return finding_for(*inputs, count,
                       fmt::format("{} layers of {} read one value one by one", count, def.name));
  }
  std::vector<Family> families = families_of(facts, def);
  std::erase_if(families, [](const Family& family) { return !belongs_together(family); });
  if (families.empty()) return std::nullopt;
  return finding_for(def, families);
}

}  // namespace projections_in_source

std::vector<Finding> split_projections_in_source(const source::SourceFacts& facts) {
  using namespace projections_in_source;
  std::vector<Finding> findings;
  for (const ClassDef* def : facts.modules()) {
    if (!trains_on_gpu(facts, *def->file)) continue;
    const std::optional<Finding> finding = judge(facts, *def);
    if (!finding || is_loaded_by_name(facts, *def)) continue;
    findings.push_back(*finding);
  }
  return findings;
}

}  // namespace rooftile
