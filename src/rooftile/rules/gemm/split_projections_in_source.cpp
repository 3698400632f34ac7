#include "rooftile/rules/gemm/split_projections_in_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/leftovers.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace projections_in_source {

using namespace source;

constexpr std::int64_t kAdapter = 64;  // outputs; narrower ones are low-rank adapters

// Linear layers that read one value.
struct Family {
  const Expr* input = nullptr;
  std::vector<const LayerUse*> uses;
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
  if (outer == nullptr || outer->kind != StatementKind::if_ || outer->value == nullptr)
    return false;
  const Expr& asked = *outer->value;
  const bool asks_none = asked.kind == ExprKind::comparison && asked.word() == "is" &&
                         asked.children().size() == 2 && asked.children()[0]->word() == parameter &&
                         asked.children()[1]->kind == ExprKind::none;
  return asks_none && statement.kind == StatementKind::assignment && statement.target != nullptr &&
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

bool is_same_value(const Expr& a, const Expr& b) {
  if (a.kind != ExprKind::name || b.kind != ExprKind::name || a.binding() != b.binding())
    return false;
  if (a.word() == b.word()) return true;
  const FunctionDef* function = a.statement->function;
  return a.binding() == nullptr && function != nullptr &&
         are_given_the_same(*function, a.word(), b.word());
}

// Whether the variable is set anew in the function before it is read, or may be in a loop; its
// binding is then unknown in branches.
bool is_unknown(const Expr& input) {
  if (input.binding() != nullptr) return false;
  const FunctionDef* function = input.statement->function;
  if (function == nullptr) return true;
  const bool is_parameter = parameter_index(*function, input.word()) >= 0;
  bool is_in_loop = false;
  for (const Statement* at = input.statement; at != function->statement && at != nullptr;
       at = at->parent) {
    is_in_loop = is_in_loop || at->loop != nullptr;
  }
  bool is_set = false;
  for_statements(function->body, [&](const Statement& statement) {
    const bool is_before = statement.range.begin < input.statement->range.begin;
    if (is_parameter && !is_in_loop && !is_before) return;
    const Expr* target = statement.target;
    is_set = is_set || (target != nullptr && uses_variable(target, input.word()) &&
                        !fills_in(statement, input.word()));
  });
  return is_set;
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
  const Statement* test = layer.statement == nullptr ? nullptr : layer.statement->parent;
  if (test == nullptr || test->kind != StatementKind::if_) return false;
  const bool is_in_body = layer.statement->block.data() == test->body.data();
  return std::ranges::any_of(def.layers, [&](const Layer& other) {
    return other.attribute == layer.attribute && other.made_by != nullptr &&
           makes_linear(*other.made_by) && other.statement->parent == test &&
           layer.made_by != nullptr && has_same_sizes(*other.made_by, *layer.made_by) &&
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

std::vector<Family> families_of(const SourceFacts& facts, const ClassDef& def) {
  std::vector<Family> families;
  for (const LayerUse& use : def.forward) {
    if (!is_plain_linear(facts, def, use) || use.call->arguments.size() != 1) continue;
    const Expr* input = use.call->arguments.front().value;
    if (input->kind != ExprKind::name || is_unknown(*input)) continue;
    const auto known = std::find_if(families.begin(), families.end(), [&](const Family& family) {
      return is_same_value(*family.input, *input);
    });
    if (known == families.end()) {
      families.push_back({input, {&use}});
    } else {
      known->uses.push_back(&use);
    }
  }
  return families;
}

std::size_t different_layers(const Family& family) {
  std::vector<const Layer*> layers;
  for (const LayerUse* use : family.uses) {
    if (std::find(layers.begin(), layers.end(), use->layer) == layers.end()) {
      layers.push_back(use->layer);
    }
  }
  return layers.size() == family.uses.size() ? layers.size() : 0;
}

bool is_named(const Family& family, std::initializer_list<std::string_view> words) {
  return std::any_of(family.uses.begin(), family.uses.end(), [&](const LayerUse* use) {
    const std::string name = lower(use->layer->attribute);
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return name.find(word) != std::string::npos; });
  });
}

bool has_exact_name(const Family& family, Words names) {
  return std::any_of(family.uses.begin(), family.uses.end(), [&](const LayerUse* use) {
    return std::find(names.begin(), names.end(), use->layer->attribute) != names.end();
  });
}

// Two layers are one only where their names say so: keys and values, gate and up. Others, as mean
// and variance or two heads, gain little.
bool belongs_together(const Family& family) {
  const std::size_t layers = different_layers(family);
  if (layers >= 3) return true;
  // Cross attention shares the class where the queries differ.
  const auto is_other = [&](const LayerUse* use) {
    return use->call->arguments.front().value->word() != family.input->word();
  };
  if (layers != 2 || std::any_of(family.uses.begin(), family.uses.end(), is_other)) return false;
  const bool keys = is_named(family, {"key", "k_proj", "to_k", "w_k"}) &&
                    is_named(family, {"val", "v_proj", "to_v", "w_v"});
  const bool gate = is_named(family, {"gate"}) && is_named(family, {"up", "value", "fc", "proj"});
  const bool llama = has_exact_name(family, {"w1"}) && has_exact_name(family, {"w3"});
  return keys || gate || llama;
}

bool is_of_library(const Call& call) {
  const std::string_view name = call.name;
  return call.target == nullptr && name.find('.') != std::string_view::npos &&
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

// Names of the weights are fixed where somebody else's checkpoint is loaded.
bool is_loaded_by_name(const SourceFacts& facts, const ClassDef& def) {
  for (const FunctionDef* method : def.methods) {
    if (method->name.find("load") != std::string::npos) return true;
  }
  const auto programs = training_programs_of(facts, *def.file);
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
    const bool is_parameter = input->kind == ExprKind::name && !is_unknown(*input);
    if (!is_parameter || !is_same_value(*inputs->children()[0], *input)) return nullptr;
  }
  return inputs;
}

const Expr* zipped_family(const SourceFacts& facts, const ClassDef& def) {
  const FunctionDef* forward = def.method("forward");
  if (forward == nullptr) return nullptr;
  const Expr* found = nullptr;
  for_statements(forward->body, [&](const Statement& statement) {
    if (statement.value == nullptr || found != nullptr) return;
    visit(statement.value, [&](const Expr& part) {
      if (found == nullptr) found = zipped_inputs(facts, def, part);
      return found == nullptr;
    });
  });
  return found;
}

Finding finding_for(const ClassDef& def, const Expr& at, std::size_t count, std::string_view input,
                    const std::string& names) {
  const std::string text =
      fmt::format("{} layers of {} read {} one by one{}", count, def.name, input, names);
  const Fix fix{fmt::format("Make them one nn.Linear with the outputs of all {}, and split its "
                            "result (.chunk, .split)",
                            count),
                Exactness::exact_arithmetic};
  Finding finding = at.call() != nullptr ? finding_at(*at.call(), text, fix)
                                         : finding_at(*at.statement, text, fix);
  finding.count = static_cast<std::int64_t>(count);
  finding.evidence = {"concatenate weights that share an input: NVIDIA, GTC 2019 talk S9143"};
  return finding;
}

Finding finding_for(const ClassDef& def, const Family& family) {
  std::vector<std::string> names;
  for (const LayerUse* use : family.uses) names.push_back(std::string(use->layer->attribute));
  return finding_for(def, *family.uses.front()->call->expr, family.uses.size(),
                     family.input->word(), ": " + join(names, ", "));
}

std::optional<Finding> judge(const SourceFacts& facts, const ClassDef& def) {
  if (const Expr* inputs = zipped_family(facts, def)) {
    return finding_for(def, *inputs, inputs->children().size(), "one value", "");
  }
  for (const Family& family : families_of(facts, def)) {
    if (belongs_together(family)) return finding_for(def, family);
  }
  return std::nullopt;
}

}  // namespace projections_in_source

std::vector<Finding> split_projections_in_source(const source::SourceFacts& facts) {
  using namespace projections_in_source;
  std::vector<Finding> findings;
  for (const ClassDef* def : facts.modules()) {
    if (!trains_on_gpu(facts, *def->file)) continue;
    const std::optional<Finding> finding = judge(facts, *def);
    if (!finding || is_loaded_by_name(facts, *def) || is_left_over(facts, *def)) continue;
    findings.push_back(*finding);
  }
  return findings;
}

}  // namespace rooftile
