#include "rooftile/analysis/source/autocast.h"

#include <algorithm>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

constexpr std::initializer_list<std::string_view> kAutocasts = {
    "torch.autocast",
    "torch.amp.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
    "torch.cpu.amp.autocast",
    "torch.cpu.amp.autocast_mode.autocast"};

AutocastDtype dtype_of(const Value& value, bool on_gpu) {
  if (value.absent()) return on_gpu ? AutocastDtype::fp16 : AutocastDtype::bf16;
  if (is_dtype(value, {"float16", "half"})) return AutocastDtype::fp16;
  if (is_dtype(value, {"bfloat16"})) return AutocastDtype::bf16;
  return AutocastDtype::unknown;
}

// `enabled=device.type != "cpu"` depends on nothing where there is a GPU.
bool is_on_with_gpu(const Value& enabled) { return truth_on_gpu(enabled.expr) == true; }

// Where the arguments stand: torch.autocast takes the device first, the older ones do not.
Autocast read(const SourceFacts& facts, const Call& call) {
  Autocast autocast;
  autocast.call = &call;
  const bool is_cuda = call.name.starts_with("torch.cuda.");
  const bool is_cpu = call.name.starts_with("torch.cpu.");
  const bool names_device = !is_cuda && !is_cpu;
  autocast.on_gpu = !is_cpu;
  if (names_device) {
    const Value device = facts.argument(call, "device_type", 0);
    autocast.on_gpu = !device.is("cpu") && !device.is("mps") && !device.is("xla");
  }
  const Value enabled = facts.argument(call, "enabled", names_device ? 2 : 0);
  autocast.dtype = dtype_of(facts.argument(call, "dtype", 1), autocast.on_gpu);
  if (call.unknown_arguments) autocast.dtype = AutocastDtype::unknown;
  autocast.is_off = enabled.is_false();
  autocast.may_be_off =
      call.unknown_arguments || (!enabled.absent() && !enabled.fixed() && !is_on_with_gpu(enabled));
  return autocast;
}

}  // namespace

std::optional<Autocast> autocast_of(const SourceFacts& facts, const Expr* manager) {
  const Expr* made = resolved(manager);
  const Call* call = made == nullptr ? nullptr : made->call();
  if (call == nullptr || !is_one_of(call->name, kAutocasts)) return std::nullopt;
  return read(facts, *call);
}

std::optional<Autocast> autocast_around(const SourceFacts& facts, const Way& way) {
  if (way.autocast == nullptr) return std::nullopt;
  if (auto found = autocast_of(facts, way.autocast)) {
    found->is_off = found->is_off || way.is_autocast_off;
    return found;
  }
  Autocast unknown;
  unknown.call = way.autocast->call();
  unknown.may_be_off = true;
  return unknown;
}

std::vector<Autocast> autocasts_in(const SourceFacts& facts, const Program& program) {
  std::vector<Autocast> found;
  for (const Call* call : calls_in(facts, program, kAutocasts)) {
    found.push_back(read(facts, *call));
  }
  return found;
}

const Call* forward_under_autocast(const SourceFacts& facts, const Program& program) {
  const auto names_it = [](const File* file) { return has_text(*file, "autocast"); };
  if (std::ranges::none_of(program.files, names_it)) return nullptr;
  for (const Loop* loop : program.training_loops) {
    for (const IteratedCall& one : iteration_of(facts, loop->statement->body).calls) {
      if (one.call->name != "torch.nn.Module.__call__") continue;
      const bool is_on = any_way(facts, *one.call, [&](const Way& way) {
        const auto around = autocast_around(facts, way);
        return around && around->on_gpu && !around->is_off && !way.is_off_by_default;
      });
      if (is_on) return one.call;
    }
  }
  return nullptr;
}

Scaler scaler_of(const SourceFacts& facts, const Call& construction) {
  const bool names_device =
      construction.name.starts_with("torch.amp.") || construction.name == "torch.GradScaler";
  const Value enabled = facts.argument(construction, "enabled", names_device ? 5 : 4);
  Scaler scaler;
  scaler.call = &construction;
  scaler.is_off = enabled.is_false();
  scaler.may_be_off = construction.unknown_arguments ||
                      (!enabled.absent() && !enabled.fixed() && !is_on_with_gpu(enabled));
  return scaler;
}

std::vector<Scaler> scalers_in(const SourceFacts& facts, const Program& program) {
  std::vector<Scaler> scalers;
  for (const Call* call : constructions_in(facts, program, TypeKind::scaler)) {
    scalers.push_back(scaler_of(facts, *call));
  }
  return scalers;
}

bool is_scaler(const Expr* expr) {
  if (expr == nullptr) return false;
  if (expr->type->is(TypeKind::scaler)) return true;
  if (!expr->type->is(TypeKind::unknown)) return false;
  return is_one_of(last_name(expr),
                   {"scaler", "grad_scaler", "loss_scaler", "amp_scaler", "_scaler", "gradscaler"});
}

}  // namespace rooftile::source
