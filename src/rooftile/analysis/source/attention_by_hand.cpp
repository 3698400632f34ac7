#include "rooftile/analysis/source/attention_by_hand.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile::source {
namespace {

constexpr int kMaxExprDepth = 24;

// What a value is on its way from the product of queries and keys to the result. `derived` is what
// an unknown function makes of scores, as the shift of relative positions.
enum class Stage { other, derived, scores, weights, result };

bool is_library_product(const Call& call) {
  return is_one_of(call.method, {"matmul", "bmm", "baddbmm", "einsum"}) &&
         (call.name.starts_with("torch.") || call.receiver != nullptr);
}

// `torch.matmul(a, b)`, `(a.unsqueeze(1) @ b).squeeze(1)`
bool multiplies(const Expr* expr, const FunctionDef& function) {
  while (expr != nullptr && expr->call() != nullptr && !is_library_product(*expr->call())) {
    expr = expr->call()->receiver;
  }
  const bool is_one = expr != nullptr && (expr->call() != nullptr ||
                                          (expr->kind == ExprKind::binary && expr->word() == "@"));
  return is_one && std::ranges::all_of(function.parameters, [&](const Parameter& parameter) {
           return uses_variable(expr, parameter.name);
         });
}

// `def matmul(a, b)` of the project, each way of which ends in the product of both.
bool is_own_product(const FunctionDef* function) {
  if (function == nullptr || function->class_def != nullptr || function->parameters.size() != 2) {
    return false;
  }
  int products = 0, others = 0;
  for_statements(function->body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::return_) return;
    ++(multiplies(statement.value, *function) ? products : others);
  });
  return products > 0 && others == 0;
}

bool is_product(const Call& call) {
  return is_library_product(call) || is_own_product(call.target);
}

// The letters of the result that only this operand has, and not the other one.
bool has_own_index(std::string_view operand, std::string_view other, std::string_view result) {
  return std::ranges::any_of(result, [&](char letter) {
    return letter >= 'A' && operand.find(letter) != operand.npos &&
           other.find(letter) == other.npos;
  });
}

// "nhld,nhd->nhl" makes one number of each row, no matrix of rows and columns. Where the letters
// are not written, one is taken to be made.
bool makes_matrix(const Call& call) {
  if (call.method != "einsum" || call.arguments.empty()) return true;
  const Expr& pattern = *call.arguments.front().value;
  if (pattern.kind != ExprKind::text) return true;
  const std::string_view text = pattern.word();
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (comma == text.npos || arrow == text.npos || comma > arrow) return true;
  const std::string_view left = text.substr(0, comma);
  const std::string_view right = text.substr(comma + 1, arrow - comma - 1);
  const std::string_view result = text.substr(arrow + 2);
  return has_own_index(left, right, result) && has_own_index(right, left, result);
}

bool is_softmax(const Call& call) {
  if (is_one_of(call.method, {"softmax", "Softmax"})) return true;
  const Call* made = call.expr->children()[0]->type->made_by;
  return made != nullptr && made->name == "torch.nn.Softmax";
}

bool keeps_stage(const Call& call) {
  if (is_one_of(
          call.method,
          {"masked_fill", "masked_fill_", "float",     "half",           "to",        "type",
           "type_as",     "view",         "reshape",   "contiguous",     "transpose", "permute",
           "clamp",       "dropout",      "add",       "add_",           "div",       "div_",
           "mul",         "mul_",         "where",     "unsqueeze",      "squeeze",   "nan_to_num",
           "flatten",     "unflatten",    "rearrange", "masked_softmax", "maximum"})) {
    return true;
  }
  // torch.max(scores, lowest) of two tensors
  const bool is_bound = call.name == "torch.max" && call.arguments.size() == 2 &&
                        call.arguments[1].name.empty() &&
                        call.arguments[1].value->call() != nullptr;
  if (is_bound) return true;
  return call.name == "torch.nn.Module.__call__" || call.method.find("drop") != std::string::npos;
}

class Follower {
 public:
  explicit Follower(const FunctionDef& function) {
    for_statements(function.body, [&](const Statement& statement) { read(statement); });
  }

  std::optional<WrittenAttention> found() const { return found_; }

 private:
  void read(const Statement& statement) {
    if (statement.value == nullptr) return;
    at_ = &statement;
    const Stage stage = stage_of(statement.value, 0);
    if (statement.kind == StatementKind::return_ && is_given_away(statement.value)) leaves_ = true;
    if (statement.kind == StatementKind::assignment) bind(statement, stage);
    if (!found_) return;
    found_->weights_leave = leaves_;
    found_->has_bias = has_bias_;
    found_->weights_change = changes_;
  }

  void bind(const Statement& statement, Stage stage) {
    const Expr* target = statement.target;
    if (target->kind == ExprKind::name) {
      // `if not output_attentions: weights = None` still gives them away otherwise.
      const bool is_cleared = statement.value->kind == ExprKind::none;
      if (statement.word == "+=" && stage_of_name(*target) == Stage::scores) {
        note_bias(*statement.value);
      }
      if (statement.word != "=" || is_cleared) return;
      const bool is_choice =
          stage >= Stage::scores && stage < Stage::result && is_other_in_another_branch(statement);
      stages_[target->word()] = is_choice ? Stage::other : stage;
      bound_.push_back({&statement, stage});
    } else if (stage == Stage::weights) {
      leaves_ = true;  // kept for somebody to look at
    }
  }

  // `if additive: scores = self.score(tanh(q + k)) else: scores = q @ k`: no fused call does both.
  bool is_other_in_another_branch(const Statement& statement) const {
    return std::ranges::any_of(bound_, [&](const Bound& bound) {
      return bound.statement->target->word() == statement.target->word() &&
             bound.stage == Stage::other && is_in_other_branch(*bound.statement);
    });
  }

  // Whether the weights themselves are returned, or are part of it, or the scores beside a result.
  bool is_given_away(const Expr* returned, bool is_part = false) const {
    if (returned->kind == ExprKind::name) {
      const Stage stage = stage_of_name(*returned);
      return stage == Stage::weights || (is_part && stage == Stage::scores);
    }
    if (returned->kind == ExprKind::tuple || returned->kind == ExprKind::list ||
        returned->kind == ExprKind::dict || returned->kind == ExprKind::conditional) {
      return std::any_of(returned->children().begin(), returned->children().end(),
                         [&](const Expr* child) { return is_given_away(child, true); });
    }
    return false;
  }

  Stage stage_of_name(const Expr& name) const {
    const auto known = stages_.find(name.word());
    if (known == stages_.end()) return Stage::other;
    return known->second == Stage::weights ? before_this_branch(name, Stage::weights)
                                           : known->second;
  }

  // In `if mask is None: s = softmax(s) else: s = softmax(s + mask)` the else starts from what the
  // name was before the branches.
  Stage before_this_branch(const Expr& name, Stage now) const {
    const auto last = std::find_if(bound_.rbegin(), bound_.rend(), [&](const Bound& bound) {
      return bound.statement->target->word() == name.word();
    });
    if (last == bound_.rend() || !is_in_other_branch(*last->statement)) return now;
    const auto earlier = std::find_if(last, bound_.rend(), [&](const Bound& bound) {
      return bound.statement->target->word() == name.word() &&
             !is_in_other_branch(*bound.statement);
    });
    return earlier == bound_.rend() ? now : earlier->stage;
  }

  // Whether the statement that is read stands in the else of an `if` whose body has the other one.
  bool is_in_other_branch(const Statement& other) const {
    for (const Statement* at = at_; at->parent != nullptr; at = at->parent) {
      const Statement* choice = at->parent;
      const bool is_else = choice->kind == StatementKind::if_ && !choice->otherwise.empty() &&
                           at->block.data() == choice->otherwise.data();
      if (is_else && std::ranges::any_of(choice->body, [&](const Statement* first) {
            return is_within(other, *first);
          })) {
        return true;
      }
    }
    return false;
  }

  Stage highest(std::span<const Expr* const> parts, int depth) {
    Stage stage = Stage::other;
    for (const Expr* part : parts) stage = std::max(stage, stage_of(part, depth + 1));
    return stage;
  }

  Stage stage_of(const Expr* expr, int depth) {
    if (depth > kMaxExprDepth) return Stage::other;
    switch (expr->kind) {
      case ExprKind::name:
        return stage_of_name(*expr);
      case ExprKind::subscript:
        return stage_of(expr->children()[0], depth + 1);
      case ExprKind::binary:
        return of_binary(*expr, depth);
      case ExprKind::unary:
      case ExprKind::conditional:
      case ExprKind::tuple:
      case ExprKind::list:
        return highest(expr->children(), depth);
      case ExprKind::call:
        return of_call(*expr->call(), depth);
      default:
        return Stage::other;
    }
  }

  Stage of_binary(const Expr& expr, int depth) {
    const Stage left = stage_of(expr.children()[0], depth + 1);
    const Stage right = stage_of(expr.children()[1], depth + 1);
    if (expr.word() == "@") return multiply(expr, left, right);
    if (left == Stage::weights && right == Stage::weights) other_terms_ = true;
    // Two products make the scores: the second one is a term that the fused call cannot take.
    const bool has_scores = left == Stage::scores || right == Stage::scores;
    const bool has_more = std::min(left, right) >= Stage::derived;
    if (expr.word() == "+" && has_scores && has_more) other_terms_ = true;
    if (expr.word() == "+" && has_scores) {
      note_bias(*expr.children()[left == Stage::scores ? 1 : 0]);
    }
    return std::max(left, right);
  }

  // `scores + self.position_bias`, `scores + rel_pos_bias`
  void note_bias(const Expr& term) {
    const Expr* bias = find_inside(
        &term, [](const Expr& part) { return contains(lower(last_name(&part)), "bias"); });
    has_bias_ = has_bias_ || bias != nullptr;
  }

  Stage multiply(const Expr& product, Stage left, Stage right) {
    if (left == Stage::weights || right == Stage::weights) {
      if (!found_) {
        found_ = WrittenAttention{.scores = scores_, .softmax = softmax_, .product = &product};
        found_->has_other_terms = other_terms_;
      } else {
        found_->has_other_terms = true;  // the weights have a second reader
      }
      return Stage::result;
    }
    if (left > Stage::derived || right > Stage::derived) return Stage::other;
    if (scores_ == nullptr) scores_ = &product;
    return Stage::scores;
  }

  // What a call does that gets the weights.
  void note_weights(const Call& call) {
    if (!keeps_stage(call) && call.method != "softmax") leaves_ = true;
    if (is_one_of(call.method, {"masked_fill", "masked_fill_", "where"})) changes_ = true;
  }

  Stage of_call(const Call& call, int depth) {
    std::vector<const Expr*> inputs;
    const bool has_object = call.receiver != nullptr && call.receiver->full_name().empty();
    if (has_object && !call.name.starts_with("torch.nn.")) inputs.push_back(call.receiver);
    for (const Argument& argument : call.arguments) inputs.push_back(argument.value);
    std::vector<Stage> stages;
    for (const Expr* input : inputs) stages.push_back(stage_of(input, depth + 1));
    Stage top = Stage::other;
    for (const Stage stage : stages) top = std::max(top, stage);
    if (is_product(call) && !makes_matrix(call)) return Stage::other;
    if (is_product(call)) return multiply(*call.expr, top, Stage::other);
    if (is_softmax(call) && top == Stage::scores) {
      if (softmax_ == nullptr || !is_in_other_branch(*softmax_->statement)) softmax_ = call.expr;
      return Stage::weights;
    }
    if (top == Stage::weights) note_weights(call);
    if (is_one_of(call.method, {"exp", "log"})) return Stage::other;
    if (keeps_stage(call)) return top;
    const bool is_own = call.target != nullptr && call.name != "torch.nn.Module.__call__";
    if (is_own && top == Stage::scores) return Stage::derived;
    return top == Stage::result ? Stage::result : Stage::other;
  }

  struct Bound {
    const Statement* statement = nullptr;
    Stage stage = Stage::other;
  };

  std::map<std::string_view, Stage> stages_;
  std::vector<Bound> bound_;       // names that were set, in order
  const Statement* at_ = nullptr;  // the one that is read
  const Expr* scores_ = nullptr;   // their first product
  const Expr* softmax_ = nullptr;
  bool leaves_ = false, other_terms_ = false, has_bias_ = false, changes_ = false;
  std::optional<WrittenAttention> found_;
};

// Of the result of an einops pattern, "b t n (h d) -> b h t n d"; 0 for other texts.
std::size_t dimensions_of_pattern(std::string_view pattern) {
  const std::size_t arrow = pattern.find("->");
  if (arrow == pattern.npos) return 0;
  std::size_t dimensions = 0;
  bool is_inside = false, is_group = false;
  for (const char letter : pattern.substr(arrow + 2)) {
    const bool is_name = letter != ' ' && letter != '(' && letter != ')';
    dimensions += (is_name && !is_inside && !is_group) || letter == '(' ? 1U : 0U;
    is_group = letter == '(' || (is_group && letter != ')');
    is_inside = is_name;
  }
  return dimensions;
}

// Of what `rearrange(q, pattern)`, `map(lambda t: rearrange(t, pattern), (q, k, v))`, `q.view(b, w,
// n, h, d)` give, one less where that is taken apart; 0 for other calls.
std::size_t dimensions_after(const Expr& made) {
  const Expr* pattern = find_inside(&made, [](const Expr& part) {
    return part.kind == ExprKind::text && dimensions_of_pattern(part.word()) > 0;
  });
  const Call& call = *made.call();
  const bool gives_sizes = is_one_of(call.method, {"view", "reshape", "permute"});
  const std::size_t dimensions = pattern != nullptr ? dimensions_of_pattern(pattern->word())
                                 : gives_sizes      ? call.arguments.size()
                                                    : 0;
  const bool gives_several = is_one_of(call.method, {"rearrange_many", "map"});
  const Expr* target = made.statement->target;
  const bool is_taken_apart =
      !gives_several && target != nullptr && target->kind == ExprKind::tuple;
  return is_taken_apart && dimensions > 0 ? dimensions - 1 : dimensions;
}

}  // namespace

std::optional<WrittenAttention> attention_by_hand(const FunctionDef& function) {
  return Follower(function).found();
}

AttentionInputs inputs_of(const SourceFacts& facts, const WrittenAttention& attention) {
  using script::SourceStep;
  AttentionInputs found;
  script::find_source(facts, *attention.scores, [&](const Expr& part) {
    if (&part == attention.scores) return SourceStep::go_on;
    if (part.kind == ExprKind::name) return SourceStep::go_on;
    if (part.kind == ExprKind::binary && is_one_of(part.word(), {"*", "/"})) {
      found.are_scaled = true;
      return SourceStep::go_on;
    }
    if (part.call() == nullptr) return SourceStep::stop;
    found.dimensions = std::max(found.dimensions, dimensions_after(part));
    const bool keeps = is_one_of(part.call()->method, {"transpose", "contiguous", "float", "to",
                                                       "type_as", "mul", "div", "swapaxes"});
    found.are_scaled = found.are_scaled || is_one_of(part.call()->method, {"mul", "div"});
    return keeps && found.dimensions == 0 ? SourceStep::receiver : SourceStep::stop;
  });
  return found;
}

}  // namespace rooftile::source
