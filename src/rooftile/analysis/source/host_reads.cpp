#include "rooftile/analysis/source/host_reads.h"

#include <algorithm>
#include <unordered_map>

#include "rooftile/analysis/source/asked_truth.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/own_optimizers.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/summed_losses.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// x.to("cpu"), x.to(torch.device("cpu")), with no copy that the host goes on during.
bool moves_to_host(const Call& call) {
  if (call.method != "to" || call.receiver == nullptr || call.arguments.size() != 1) return false;
  const Expr* device = resolved(call.arguments.front().value);
  const bool is_made = device->call() != nullptr && device->call()->name == "torch.device" &&
                       !device->call()->arguments.empty();
  if (is_made) device = device->call()->arguments.front().value;
  return device->kind == ExprKind::text && device->word() == "cpu";
}

// `tokens[i].tolist()` in a forward, where tensors are on the GPU; lengths and sizes may be on the
// host on purpose.
bool lists_in_forward(const Call& call) {
  const Expr& value = *call.receiver;
  return call.method == "tolist" && !value.type->guessed && is_unplaced_tensor(value) &&
         runs_in_forward(call.function) &&
         !contains_any(lower(call.file->slice(value.range)),
                       {"len", "size", "num", "shape", "split", "count", "spatial", "scale"});
}

bool reads_by_method(const SourceFacts& facts, const Call& call) {
  if (moves_to_host(call)) return !is_surely_host(call.receiver_type());
  if (call.receiver == nullptr || !call.arguments.empty()) return false;
  const Type& type = call.receiver_type();
  if (call.method == "item") {
    if (becomes_tensor(*call.receiver)) return true;
    if (type.is(TypeKind::number) && runs_backward(*call.receiver)) return true;
    return !is_surely_host(type) && !comes_from_numpy(call.receiver);
  }
  if (call.method == "cpu") return !is_surely_host(type);
  return is_one_of(call.method, {"tolist", "numpy"}) &&
         (may_wait(facts, call.receiver) || lists_in_forward(call));
}

bool has_gpu_argument(const SourceFacts& facts, const Call& call) {
  return std::any_of(call.arguments.begin(), call.arguments.end(), [&](const Argument& argument) {
    const Expr& given = *argument.value;
    if (is_text_item(given)) return false;
    return may_wait(facts, &given);
  });
}

// In the forward of a module, and in what it calls, all tensors are where the module is, unless
// they are known as the host's; in the step of an optimizer, where the weights are.
bool is_tensor_in_forward(const Statement& statement, const Expr& expr) {
  return expr.call() != nullptr && is_unplaced_tensor(expr) &&
         (runs_in_forward(statement.function) || runs_in_optimizer_step(statement.function));
}

// `mask.sum()` of `if mask.sum() == 0`, also by the name that keeps it. What is no reduction may
// be about the shape or the layout.
bool is_reduced_in_forward(const Statement& statement, const Expr* operand) {
  const Expr* made = resolved(operand);
  // squares.sum().sqrt().clamp(0, 10)
  while (made->call() != nullptr && made->call()->receiver != nullptr &&
         is_one_of(made->call()->method, {"sqrt", "clamp", "clamp_", "abs", "float", "detach"})) {
    made = resolved(made->call()->receiver);
  }
  const bool reduces =
      made->call() != nullptr &&
      is_one_of(made->call()->method, {"sum", "max", "min", "mean", "any", "all", "norm",
                                       "count_nonzero", "amax", "amin", "prod"});
  return reduces && !operand->type->guessed && is_tensor_in_forward(statement, *made);
}

// `(boxes >= 0).all()` of parameters in a forward: no number of Python has it.
bool is_test_in_forward(const Statement& statement, const Expr& expr) {
  const Call* call = expr.call();
  const bool reduces = call != nullptr && call->receiver != nullptr &&
                       is_one_of(call->method, {"all", "any", "sum"}) &&
                       call->receiver->kind == ExprKind::comparison &&
                       call->receiver->type->is(TypeKind::number);
  return reduces && !comes_from_numpy(call->receiver) && runs_in_forward(statement.function);
}

// int((mask > 0).sum()) in a forward; lengths may be on the host on purpose.
bool counts_in_forward(const Call& call) {
  if (call.arguments.size() != 1) return false;
  if (!is_one_of(call.name, {"float", "int", "bool"})) return false;
  const Expr* counted = call.arguments[0].value;
  const std::string text = lower(call.file->slice(counted->range));
  return is_reduced_in_forward(*call.statement, counted) &&
         !contains_any(text, {"len", "size", "num", "shape"});
}

// The logger keeps or formats a number, so a tensor is read at once: add_scalar("loss", loss,
// step), wandb.log({"loss": loss}), bar.set_postfix(loss=loss).
bool logs_tensor(const SourceFacts& facts, const Call& call) {
  const bool is_wandb = call.name == "wandb.log";
  const bool is_plain = is_one_of(call.method, {"add_scalar", "add_scalars", "set_postfix"}) &&
                        call.receiver != nullptr && call.target == nullptr;
  if (!is_wandb && !is_plain) return false;
  return std::ranges::any_of(call.arguments, [&](const Argument& argument) {
    const Expr& given = *argument.value;
    if (given.kind != ExprKind::dict) return may_wait(facts, &given);
    bool found = false;
    for (std::size_t i = 1; i < given.children().size(); i += 2) {
      found = found || may_wait(facts, given.children()[i]);
    }
    return found;
  });
}

bool is_gpu_number(const Argument& argument) {
  return !argument.unpacked && is_gpu_value(argument.value);
}

// x[:lengths.max()]: the bound of a slice is a number of the host.
bool bounds_slice(const Expr& part) {
  return part.parent != nullptr && part.parent->kind == ExprKind::slice && is_gpu_value(&part);
}

// int(t) of what is a part of a tensor.
bool takes_number(const SourceFacts& facts, const Call& call) {
  return is_one_of(call.name, {"int", "float", "bool"}) && call.arguments.size() == 1 &&
         is_taken_from_gpu(facts, *call.arguments.front().value);
}

bool reads_by_function(const SourceFacts& facts, const Call& call) {
  if (logs_tensor(facts, call)) return true;
  const std::string_view name = call.name;
  if (is_one_of(name, {"float", "int", "bool", "str", "print", "math.isnan", "math.isfinite",
                       "math.isinf", "math.exp", "math.sqrt", "math.log"})) {
    return has_gpu_argument(facts, call) || counts_in_forward(call) || takes_number(facts, call);
  }
  // range(lengths[0]) takes the number out of the tensor.
  if (name == "range") return std::ranges::any_of(call.arguments, is_gpu_number);
  // Python's own any(mask) and max(lengths) ask one element after the other.
  if (is_one_of(name, {"any", "all", "max", "min"}) && call.arguments.size() == 1) {
    return is_gpu_value(call.arguments.front().value);
  }
  const bool formats = call.method == "format" && call.receiver != nullptr &&
                       call.receiver_type().is(TypeKind::text);
  return formats && has_gpu_argument(facts, call);
}

bool is_text(const Expr& expr) {
  if (expr.kind == ExprKind::text || expr.type->is(TypeKind::text)) return true;
  return expr.kind == ExprKind::binary && is_text(*expr.children()[0]);
}

// loss.data[0] of old programs, where a reduction has one value and no dimension.
bool reads_first_element(const Expr& part) {
  if (part.kind != ExprKind::subscript || part.children().size() != 2) return false;
  const Expr* object = part.children()[0];
  const Expr* index = part.children()[1];
  if (object->kind != ExprKind::attribute || object->word() != "data") return false;
  if (index->kind != ExprKind::integer || index->word() != "0") return false;
  const Expr* tensor = object->children()[0];
  if (runs_backward(*tensor)) return true;
  const std::string name = lower(last_name(tensor));
  return name.find("loss") != std::string::npos || name.starts_with("err") || name == "l";
}

// What `loss.data[0]` gave is on the host.
bool is_number_by_now(const Expr& name) {
  return name.kind == ExprKind::name && name.binding() != nullptr &&
         reads_first_element(*resolved(&name));
}

bool shows_value(const Expr* expr) {
  if (expr->kind == ExprKind::starred) expr = expr->children()[0];
  return is_gpu_value(expr) && !is_number_by_now(*expr) && !is_text_item(*expr);
}

bool formats_value(const Expr& part) {
  if (part.kind == ExprKind::format) {
    return std::any_of(part.children().begin(), part.children().end(), shows_value);
  }
  const bool is_percent =
      part.kind == ExprKind::binary && part.word() == "%" && is_text(*part.children().front());
  if (!is_percent) return false;
  const Expr* values = part.children().back();
  if (values->kind != ExprKind::tuple) return is_gpu_value(values);
  return std::any_of(values->children().begin(), values->children().end(), shows_value);
}

bool is_read(const SourceFacts& facts, const Expr& part) {
  if (bounds_slice(part)) return true;
  if (part.call() != nullptr)
    return reads_by_method(facts, *part.call()) || reads_by_function(facts, *part.call());
  return formats_value(part) || reads_first_element(part);
}

// The operands of a condition whose truth Python asks for.
void add_conditions(const SourceFacts& facts, const Statement& statement, const Expr* expr,
                    std::vector<HostRead>& reads) {
  if (expr->kind == ExprKind::logical) {
    for (const Expr* child : expr->children()) {
      add_conditions(facts, statement, child, reads);
      const bool is_left = is_met_once(statement, *child) || contains(last_name(child), "infer");
      if (expr->word() == "and" && is_left) break;
    }
    return;
  }
  if (expr->call() != nullptr && knows_without_gpu(*expr->call())) return;
  if (may_be_none(*expr) || compares_with_other(*expr)) return;
  const bool compares = expr->kind == ExprKind::comparison && !expr->word().starts_with("is") &&
                        !expr->word().ends_with("in") && expr->type->is(TypeKind::tensor);
  const bool waits = may_wait(facts, expr) ||
                     (compares && std::ranges::any_of(expr->children(), [&](const Expr* side) {
                        return may_wait(facts, side) || is_reduced_in_forward(statement, side);
                      }));
  const bool is_asked =
      waits || is_tensor_in_forward(statement, *expr) || is_test_in_forward(statement, *expr);
  if (is_asked && !is_called_inside(statement, *expr)) {
    reads.push_back({&statement, expr, expr->call()});
  }
}

bool asks_for_truth(const Statement& statement) {
  return statement.kind == StatementKind::if_ || statement.kind == StatementKind::while_ ||
         statement.kind == StatementKind::assert_;
}

void add_reads(const SourceFacts& facts, const Statement& statement, std::vector<HostRead>& reads) {
  if (statement.kind == StatementKind::raise_) return;  // the training ends there
  if (asks_for_truth(statement)) add_conditions(facts, statement, statement.value, reads);
  for_own_expressions(statement, [&](const Expr* expr) {
    visit(expr, [&](const Expr& part) {
      if (part.kind == ExprKind::lambda) return false;
      if (part.kind == ExprKind::conditional && part.children().size() == 3) {
        add_conditions(facts, statement, part.children()[1], reads);
      }
      if (!is_read(facts, part)) return true;
      reads.push_back({&statement, &part, part.call()});
      return false;
    });
  });
}

// `for batch in loader: names = batch["names"].cpu()` of a DataLoader: on the host, unless
// something gets the batch as a whole and may move what is in it.
bool is_of_unmoved_batch(const SourceFacts& facts, const HostRead& read) {
  if (read.call == nullptr || read.call->method != "cpu" || read.call->receiver == nullptr) {
    return false;
  }
  const Expr& value = *read.call->receiver;
  const Expr* root = &value;
  while (root->kind == ExprKind::subscript) root = root->children()[0];
  const Statement* loop = root->kind == ExprKind::name ? root->binding() : nullptr;
  if (loop == nullptr || loop->kind != StatementKind::for_ || !value.type->is(TypeKind::unknown)) {
    return false;
  }
  const Call* loader = loader_of(facts, &value);
  if (loader == nullptr || !is_torch_loader(*loader)) return false;
  return std::ranges::none_of(calls_inside(*loop), [&](const Call* call) {
    return std::ranges::any_of(call->arguments, [&](const Argument& argument) {
      return argument.value->kind == ExprKind::name && argument.value->word() == root->word();
    });
  });
}

struct ReadsByFile {
  std::unordered_map<const File*, std::vector<HostRead>> reads;
};

}  // namespace

bool is_gpu_value(const Expr* expr) {
  if (expr == nullptr) return false;
  const Type& type = *expr->type;
  return type.is(TypeKind::tensor) && (type.on_gpu() || type.requires_grad);
}

const std::vector<HostRead>& host_reads(const SourceFacts& facts, const File& file) {
  const auto [found, is_new] = facts.store().kept<ReadsByFile>().reads.try_emplace(&file);
  std::vector<HostRead>& reads = found->second;
  if (!is_new) return reads;
  for (const Statement* statement : file.statements) add_reads(facts, *statement, reads);
  std::erase_if(reads, [&](const HostRead& read) { return is_of_unmoved_batch(facts, read); });
  std::stable_sort(reads.begin(), reads.end(), [](const HostRead& a, const HostRead& b) {
    return a.expr->range.begin < b.expr->range.begin;
  });
  return reads;
}

bool waits_itself(const SourceFacts& facts, const Call& call) {
  const bool shows_loss = std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return reads_first_element(*argument.value);  // loss.data[0]
  });
  return shows_loss || call.method == "synchronize" || moves_to_host(call) ||
         reads_by_method(facts, call) || reads_by_function(facts, call) ||
         is_one_of(call.method, {"item", "tolist", "cpu"});
}

bool waits_for_gpu(const SourceFacts& facts, const Call& call) {
  const auto is_wait = [&](const Call& each) { return waits_itself(facts, each); };
  return is_wait(call) ||
         (call.target != nullptr && any_call_below(*call.target, kMaxCallDepth - 1, is_wait));
}

bool is_clock(const Call& call) {
  return is_one_of(call.name, {"time.time", "time.perf_counter", "time.monotonic", "time.clock",
                               "time.process_time", "time.perf_counter_ns", "time.time_ns",
                               "timeit.default_timer"});
}

bool reads_clock(const Statement& statement) {
  const auto calls = calls_inside(statement);
  return std::any_of(calls.begin(), calls.end(), [](const Call* call) {
    const std::string method = lower(call->method);
    return is_clock(*call) || contains(method, "time") ||
           is_one_of(method, {"tic", "toc", "tick", "record"});
  });
}

}  // namespace rooftile::source
