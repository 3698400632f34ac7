#include "rooftile/analysis/source/layer_pairs.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/analysis/source/layer_members.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// The `if` around `inner` that is not around `outer`; the outermost in `ifs`, at most two kept.
bool is_nested_below(const Statement& outer, const Statement& inner,
                     std::vector<const Statement*>& ifs) {
  for (const Statement* at = &inner;; at = at->parent) {
    if (at->parent == outer.parent) return at->block.data() == outer.block.data();
    if (at->parent == nullptr || at->parent->kind != StatementKind::if_) return false;
    if (at->block.data() != at->parent->body.data()) return false;  // in the else
    ifs.push_back(at->parent);
  }
}

class PairFinder {
 public:
  explicit PairFinder(const File& file) : file_(file) {}

  std::vector<LayerPair> run() {
    for (const Call* call : file_.calls) {
      if (call->name != "torch.nn.Sequential" && !fills_sequential(*call)) continue;
      add_neighbours(arguments_of(*call));
    }
    grow_lists(file_.body);
    for (const FunctionDef* function : file_.functions) {
      grow_lists(function->body);
    }
    for (const ClassDef* def : file_.classes) read_forward(*def);
    return std::move(pairs_);
  }

 private:
  // The call that makes a member, and the condition under which the member is there.
  struct Made {
    const Call* call = nullptr;
    const Expr* condition = nullptr;
  };

  // `super().__init__(conv, norm)` in a class derived from nn.Sequential.
  static bool fills_sequential(const Call& call) {
    const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
    return call.method == "__init__" && def != nullptr && call.receiver != nullptr &&
           call.receiver->call() != nullptr && call.receiver->call()->name == "super" &&
           std::ranges::any_of(def->bases, [](const Expr* base) {
             return base->full_name() == "torch.nn.Sequential";
           });
  }

  // `self.conv1` of nn.Sequential(self.conv1, …): what makes it, where no method calls it by
  // itself.
  static const Call* own_layer(const Statement& statement, std::string_view attribute) {
    const ClassDef* def = statement.function == nullptr ? nullptr : statement.function->class_def;
    if (def == nullptr) return nullptr;
    const auto found = std::ranges::find(def->layers, attribute, &Layer::attribute);
    if (found == def->layers.end() || found->conditional || found->repeated) return nullptr;
    for (const FunctionDef* method : def->methods) {
      const bool is_called = std::ranges::any_of(method->calls, [&](const Call* call) {
        return own_name(*call->expr->children().front()) == attribute;
      });
      if (is_called) return nullptr;
    }
    return found->made_by;
  }

  // Written there, or a name bound to it and used nowhere else, or else only in the other branch of
  // an `if`: `layers += [conv, norm, relu] if batch_norm else [conv, relu]`, written out.
  Made maker(const Member& member) const {
    if (const std::string_view own = own_name(*member.expr); !own.empty()) {
      return {own_layer(*member.statement, own), nullptr};
    }
    const Expr* made = resolved(member.expr);
    if (made->call() == nullptr || made == member.expr) return {made->call(), nullptr};
    const std::vector<const Statement*> uses = uses_of_name(*made, member.expr->word());
    if (uses.size() == 1) return {made->call(), nullptr};
    std::vector<const Statement*> ifs;
    const bool is_below = is_nested_below(*made->statement, *member.statement, ifs);
    if (!is_below || ifs.size() != 1) return {};
    for (const Statement* use : uses) {
      if (use != member.statement && !is_in_else(*use, *ifs.front())) return {};
    }
    return {made->call(), ifs.front()->value};
  }

  // `nn.init.uniform_(bn.weight)`
  static bool initializes(const Statement& statement) {
    const Call* call =
        statement.kind == StatementKind::expression ? statement.value->call() : nullptr;
    return call != nullptr && call->name.starts_with("torch.nn.init.");
  }

  // The statements that read the name, once for each time, where the call is made.
  std::vector<const Statement*> uses_of_name(const Expr& made, std::string_view name) const {
    std::vector<const Statement*> uses;
    const auto block =
        made.statement->function != nullptr ? made.statement->function->body : file_.body;
    for_statements(block, [&](const Statement& statement) {
      if (initializes(statement)) return;
      for_own_expressions(statement, [&](const Expr* own) {
        visit(own, [&](const Expr& part) {
          // `conv = …` of another branch is another layer.
          const bool is_other = part.binding() != nullptr && part.binding() != made.statement;
          const bool reads = part.kind == ExprKind::name && part.word() == name &&
                             &part != statement.target && !is_other;
          if (reads) uses.push_back(&statement);
          return true;
        });
      });
    });
    return uses;
  }

  static bool is_in_else(const Statement& inner, const Statement& test) {
    for (const Statement* at = &inner; at != nullptr; at = at->parent) {
      if (at->parent == &test) return at->block.data() != test.body.data();
    }
    return false;
  }

  void add(const Call* first, const Call* second, const Expr* condition, bool is_shared) {
    if (first == nullptr || second == nullptr) return;
    for (const LayerPair& known : pairs_) {
      if (known.first == first) return;
    }
    pairs_.push_back({first, second, condition, is_shared});
  }

  void add_members(const Member& first, const Member& second, const Expr* condition) {
    const Made made = maker(first);
    const Made next = maker(second);
    if (made.condition != nullptr && condition != nullptr) return;
    add(made.call, next.call, condition != nullptr ? condition : made.condition,
        made.condition != nullptr);
  }

  void add_neighbours(const std::vector<Member>& members) {
    for (std::size_t i = 0; i + 1 < members.size(); ++i) {
      add_members(members[i], members[i + 1], nullptr);
    }
  }

  using Lists = std::map<std::string_view, std::vector<Member>>;
  // Lists by the name of their variable, within one function.
  void grow_lists(std::span<const Statement* const> block) {
    Lists lists;
    for_statements(block, [&](const Statement& statement) { grow(statement, lists); });
    for (const auto& [name, members] : lists) add_conditional_neighbours(members);
  }

  void grow(const Statement& statement, Lists& lists) {
    const Expr* value = statement.value;
    if (value == nullptr) return;
    if (statement.kind == StatementKind::assignment && is_list(*value)) {
      std::vector<Member>& list = lists[last_name(statement.target)];
      add_items(*value, &statement, list);
    } else if (statement.kind == StatementKind::expression && value->call() != nullptr &&
               value->call()->receiver != nullptr && !value->call()->arguments.empty()) {
      const Call& call = *value->call();
      const Expr* last = call.arguments.back().value;
      std::vector<Member>& list = lists[last_name(call.receiver)];
      if (call.method == "append" || call.method == "add_module") {
        list.push_back({member_of(last), &statement});
      }
    }
  }

  // Whether the two stand in branches of which one runs.
  static bool excludes(const Statement& first, const Statement& second) {
    const auto holds = [&](const Statement* outer) { return is_within(second, *outer); };
    for (const Statement* at = &first; at->parent != nullptr; at = at->parent) {
      if (at->parent->kind != StatementKind::if_ || !holds(at->parent)) continue;
      if (std::ranges::none_of(at->block, holds)) return true;
    }
    return false;
  }

  // Whether the second stands behind an `if` that the first is in a branch of.
  static bool is_behind_branch(const Statement& first, const Statement& second) {
    const Statement* at = first.parent;
    while (at != nullptr && at->kind == StatementKind::if_ && at->parent != second.parent)
      at = at->parent;
    return at != nullptr && at->kind == StatementKind::if_ &&
           at->block.data() == second.block.data();
  }

  // `if up: layers.append(a) else: layers.append(b)`, and `layers.append(norm)` behind either.
  void add_behind_branches(const std::vector<Member>& members) {
    for (std::size_t i = 0; i + 1 < members.size(); ++i) {
      const Statement& first = *members[i].statement;
      const auto next =
          std::find_if(members.begin() + static_cast<std::ptrdiff_t>(i) + 1, members.end(),
                       [&](const Member& member) { return !excludes(first, *member.statement); });
      if (next == members.end() || !is_behind_branch(first, *next->statement)) continue;
      add_members(members[i], *next, nullptr);
    }
  }

  void add_conditional_neighbours(const std::vector<Member>& members) {
    add_behind_branches(members);
    for (std::size_t i = 0; i + 1 < members.size(); ++i) {
      const Member& first = members[i];
      const Member& second = members[i + 1];
      std::vector<const Statement*> ifs;
      if (!is_nested_below(*first.statement, *second.statement, ifs) || ifs.size() > 1) continue;
      add_members(first, second, ifs.empty() ? nullptr : ifs.front()->value);
    }
  }

  // The word of `self.word`; empty for others.
  static std::string_view own_name(const Expr& expr) {
    const bool is_own = expr.kind == ExprKind::attribute && expr.children()[0]->word() == "self";
    return is_own ? expr.word() : std::string_view();
  }

  // Two layers that each branch makes both, beside each other: whichever runs, one follows the
  // other.
  void add_alternatives(const ClassDef& def, std::string_view first, std::string_view second) {
    std::vector<std::pair<const Layer*, const Layer*>> made;
    for (const Layer& one : def.layers) {
      if (one.attribute != first) continue;
      const auto beside =
          std::find_if(def.layers.begin(), def.layers.end(), [&](const Layer& other) {
            return other.attribute == second &&
                   other.statement->block.data() == one.statement->block.data();
          });
      if (beside == def.layers.end()) return;
      made.emplace_back(&one, &*beside);
    }
    for (const auto& [one, other] : made) add(one->made_by, other->made_by, nullptr, false);
  }

  // `if batch_norm: self.norm = …` behind a layer that is always there.
  void add_switched(const ClassDef& def, const Layer& first, const Layer& second) {
    const Statement* test = second.statement->parent;
    const bool is_plain = test->kind == StatementKind::if_ &&
                          second.statement->block.data() == test->body.data() &&
                          test->parent->kind == StatementKind::function &&
                          std::ranges::count(def.layers, second.attribute, &Layer::attribute) == 1;
    if (is_plain) add(first.made_by, second.made_by, test->value, true);
  }

  // `if self.use_norm: x = self.norm(x)`: what has to hold for the second, where the first runs
  // without it too. Null for none.
  static const Expr* condition_between(const LayerUse& first, const LayerUse& second) {
    const Statement* before = first.call->statement;
    for (const Statement* at = second.call->statement; at != nullptr; at = at->parent) {
      const Statement* outer = at->parent;
      if (outer == nullptr || outer->kind == StatementKind::function) return nullptr;
      const bool is_test =
          outer->kind == StatementKind::if_ && outer->body.data() == at->block.data();
      if (is_test && !is_within(*before, *outer)) return outer->value;
    }
    return nullptr;
  }

  // Of a Sequential `body.1` follows `body.0` or what is in it. A member that the class keeps for
  // itself, `nn.Sequential(self.conv, nn.BatchNorm2d(n))`, is not among the uses.
  static bool is_next_member(std::string_view first, std::string_view second) {
    for (std::size_t dot = second.rfind('.'); dot != second.npos; dot = second.rfind('.')) {
      const auto index = parse_integer(second.substr(dot + 1));
      if (!index) return true;  // by its name
      if (*index > 0) {
        const std::string before =
            std::string(second.substr(0, dot + 1)) + std::to_string(*index - 1);
        return first == before || first.starts_with(before + ".");
      }
      second = second.substr(0, dot);
    }
    return true;
  }

  void read_forward(const ClassDef& def) {
    for (std::size_t i = 0; i + 1 < def.forward.size(); ++i) {
      const LayerUse& first = def.forward[i];
      const LayerUse& second = def.forward[i + 1];
      if (first.layer == nullptr || second.layer == nullptr || !second.consumes_previous) continue;
      if (!is_next_member(first.layer->attribute, second.layer->attribute)) continue;
      if (!is_always_followed(def, *first.layer, *second.layer)) continue;
      if (!first.layer->conditional && second.layer->conditional) {
        add_switched(def, *first.layer, *second.layer);
      } else if (first.layer->conditional) {
        add_alternatives(def, first.layer->attribute, second.layer->attribute);
      } else {
        add(first.layer->made_by, second.layer->made_by, condition_between(first, second), false);
      }
    }
  }

  // Each branch of forward may use both, layers that stand by themselves.
  static bool is_always_followed(const ClassDef& def, const Layer& first, const Layer& second) {
    const auto uses = std::ranges::count(def.forward, &first, &LayerUse::layer);
    const auto is_single = [](const Layer& layer) {
      return !layer.conditional && layer.attribute.find('.') == std::string_view::npos;
    };
    if (uses != 1 && (!is_single(first) || !is_single(second))) return false;
    for (std::size_t i = 0; i < def.forward.size(); ++i) {
      if (def.forward[i].layer != &first) continue;
      const LayerUse* next = i + 1 < def.forward.size() ? &def.forward[i + 1] : nullptr;
      if (next == nullptr || next->layer != &second || !next->consumes_previous) return false;
    }
    return true;
  }

  const File& file_;
  std::vector<LayerPair> pairs_;
};

}  // namespace

std::vector<LayerPair> neighbouring_layers(const File& file) { return PairFinder(file).run(); }

}  // namespace rooftile::source
