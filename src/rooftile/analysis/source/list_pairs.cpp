#include "rooftile/analysis/source/list_pairs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

constexpr int kMaxSteps = 4;  // from a name to the list it is an element of

// The word of `self.word`; empty for others.
std::string_view own_attribute(const Expr* expr) {
  const bool is_own = expr != nullptr && expr->kind == ExprKind::attribute &&
                      !expr->children().empty() && expr->children()[0]->word() == "self";
  return is_own ? expr->word() : std::string_view();
}

// The calls that make the elements of a list; empty once something else is among them.
struct Elements {
  std::vector<const Call*> calls;
  bool is_mixed = false;

  void add(const Expr* made) {
    const Call* call = made == nullptr ? nullptr : resolved(made)->call();
    is_mixed = is_mixed || call == nullptr;
    if (call != nullptr) calls.push_back(call);
  }
};

class ListReader {
 public:
  explicit ListReader(const FunctionDef& init) {
    for_statements(init.body, [&](const Statement& statement) { read(statement); });
  }

  // Empty where the attribute is no list, or not all elements are seen.
  std::vector<const Call*> elements(std::string_view attribute) const {
    const auto found = own_.find(attribute);
    if (found == own_.end() || found->second.is_mixed) return {};
    return found->second.calls;
  }

 private:
  using Lists = std::map<std::string_view, Elements>;

  void read(const Statement& statement) {
    const Expr* value = statement.value;
    if (value == nullptr) return;
    if (statement.kind == StatementKind::assignment && statement.target != nullptr) {
      const std::string_view own = own_attribute(statement.target);
      if (!own.empty()) add_contents(*value, own_[own]);
      if (statement.target->kind == ExprKind::name) {
        add_contents(*value, local_[statement.target->word()]);
      }
    } else if (statement.kind == StatementKind::expression && value->call() != nullptr) {
      read_append(*value->call());
    }
  }

  void read_append(const Call& call) {
    if (call.method != "append" || call.receiver == nullptr || call.arguments.empty()) return;
    const std::string_view own = own_attribute(call.receiver);
    const bool is_local = call.receiver->kind == ExprKind::name;
    if (own.empty() && !is_local) return;
    Elements& elements = own.empty() ? local_[call.receiver->word()] : own_[own];
    const Expr* added = call.arguments[0].value;
    const auto inner = added->kind == ExprKind::name ? local_.find(added->word()) : local_.end();
    if (inner == local_.end() || inner->second.calls.empty()) return elements.add(added);
    // A list of lists: what the inner ones hold.
    const Elements parts = inner->second;
    elements.is_mixed = elements.is_mixed || parts.is_mixed;
    elements.calls.insert(elements.calls.end(), parts.calls.begin(), parts.calls.end());
  }

  // nn.ModuleList([…]), a list, a comprehension, or the name of a list.
  void add_contents(const Expr& written, Elements& elements) {
    const Call* call = written.call();
    if (call != nullptr) {
      if (call->method != "ModuleList") elements.is_mixed = true;
      if (call->method == "ModuleList" && !call->arguments.empty()) {
        add_contents(*call->arguments[0].value, elements);
      }
    } else if (written.kind == ExprKind::list) {
      for (const Expr* item : written.children()) elements.add(item);
    } else if (written.kind == ExprKind::comprehension && !written.children().empty()) {
      elements.add(written.children()[0]);
    } else if (const auto known = local_.find(written.word()); known != local_.end()) {
      elements = known->second;
    } else {
      elements.is_mixed = true;
    }
  }

  Lists own_, local_;
};

// self.layers of self.layers, self.layers[:-1], self.layers[i] and self.layers[i][j].
std::string_view own_list(const Expr* expr) {
  for (int steps = 0; steps < kMaxSteps && expr->kind == ExprKind::subscript; ++steps) {
    if (expr->children().empty()) return {};
    expr = expr->children()[0];
  }
  return own_attribute(expr);
}

// The list that a loop's target goes through: `for i, (conv, bn) in enumerate(zip(self.a,
// self.b))`.
std::string_view list_of_target(const Expr& target, const Expr& iterable, std::string_view name) {
  const Call* call = iterable.call();
  if (call != nullptr && call->method == "enumerate" && !call->arguments.empty() &&
      target.children().size() == 2) {
    return list_of_target(*target.children()[1], *call->arguments[0].value, name);
  }
  if (call != nullptr && call->method == "zip") {
    for (std::size_t i = 0; i < std::min(target.children().size(), call->arguments.size()); ++i) {
      if (target.children()[i]->word() == name) return own_list(call->arguments[i].value);
    }
  }
  const bool is_plain = target.kind == ExprKind::name && target.word() == name;
  return is_plain ? own_list(&iterable) : std::string_view();
}

// The attribute whose element it is; empty for what is no element of a list of the module.
std::string_view list_of(const Expr* layer, int steps = 0) {
  if (layer == nullptr || steps > kMaxSteps) return {};
  if (layer->kind == ExprKind::subscript && !layer->children().empty()) {
    return own_list(layer);
  }
  if (layer->kind != ExprKind::name || layer->binding() == nullptr) return {};
  const Statement& binding = *layer->binding();
  if (binding.kind == StatementKind::for_ && binding.target != nullptr) {
    return list_of_target(*binding.target, *binding.value, layer->word());
  }
  const Expr* made = resolved(layer);
  return made == layer ? std::string_view() : list_of(made, steps + 1);
}

const Expr* callee_of(const Call& call) { return call.expr->children().front(); }

class ForwardReader {
 public:
  explicit ForwardReader(const FunctionDef& forward) : forward_(forward) {}

  // The call whose result is the only input of `call`, and read nowhere else.
  const Call* call_before(const Call& call) const {
    if (call.arguments.size() != 1) return nullptr;
    const Expr* input = call.arguments[0].value;
    if (input->call() != nullptr) return input->call();
    const Expr* made = resolved(input);
    return made != input && reads_of(*input->binding()) == 1 ? made->call() : nullptr;
  }

 private:
  int reads_of(const Statement& binding) const {
    int reads = 0;
    for_statements(forward_.body, [&](const Statement& statement) {
      for_own_expressions(statement, [&](const Expr* own) {
        visit(own, [&](const Expr& part) {
          const bool is_it = part.kind == ExprKind::name && part.binding() == &binding;
          reads += is_it && &part != statement.target;
          return true;
        });
      });
    });
    return reads;
  }

  const FunctionDef& forward_;
};

}  // namespace

void add_pairs_of_lists(const ClassDef& def, std::vector<LayerPair>& pairs) {
  const FunctionDef* init = def.method("__init__");
  const FunctionDef* forward = def.method("forward");
  if (init == nullptr || forward == nullptr) return;
  std::optional<ListReader> lists;
  for (const Call* call : forward->calls) {
    const std::string_view second = list_of(callee_of(*call));
    if (second.empty()) continue;
    const Call* before = ForwardReader(*forward).call_before(*call);
    const std::string_view first =
        before == nullptr ? std::string_view() : list_of(callee_of(*before));
    if (first.empty() || first == second) continue;
    if (!lists) lists.emplace(*init);
    const auto layers = lists->elements(first), next = lists->elements(second);
    if (layers.empty() || next.empty()) continue;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      pairs.push_back({layers[i], next[next.size() == layers.size() ? i : 0], nullptr, true});
    }
  }
}

}  // namespace rooftile::source
