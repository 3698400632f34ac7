#include "tests/support/queries_text.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "rooftile/analysis/source/attention_by_hand.h"
#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/gradient_switches.h"
#include "rooftile/analysis/source/head_training.h"
#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/host_consumers.h"
#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/input_sizes.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/layer_pairs.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/pointwise_function.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/sample_size.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/analysis/source/time_loop.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/analysis/source/unowned_networks.h"
#include "rooftile/analysis/source/unseen_batches.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/script/reach/reach.h"
#include "tests/support/facts_text.h"

namespace rooftile {
namespace {

using namespace source;

using Flags = std::initializer_list<std::pair<bool, const char*>>;

std::string words_of(Flags flags) {
  std::string words;
  for (const auto& [is_set, word] : flags) {
    if (is_set) words += fmt::format("{}{}", words.empty() ? "" : ", ", word);
  }
  return words;
}

void add(std::vector<std::string>& lines, std::string_view kind, const std::string& name,
         const std::string& words) {
  lines.push_back(fmt::format("{} {}: {}", kind, name, words.empty() ? "nothing" : words));
}

void add_text(std::vector<std::string>& lines, std::string_view kind, const auto& found) {
  if (found) lines.push_back(fmt::format("{}: {}", kind, found->text));
}

void add_program(const SourceFacts& facts, const Program& program,
                 std::vector<std::string>& lines) {
  add(lines, "program", program.entry != nullptr ? program.entry->path : "-",
      words_of({{chooses_precision(facts, program), "chooses precision"},
                {trains_by_mmcv(program), "mmcv"},
                {compiles(program), "compiles"},
                {is_tutorial(facts, program), "tutorial"},
                {runs_linear_layers_only(facts, program), "linear layers only"},
                {trains_tensors_only(program), "tensors only"},
                {has_attention(program), "attention"},
                {trains_plain_convolution(facts, program), "plain convolution"},
                {runs_training(program), "runs training"},
                {leaves_training_to_another(facts, program), "leaves training to another"},
                {is_numerically_strict(facts, program), "strict"},
                {is_reinforcement_learning(program), "reinforcement learning"},
                {has_training_framework(program), "framework"},
                {shows_pytorch_2(program), "PyTorch 2"}}));
  add_text(lines, "fixed input size", fixed_input_size(facts, program));
  add_text(lines, "varying input size", varying_input_size(facts, program));
  add_text(lines, "padded to the longest", padded_to_longest(facts, program));
  add_text(lines, "sized for Tensor Cores", tensor_core_sized_layer(facts, program));
  add_text(lines, "main convolution", main_convolution(facts, program));
  const auto find = [](const SourceFacts& all, const Program& one, const Accepts& accepts) {
    return tensor_core_sized_layer(all, one, accepts);
  };
  if (const auto trained = trained_layer(facts, program, find)) {
    lines.push_back(fmt::format("trained: {}{}", trained->model_text(),
                                trained->is_certain ? " for certain" : ""));
  }
  const TrainingPlace place = training_place(facts, program);
  lines.push_back(fmt::format("trained in '{}' by {}",
                              place.loop != nullptr ? code_of(place.loop->statement) : "-",
                              place.forward != nullptr ? code_of(place.forward->expr) : "-"));
  for (const Autocast& one : autocasts_in(facts, program)) {
    static const char* const kDtypes[] = {"fp16", "bf16", "unknown"};
    add(lines, "autocast", one.call != nullptr ? code_of(one.call->expr) : "-",
        fmt::format(
            "{} {}", kDtypes[static_cast<std::size_t>(one.dtype)],
            words_of(
                {{one.on_gpu, "on a GPU"}, {one.is_off, "off"}, {one.may_be_off, "may be off"}})));
  }
  for (const Scaler& one : scalers_in(facts, program)) {
    add(lines, "scaler", code_of(one.call->expr),
        words_of({{one.is_off, "off"}, {one.may_be_off, "may be off"}}));
  }
}

void add_loader(const SourceFacts& facts, const Call& loader, std::vector<std::string>& lines) {
  add(lines, "loader", code_of(loader.expr),
      words_of({{is_for_training(facts, loader), "for training"},
                {is_for_evaluation(facts, loader), "for evaluation"},
                {is_hardly_read(facts, loader), "hardly read"},
                {needs_no_workers(facts, loader), "needs no workers"},
                {has_large_samples(facts, loader), "large samples"},
                {collates_to_arrays(loader), "collates to arrays"},
                {collates_on_gpu(facts, loader), "collates on a GPU"},
                {has_gpu_samples(facts, loader), "samples on a GPU"},
                {moves_batches(facts, loader), "moves batches"}}));
}

void add_loop(const SourceFacts& facts, const Loop& loop, std::vector<std::string>& lines) {
  add(lines, "loop", code_of(loop.statement),
      words_of({{switches_gradients_off(facts, loop), "switches gradients off"},
                {waits_anyway(facts, loop), "waits anyway"},
                {feeds_itself(loop), "feeds itself"},
                {is_user_evaluation(facts, loop), "evaluation by the user"}}));
}

void add_call(const SourceFacts& facts, const Call& call, std::vector<std::string>& lines) {
  const bool makes_module = call.expr->type->is(TypeKind::module);
  add(lines, "call", code_of(call.expr),
      words_of({{is_hot(facts, call), "hot"},
                {!is_hot(facts, call) && is_hot_or_evaluated(facts, call), "evaluated"},
                {is_evaluated_on_gpu(facts, call), "evaluated on a GPU"},
                {waits_for_gpu(facts, call), "waits for the GPU"},
                {waits_itself(facts, call), "waits itself"},
                {is_clock(call), "clock"},
                {copies_to_device(facts, call), "copies to a device"},
                {makes_on_host(facts, call), "made on the host"},
                {runs_in_forward(call.function), "in forward"},
                {makes_module && is_in_no_optimizer(facts, call), "in no optimizer"}}));
}

void add_value(const SourceFacts& facts, const Statement& statement,
               std::vector<std::string>& lines) {
  const Expr& value = *statement.value;
  const std::string words = words_of({{is_surely_host(*value.type), "on the host"},
                                      {is_unplaced_tensor(value), "unplaced"},
                                      {is_taken_from_gpu(facts, value), "taken from a GPU"},
                                      {comes_from_numpy(&value), "from NumPy"},
                                      {may_wait(facts, &value), "may wait"},
                                      {is_unseen_batch(facts, &value), "unseen batch"}});
  if (!words.empty()) add(lines, "value", code_of(&value), words);
}

void add_function(const FunctionDef& function, std::vector<std::string>& lines) {
  if (const auto attention = attention_by_hand(function)) {
    add(lines, "attention", code_of(attention->softmax),
        code_of(attention->product) + " " +
            words_of({{attention->weights_leave, "weights leave"},
                      {attention->has_other_terms, "other terms"}}));
  }
  if (const auto pointwise = pointwise_function(function)) {
    lines.push_back(fmt::format("pointwise {}: {} operations to '{}', known {}", function.full_name,
                                pointwise->operations, code_of(pointwise->result),
                                static_cast<int>(pointwise->known)));
  }
}

// The lines of a file that no program runs, and those that only switches turn on.
void add_lines(const SourceFacts& facts, const File& file, std::vector<std::string>& lines) {
  std::string dead, off;
  for (std::size_t line = 0; line <= file.line_starts.size() + 1; ++line) {
    if (!is_reached(facts, file, line)) dead += fmt::format(" {}", line);
    if (is_off_by_default(facts, file, line)) off += fmt::format(" {}", line);
  }
  if (!dead.empty()) lines.push_back(fmt::format("not reached in {}:{}", file.path, dead));
  if (!off.empty()) lines.push_back(fmt::format("off by default in {}:{}", file.path, off));
}

void add_file(const SourceFacts& facts, const File& file, std::vector<std::string>& lines) {
  add_lines(facts, file, lines);
  for (const HostRead& read : host_reads(facts, file)) {
    lines.push_back(fmt::format("read {}: {}", code_of(read.expr),
                                words_of({{feeds_host(read), "feeds the host"},
                                          {is_conversion(facts, read), "conversion"}})));
  }
  for (const LayerPair& pair : neighbouring_layers(file)) {
    lines.push_back(fmt::format(
        "pair {} > {} {}", code_of(pair.first->expr), code_of(pair.second->expr),
        words_of({{pair.condition != nullptr, "on a condition"}, {pair.is_shared, "shared"}})));
  }
  for (const Loop* loop : file.loops) add_loop(facts, *loop, lines);
  for (const FunctionDef* function : file.functions) add_function(*function, lines);
  for (const Statement* statement : file.statements) {
    const bool is_assigned =
        statement->kind == StatementKind::assignment && statement->value != nullptr;
    if (is_assigned) add_value(facts, *statement, lines);
  }
  for (const Call* call : file.calls) add_call(facts, *call, lines);
}

void add_passes(const SourceFacts& facts, std::vector<std::string>& lines) {
  static const char* const kKinds[] = {
      "scaled backward", "backward",      "unscale",        "clip",
      "scaler step",     "scaler update", "optimizer step", "zero gradients"};
  for (const ScaledPass& pass : scaled_passes(facts)) {
    std::string text = "pass:";
    for (const ScalingEvent& event : pass.events) {
      text += fmt::format(" {}{}", kKinds[static_cast<std::size_t>(event.kind)],
                          is_scaler_off(facts, event)       ? " (off),"
                          : may_scaler_be_off(facts, event) ? " (may be off),"
                                                            : ",");
    }
    lines.push_back(text);
  }
  for (const Compiled& compiled : compiled_code(facts)) {
    if (compiled.function == nullptr) continue;
    for (const GraphBreak& one : graph_breaks(facts, *compiled.function)) {
      lines.push_back(fmt::format("break of {}: {}", compiled.function->full_name, one.text));
    }
  }
}

}  // namespace

std::vector<std::string> query_lines(const SourceFacts& facts) {
  std::vector<std::string> lines;
  for (const Program& program : facts.programs) add_program(facts, program, lines);
  for (const Call* loader : facts.constructions(TypeKind::loader)) {
    add_loader(facts, *loader, lines);
  }
  for (const auto& file : facts.files) add_file(facts, *file, lines);
  add_passes(facts, lines);
  return lines;
}

}  // namespace rooftile
