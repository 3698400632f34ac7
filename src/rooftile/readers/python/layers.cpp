// Layers of own modules, in the order of __init__, and their order of use in forward.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

constexpr int kMaxNesting = 8;
constexpr std::size_t kMaxLayers = 4096;

class LayerFinder {
 public:
  LayerFinder(Store& store, ClassDef& def) : store_(store), def_(def) {}

  void run() {
    for (const FunctionDef* method : def_.methods) {
      if (method->name == "forward") continue;
      read_block(method->body, method->name != "__init__", false);
    }
    if (const FunctionDef* forward = def_.method("forward")) {
      read_forward(*forward);
      read_handed_on();
    }
  }

 private:
  void read_block(std::span<const Statement* const> block, bool conditional, bool repeated) {
    for (const Statement* statement : block) {
      if (statement->kind == StatementKind::assignment) {
        read_assignment(*statement, conditional, repeated);
        continue;
      }
      if (statement->kind == StatementKind::function) continue;
      const bool maybe = conditional || statement->kind == StatementKind::if_ ||
                         statement->kind == StatementKind::try_;
      const bool again = repeated || statement->loop != nullptr;
      read_block(statement->body, maybe, again);
      read_block(statement->otherwise, maybe, again);
    }
  }

  void read_assignment(const Statement& statement, bool conditional, bool repeated) {
    const Expr* target = statement.target;
    if (target->kind != ExprKind::attribute || target->children()[0]->word() != "self" ||
        statement.value == nullptr) {
      return;
    }
    Layer layer;
    layer.attribute = target->word();
    layer.statement = &statement;
    layer.conditional = conditional;
    layer.repeated = repeated;
    add(layer, *statement.value, 0);
  }

  void add(Layer layer, const Expr& made, int depth) {
    const Call* call = made.call();
    if (call == nullptr || depth > kMaxNesting || def_.layers.size() >= kMaxLayers) return;
    const Type& type = *made.type;
    if (!type.is(TypeKind::module) && !type.is(TypeKind::loss)) return;
    layer.made_by = type.made_by == nullptr ? call : type.made_by;
    const bool is_by_helper = call->target != nullptr && call->target->class_def == nullptr &&
                              layer.made_by->function == call->target;
    helper_ = is_by_helper ? call : helper_;
    for (Layer& known : def_.layers) {
      if (known.attribute == layer.attribute) known.conditional = layer.conditional = true;
    }
    def_.layers.push_back(layer);
    const std::string_view name = layer.made_by->name;
    if (name == "torch.nn.Sequential" || name == "torch.nn.ModuleList" ||
        name == "torch.nn.ModuleDict") {
      add_members(layer, *layer.made_by, depth);
    }
    if (is_by_helper) helper_ = nullptr;
  }

  // `copy.deepcopy(module)` in `def clones(module, n)`: what this call of it passes.
  const Expr& passed_to_helper(const Expr& made) const {
    const Call* copy = made.call();
    const bool is_copy = helper_ != nullptr && copy != nullptr && copy->method == "deepcopy" &&
                         copy->arguments.size() == 1 && copy->function == helper_->target;
    const Expr* copied = is_copy ? copy->arguments[0].value : nullptr;
    if (copied == nullptr || copied->kind != ExprKind::name) return made;
    const Argument* given = passed_argument(*helper_, *helper_->target, copied->word());
    return given == nullptr || given->value->call() == nullptr ? made : *given->value;
  }

  // The list or dict inside of an OrderedDict(…) or behind a star.
  static const Expr& contents(const Expr& written) {
    const Expr* value = &written;
    if (value->kind == ExprKind::starred) value = value->children()[0];
    const bool is_ordered = value->kind == ExprKind::call &&
                            value->call()->method == "OrderedDict" &&
                            !value->call()->arguments.empty();
    return is_ordered ? *value->call()->arguments[0].value : *value;
  }

  void add_members(const Layer& parent, const Call& call, int depth) {
    std::size_t index = 0;
    for (const Argument& argument : call.arguments) {
      add_contents(parent, contents(*argument.value), index, depth);
    }
  }

  void add_contents(const Layer& parent, const Expr& value, std::size_t& index, int depth) {
    if (value.call() != nullptr && value.call()->name == "dict") {
      for (const Argument& member : value.call()->arguments) {
        if (!member.name.empty()) add_named(parent, *member.value, member.name, depth);
      }
    } else if (value.kind == ExprKind::dict) {
      for (std::size_t i = 0; i + 1 < value.children().size(); i += 2) {
        add_named(parent, *value.children()[i + 1], value.children()[i]->word(), depth);
      }
    } else if (value.kind == ExprKind::list || value.kind == ExprKind::tuple) {
      for (const Expr* item : value.children()) add_member(parent, *item, index++, depth);
    } else if (value.kind == ExprKind::comprehension) {
      Layer repeated = parent;
      repeated.repeated = true;
      add_member(repeated, *value.children()[0], index++, depth);
    } else {
      add_member(parent, value, index++, depth);
    }
  }

  void add_member(const Layer& parent, const Expr& item, std::size_t index, int depth) {
    const Expr* made = &item;
    std::string name = std::to_string(index);
    // ("conv1", nn.Conv2d(…)) of an OrderedDict
    if (item.kind == ExprKind::tuple && item.children().size() == 2 &&
        item.children()[0]->kind == ExprKind::text) {
      name = item.children()[0]->word();
      made = item.children()[1];
    }
    add_named(parent, *made, name, depth);
  }

  void add_named(const Layer& parent, const Expr& made, std::string_view name, int depth) {
    Layer layer = parent;
    const std::string full = std::string(parent.attribute) + "." + std::string(name);
    layer.attribute = store_.intern(full);
    layer.made_by = nullptr;
    add(layer, passed_to_helper(made), depth + 1);
  }

  // int(…), len(…), x.size(): Python numbers, which no layer waits for.
  static bool counts_only(const Call& call) {
    if (call.receiver == nullptr) {
      return is_one_of(call.name, {"int", "float", "len", "range", "print", "isinstance", "min",
                                   "max", "list", "str", "bool", "enumerate", "zip"});
    }
    return is_one_of(call.method, {"size", "dim", "numel"});
  }

  // features of self.features(x), a part of the forward.
  const FunctionDef* own_method(const Call& call) const {
    const bool is_own = call.receiver != nullptr && call.receiver->kind == ExprKind::name &&
                        call.receiver->word() == "self" && entered_.size() < kMaxNesting;
    return is_own && call.target != nullptr && call.target->class_def == &def_ ? call.target
                                                                               : nullptr;
  }

  bool has_entered(const FunctionDef& method) const {
    return std::ranges::find(entered_, &method) != entered_.end();
  }

  // Methods that a forward hands on: self.run_wrapped(self.stem)(x).
  void note_method(const Expr& expr) {
    const bool is_own = expr.kind == ExprKind::attribute && expr.children()[0]->word() == "self" &&
                        handed_on_.size() < kMaxLayers;
    const bool is_callee = expr.parent != nullptr && expr.parent->call() != nullptr &&
                           expr.parent->children().front() == &expr;
    if (!is_own || is_callee) return;
    if (const FunctionDef* method = def_.method(expr.word())) handed_on_.push_back(method);
  }

  void read_handed_on() {
    for (std::size_t i = 0; i < handed_on_.size(); ++i) {
      const FunctionDef* method = handed_on_[i];
      const bool is_forward = method->name != "__init__" && method->name != "train";
      if (is_forward && !has_entered(*method)) read_forward(*method);
    }
  }

  void read_forward(const FunctionDef& forward) {
    entered_.push_back(&forward);
    for (const Statement* statement : forward.body) count_reads(*statement);
    std::vector<const Call*> calls = forward.calls;
    // Arguments are computed before the call that takes them.
    std::ranges::stable_sort(calls, {}, &Call::close_paren);
    for (const Call* call : calls) {
      const Expr* input = call->arguments.size() == 1 ? call->arguments[0].value : nullptr;
      const Layer* layer = layer_of(*call);
      if (layer == nullptr) layer = applied_layer(*call, input);
      if (layer == nullptr && counts_only(*call)) continue;
      if (const FunctionDef* own = layer == nullptr ? own_method(*call) : nullptr) {
        if (!has_entered(*own)) read_forward(*own);
        continue;
      }
      LayerUse use{layer, call, consumes_previous(input)};
      if (layer != nullptr && layer->made_by->name == "torch.nn.Sequential") {
        add_sequential(*layer, use);
      } else {
        def_.forward.push_back(use);
      }
    }
  }

  const Layer* layer_of(const Call& call) const {
    const Expr& callee = *call.expr->children()[0];
    const bool own = callee.kind == ExprKind::attribute && callee.children()[0]->word() == "self";
    return own ? def_.layer(callee.word()) : nullptr;
  }

  // The layer that `call_bn(self.bn1, x)` runs, of `def call_bn(bn, x): return bn(x)`, and what it
  // gets.
  const Layer* applied_layer(const Call& call, const Expr*& input) const {
    const FunctionDef* target = call.target;
    const bool is_plain = target != nullptr && target->class_def == nullptr &&
                          target->parameters.size() == 2 && target->body.size() == 1 &&
                          call.arguments.size() == 2;
    const Statement* only = is_plain ? target->body.front() : nullptr;
    const Call* inner =
        only == nullptr || only->kind != StatementKind::return_ || only->value == nullptr
            ? nullptr
            : only->value->call();
    if (inner == nullptr || inner->arguments.size() != 1 || inner->receiver != nullptr) {
      return nullptr;
    }
    const Argument* given = passed_argument(call, *target, inner->method);
    const Argument* value = passed_argument(call, *target, inner->arguments[0].value->word());
    if (given == nullptr || value == nullptr || given == value) return nullptr;
    const Expr& made = *given->value;
    const bool own = made.kind == ExprKind::attribute && made.children()[0]->word() == "self";
    const Layer* layer = own ? def_.layer(made.word()) : nullptr;
    if (layer != nullptr) input = value->value;
    return layer;
  }

  void add_sequential(const Layer& sequential, const LayerUse& use) {
    const std::string prefix = std::string(sequential.attribute) + ".";
    bool first = true;
    for (const Layer& member : def_.layers) {
      if (!member.attribute.starts_with(prefix)) continue;
      if (member.made_by->name == "torch.nn.Sequential") continue;
      def_.forward.push_back({&member, use.call, first ? use.consumes_previous : !member.repeated});
      first = false;
    }
    if (first) def_.forward.push_back(use);
  }

  // self.bn(self.conv(x)), or x = self.conv(x) and then self.bn(x).
  bool consumes_previous(const Expr* input) const {
    if (def_.forward.empty() || input == nullptr) return false;
    const Call* previous = def_.forward.back().call;
    if (input->call() != nullptr) return input->call() == previous;
    if (input->kind != ExprKind::name || input->binding() == nullptr) return false;
    const Statement& binding = *input->binding();
    const auto reads = reads_.find(&binding);
    return binding.value != nullptr && binding.value->call() == previous && binding.word == "=" &&
           binding.target->kind == ExprKind::name && reads != reads_.end() && reads->second == 1;
  }

  void count_reads(const Expr* expr) {
    if (expr == nullptr) return;
    note_method(*expr);
    if (expr->kind == ExprKind::name && expr->binding() != nullptr) ++reads_[expr->binding()];
    for (const Expr* child : expr->children()) count_reads(child);
  }

  void count_reads(const Statement& statement) {
    count_reads(statement.value);
    // A plain name as the target is written, not read.
    if (statement.target != nullptr &&
        (statement.target->kind != ExprKind::name || statement.word.size() > 1)) {
      count_reads(statement.target);
    }
    for (const WithItem& item : statement.items) count_reads(item.context);
    for (const Statement* inner : statement.body) count_reads(*inner);
    for (const Statement* inner : statement.otherwise) count_reads(*inner);
  }

  Store& store_;
  ClassDef& def_;
  const Call* helper_ = nullptr;  // `clones(layer, 4)` that gives the list which is being read
  std::unordered_map<const Statement*, int> reads_;
  std::vector<const FunctionDef*> handed_on_;
  std::vector<const FunctionDef*> entered_;  // forward, and the own methods that it calls
};

}  // namespace

void find_layers(SourceFacts& facts) {
  for (const auto& file : facts.files) {
    for (const ClassDef* def : file->classes) {
      if (def->is_module) LayerFinder(facts.store(), const_cast<ClassDef&>(*def)).run();
    }
  }
}

}  // namespace rooftile::source
