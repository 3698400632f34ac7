#include "rooftile/rules/gemm/split_projections_in_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "rooftile/analysis/source/layer_queries.h"
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

bool is_same_value(const Expr& a, const Expr& b) {
  return a.kind == ExprKind::name && b.kind == ExprKind::name && a.word == b.word &&
         a.binding == b.binding;
}

// Whether the variable is set anew in the function; its binding is then unknown in branches.
bool is_unknown(const Expr& input) {
  if (input.binding != nullptr) return false;
  const FunctionDef* function = input.statement->function;
  if (function == nullptr) return true;
  bool is_set = false;
  for_statements(function->body, [&](const Statement& statement) {
    const Expr* target = statement.target;
    is_set = is_set || (target != nullptr && uses_variable(target, input.word));
  });
  return is_set;
}

bool is_plain_linear(const SourceFacts& facts, const LayerUse& use) {
  if (use.layer == nullptr || use.layer->conditional || use.layer->repeated) return false;
  // Members of a Sequential run one after the other.
  if (use.layer->attribute.find('.') != std::string_view::npos) return false;
  const Call* made = use.layer->made_by;
  if (made == nullptr || made->name != "torch.nn.Linear") return false;
  const auto out = fixed_argument(facts, *made, "out_features", 1);
  const std::string name = lower(use.layer->attribute);
  return (!out || *out >= kAdapter) && name.find("lora") == std::string::npos;
}

std::vector<Family> families_of(const SourceFacts& facts, const ClassDef& def) {
  std::vector<Family> families;
  for (const LayerUse& use : def.forward) {
    if (!is_plain_linear(facts, use) || use.call->arguments.size() != 1) continue;
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
  if (layers != 2) return false;
  const bool keys = is_named(family, {"key", "k_proj", "to_k", "w_k"}) &&
                    is_named(family, {"value", "v_proj", "to_v", "w_v"});
  const bool gate = is_named(family, {"gate"}) && is_named(family, {"up", "value", "fc", "proj"});
  const bool llama = has_exact_name(family, {"w1"}) && has_exact_name(family, {"w3"});
  return keys || gate || llama;
}

// Names of the weights are fixed where somebody else's checkpoint is loaded.
bool is_loaded_by_name(const SourceFacts& facts, const ClassDef& def) {
  for (const FunctionDef* method : def.methods) {
    if (method->name.find("load") != std::string::npos) return true;
  }
  const auto programs = training_programs_of(facts, *def.file);
  return std::any_of(programs.begin(), programs.end(), [](const Program* program) {
    return mentions(*program, {"from_pretrained", "load_from", "load_weights", "pretrained"});
  });
}

Finding finding_for(const ClassDef& def, const Family& family) {
  std::vector<std::string> names;
  for (const LayerUse* use : family.uses) names.push_back(std::string(use->layer->attribute));
  Finding finding = finding_at(
      *family.uses.front()->call,
      fmt::format("{} layers of {} read {} one by one: {}", family.uses.size(), def.name,
                  family.input->word, join(names, ", ")),
      {fmt::format("Make them one nn.Linear with the outputs of all {}, and split its result "
                   "(.chunk, .split)",
                   family.uses.size()),
       Exactness::exact_arithmetic});
  finding.count = static_cast<std::int64_t>(family.uses.size());
  finding.evidence = {"concatenate weights that share an input: NVIDIA, GTC 2019 talk S9143"};
  return finding;
}

}  // namespace projections_in_source

std::vector<Finding> split_projections_in_source(const source::SourceFacts& facts) {
  using namespace projections_in_source;
  std::vector<Finding> findings;
  for (const ClassDef* def : facts.modules()) {
    if (!trains_on_gpu(facts, *def->file) || is_loaded_by_name(facts, *def)) continue;
    for (const Family& family : families_of(facts, *def)) {
      if (!belongs_together(family)) continue;
      findings.push_back(finding_for(*def, family));
      break;
    }
  }
  return findings;
}

}  // namespace rooftile
