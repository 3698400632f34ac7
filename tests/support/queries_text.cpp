#include "tests/support/queries_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "rooftile/analysis/source/attention_by_hand.h"
#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/environment.h"
#include "rooftile/analysis/source/evaluated_models.h"
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
#include "rooftile/analysis/source/own_optimizers.h"
#include "rooftile/analysis/source/pointwise_function.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/running_totals.h"
#include "rooftile/analysis/source/sample_size.h"
#include "rooftile/analysis/source/side_networks.h"
#include "rooftile/analysis/source/size_search.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/analysis/source/summed_losses.h"
#include "rooftile/analysis/source/time_loop.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/analysis/source/unowned_networks.h"
#include "rooftile/analysis/source/unseen_batches.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/analysis/source/value_uses.h"
#include "rooftile/analysis/source/weight.h"
#include "rooftile/analysis/source/weight_loops.h"
#include "rooftile/analysis/source/words.h"
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

// Where it has any words.
void add_words(std::vector<std::string>& lines, std::string_view kind, const std::string& name,
               const std::string& words) {
  if (!words.empty()) add(lines, kind, name, words);
}

std::string joined(const auto& texts) {
  std::string all;
  for (const auto& text : texts) all += fmt::format("{}{}", all.empty() ? "" : ", ", text);
  return all;
}

// What each of them is written as.
std::string codes_of(const auto& parts) {
  std::vector<std::string> codes;
  for (const auto* part : parts) codes.push_back(code_of(part));
  return joined(codes);
}

// What a program trains: the functions that make it, and what the optimizers hold.
void add_parts(const SourceFacts& facts, const Program& program, std::vector<std::string>& lines) {
  const TrainedParts& parts = trained_parts(facts, program);
  std::set<std::string> makers, made;
  for (const FunctionDef* function : parts.makers) makers.emplace(function->full_name);
  for (const Call* call : parts.made) made.insert(code_of(call->expr));
  add(lines, parts.is_complete ? "parts, all seen" : "parts", joined(made), joined(makers));
  for (const Call* optimizer : constructions_in(facts, program, TypeKind::optimizer)) {
    add_words(lines, "optimizer of", codes_of(optimized_modules(*optimizer)),
              words_of({{is_optimizer_of_tensors(*optimizer), "tensors"},
                        {optimizer->argument("params", 0) != nullptr, "parameters"}}));
  }
  for (const File* file : program.files) {
    for (const ClassDef* def : file->classes) {
      if (!def->is_module) continue;
      add_words(lines, "class", std::string(def->full_name),
                words_of({{is_beside_training(facts, program, *def), "beside the training"},
                          {steps_optimizer(*def), "steps an optimizer"}}));
    }
  }
}

std::vector<const Statement*> statements_of(const std::vector<const Loop*>& loops) {
  std::vector<const Statement*> statements;
  for (const Loop* loop : loops) statements.push_back(loop->statement);
  return statements;
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
                {shows_pytorch_2(program), "PyTorch 2"},
                {trains_head_only(facts, program), "head only"},
                {trains_large_network(facts, program), "large network"},
                {!takes_steps(program), "takes no steps"}}));
  add_parts(facts, program, lines);
  lines.push_back(
      fmt::format("reaches {}", codes_of(statements_of(training_loops_in_reach(program)))));
  if (const Call* forward = forward_under_autocast(facts, program)) {
    lines.push_back(fmt::format("under autocast: {}", code_of(forward->expr)));
  }
  add_text(lines, "fixed input size", fixed_input_size(facts, program));
  add_text(lines, "varying input size", varying_input_size(facts, program));
  add_text(lines, "padded to the longest", padded_to_longest(facts, program));
  add_text(lines, "sized for Tensor Cores", tensor_core_sized_layer(facts, program));
  add_text(lines, "main convolution", main_convolution(facts, program));
  add_text(lines, "chosen by its name", model_chosen_by_name(program, kAnyCall));
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
  std::vector<std::string_view> collates;
  for (const FunctionDef* function : collate_functions(loader)) collates.push_back(function->name);
  lines.push_back(fmt::format("  of {}, read by {}{}{}", code_of(dataset_of(loader)),
                              codes_of(statements_of(loops_over(facts, loader))),
                              collates.empty() ? "" : ", collated by ", joined(collates)));
}

// What a loop over weights does with them.
void add_weights(const Statement& loop, std::vector<std::string>& lines) {
  if (loop.kind != StatementKind::for_) return;
  WeightList list = lists_parameters(loop.value);
  if (list.shown == nullptr) list = weights_by_key(loop);
  if (list.shown == nullptr) return;
  const LoopBody body = read_body(loop);
  add(lines, "weights", code_of(list.shown),
      fmt::format("{} {}", code_of(body.operation),
                  words_of({{list.call != nullptr, "listed"},
                            {body.uses_target, "of what it goes through"},
                            {body.is_multi_tensor, "several at once"}})));
}

// The sums in a loop: whether they begin in its passes.
void add_sums(const SourceFacts& facts, const Loop& loop, std::vector<std::string>& lines) {
  for_statements(loop.statement->body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::assignment || statement.word != "+=") return;
    const std::string_view total = root_name(statement.target);
    if (total.empty()) return;
    lines.push_back(fmt::format("total {} of '{}': {}", total, code_of(loop.statement),
                                starts_anew(facts, loop, statement, total) ? "anew" : "goes on"));
  });
}

// What a pass calls in order; in brackets the conditions around that are not around the call
// before.
void add_pass(const SourceFacts& facts, const Iteration& iteration,
              std::vector<std::string>& lines) {
  const auto& calls = iteration.calls;
  std::string text;
  std::size_t excluded = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    text += fmt::format(" {}", calls[i].call->method);
    for (const Branch& branch : extra_conditions(calls[i], calls[i == 0 ? i : i - 1])) {
      text += fmt::format("[{}{}{}]", branch.otherwise ? "else " : "", branch.condition,
                          is_accumulation_test(branch) ? ", now and then" : "");
    }
    const bool is_few = calls.size() < 200;
    for (std::size_t j = 0; is_few && j < i; ++j) {
      if (exclude_each_other(calls[i], calls[j])) ++excluded;
    }
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr std::size_t kMost = 400;
  lines.push_back(fmt::format("in one pass, {} apart:{}", excluded, text.substr(0, kMost)));
  if (iteration.loop == nullptr) return;
  add_words(lines, "steps of", code_of(iteration.loop->statement),
            words_of({{empties_queue(facts, *iteration.loop), "empties the queue"},
                      {waits_anyway(facts, *iteration.loop), "waits anyway"}}));
}

void add_loop(const SourceFacts& facts, const Loop& loop, std::vector<std::string>& lines) {
  add(lines, "loop", code_of(loop.statement),
      words_of({{switches_gradients_off(facts, loop), "switches gradients off"},
                {waits_anyway(facts, loop), "waits anyway"},
                {feeds_itself(loop), "feeds itself"},
                {is_user_evaluation(facts, loop), "evaluation by the user"}}));
  add_sums(facts, loop, lines);
  if (loop.statement->kind != StatementKind::for_) return;
  if (const Call* loader = loader_of(facts, loop.statement->value)) {
    lines.push_back(fmt::format("  over {}", code_of(loader->expr)));
  }
}

// Sizes that a module is made with and that stand for something, and what kind of layer it is.
void add_module(const SourceFacts& facts, const Call& call, std::vector<std::string>& lines) {
  const auto programs = facts.programs_of(*call.file);
  if (!call.expr->type->is(TypeKind::module) || programs.empty()) return;
  const Type& type = *call.expr->type;
  add_words(lines, "module", code_of(call.expr),
            words_of({{is_convolution(call), "convolution"},
                      {is_batch_norm(call), "batch norm"},
                      {is_recurrent_layer(call) || is_recurrent_cell(call), "recurrent"},
                      {has_no_weights(type), "no weights"},
                      {freezes_itself(type), "freezes itself"},
                      {takes_gradients_inside(facts, type, *call.file), "gradients inside"}}));
  std::string sizes;
  for (const Argument& argument : call.arguments) {
    if (argument.unpacked || argument.value->kind == ExprKind::integer) continue;
    const auto size = largest_size(facts, argument.value, programs.front());
    if (size) sizes += fmt::format(" {}: {}", code_of(argument.value), *size);
  }
  const bool hands_on = !call.arguments.empty() && call.arguments.front().unpacked;
  if (hands_on) {
    for (const auto& [in, out] :
         layer_sizes(facts, *programs.front(), call, {"in_channels", 0}, {"out_channels", 1})) {
      sizes += fmt::format(" ({} {})", in.value_or(0), out.value_or(0));
    }
  }
  const auto wide = is_convolution(call) ? wide_convolution(facts, *programs.front(), call)
                                         : std::optional<LayerSizes>();
  if (wide) sizes += fmt::format(" wide {} {}", *wide->first, *wide->second);
  for (const int place : {0, 1}) {
    const auto chosen = chosen_argument(facts, call, "size", place);
    const bool is_fixed = fixed_argument(facts, call, "size", place).has_value();
    if (chosen && !is_fixed) sizes += fmt::format(" chosen {}", *chosen);
  }
  if (!sizes.empty()) lines.push_back(fmt::format("sizes of {}:{}", code_of(call.expr), sizes));
}

// Whether it runs under autocast, some way there.
std::string autocast_text(const SourceFacts& facts, const Call& call) {
  bool is_on = false, is_off = false, may_be_off = false;
  for (const Way& way : ways_to(facts, call)) {
    const auto around = autocast_around(facts, way);
    if (!around) continue;
    is_off = is_off || around->is_off;
    may_be_off = may_be_off || around->may_be_off;
    is_on = is_on || (!around->is_off && !around->may_be_off);
  }
  return words_of({{is_on, "on"}, {is_off, "off"}, {may_be_off, "may be off"}});
}

void add_call(const SourceFacts& facts, const Call& call, std::vector<std::string>& lines) {
  const bool runs_network =
      call.name == "torch.nn.Module.__call__" || call.receiver_type().is(TypeKind::module);
  const bool is_wait = waits_itself(facts, call);
  add(lines, "call", code_of(call.expr),
      words_of({{is_hot(facts, call), "hot"},
                {!is_hot(facts, call) && is_hot_or_evaluated(facts, call), "evaluated"},
                {is_evaluated_on_gpu(facts, call), "evaluated on a GPU"},
                {waits_for_gpu(facts, call), "waits for the GPU"},
                {is_wait, "waits itself"},
                {is_wait && has_other_waits(facts, call), "among other waits"},
                {is_clock(call), "clock"},
                {copies_to_device(facts, call), "copies to a device"},
                {makes_on_host(facts, call), "made on the host"},
                {runs_in_forward(call.function), "in forward"},
                {is_in_step_loop(facts, call), "in a step loop"},
                {is_in_evaluation_loop(facts, call), "in an evaluation loop"},
                {!is_reached_when_launched(facts, call), "not launched"},
                {runs_network && is_in_no_optimizer(facts, call), "in no optimizer"},
                {runs_network && reaches_backward(call), "reaches backward"}}));
  add_module(facts, call, lines);
  if (call.name == "torch.nn.Module.__call__") {
    add_words(lines, "autocast around", code_of(call.expr), autocast_text(facts, call));
  }
}

void add_value(const SourceFacts& facts, const Expr& value, std::vector<std::string>& lines) {
  const std::string words = words_of({{is_surely_host(*value.type), "on the host"},
                                      {is_unplaced_tensor(value), "unplaced"},
                                      {is_taken_from_gpu(facts, value), "taken from a GPU"},
                                      {comes_from_numpy(&value), "from NumPy"},
                                      {may_wait(facts, &value), "may wait"},
                                      {was_on_gpu(facts, value), "was on a GPU"},
                                      {is_written_out(facts, value), "written out"},
                                      {is_unseen_batch(facts, &value), "unseen batch"}});
  add_words(lines, "value", code_of(&value), words);
  if (const Call* made = host_allocation(facts, value)) {
    lines.push_back(fmt::format("  made on the host by {}", code_of(made->expr)));
  }
}

void add_function(const SourceFacts& facts, const FunctionDef& function,
                  std::vector<std::string>& lines) {
  add_words(lines, "function", std::string(function.full_name),
            words_of({{is_optimizer_step(&function), "optimizer step"},
                      {runs_in_optimizer_step(&function), "in an optimizer step"},
                      {is_training_optimizer_step(facts, &function), "in training"},
                      {generates(function), "generates"},
                      {is_named_evaluation(function), "named evaluation"}}));
  if (const Call* copy = copy_below(facts, function)) {
    lines.push_back(fmt::format("  copies by {}", code_of(copy->expr)));
  }
  if (const auto attention = attention_by_hand(function)) {
    add(lines, "attention", code_of(attention->softmax),
        code_of(attention->product) + " " +
            words_of({{attention->weights_leave, "weights leave"},
                      {attention->has_other_terms, "other terms"},
                      {attention->has_bias, "bias"},
                      {attention->weights_change, "weights change"}}));
    const AttentionInputs inputs = inputs_of(facts, *attention);
    lines.push_back(fmt::format("  of {}: {} dimensions{}", code_of(attention->scores),
                                inputs.dimensions, inputs.are_scaled ? ", scaled" : ""));
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

// Why changes gain little at the lines of a file, each reason with its first and last line.
void add_reasons(const SourceFacts& facts, const File& file, std::vector<std::string>& lines) {
  for (const auto& [cost, kind] : {std::pair{Cost::of_step, "step"}, {Cost::of_run, "run"}}) {
    std::map<std::string_view, std::vector<std::size_t>> reasons;
    for (std::size_t line = 1; line <= file.line_starts.size(); ++line) {
      const std::string_view reason = reason_for_little(facts, file, line, cost);
      if (!reason.empty()) reasons[reason].push_back(line);
    }
    for (const auto& [reason, at] : reasons) {
      lines.push_back(fmt::format("little of a {} in {}: {} ({} lines, {} to {})", kind, file.path,
                                  reason, at.size(), at.front(), at.back()));
    }
  }
}

// What is used in each step of a sequence, and what is known before.
void add_time_loops(const File& file, std::vector<std::string>& lines) {
  for (const Statement* statement : time_loops(file)) {
    const TimeLoop loop(*statement);
    lines.push_back(fmt::format("over time: {}", code_of(statement)));
    for_statements(statement->body, [&](const Statement& each) {
      if (each.kind != StatementKind::assignment || each.value == nullptr) return;
      const bool is_name = each.target->kind == ExprKind::name;
      const auto sets = is_name ? loop.assigned_to(each.target->word()).size() : 0;
      lines.push_back(fmt::format("  {} ({} values): {}", code_of(&each), sets,
                                  words_of({{loop.is_known_before(each.value), "known before"},
                                            {loop.varies(each.value), "varies"}})));
    });
  }
}

// What is done with what the host reads, and on what it depends that it is read.
std::string uses_text(const SourceFacts& facts, const HostRead& read) {
  static const char* const kKinds[] = {"log",  "tensors", "check", "decision",
                                       "size", "index",   "host",  "unknown"};
  std::set<std::string_view> kinds;
  for (const ValueUse& use : uses_of(facts, read)) {
    kinds.insert(kKinds[static_cast<std::size_t>(use.kind)]);
  }
  std::string text = fmt::format("used for {}", joined(kinds));
  for (const HalfWay& way : half_ways(facts, *read.statement)) {
    text += fmt::format("; if {}{}", way.negated ? "not " : "", code_of(way.condition));
  }
  if (const Statement* loop = loop_in_step(facts, *read.statement, read.expr)) {
    text += fmt::format("; in '{}'", code_of(loop));
  }
  return text;
}

void add_settings(const SourceFacts& facts, const File& file, std::vector<std::string>& lines) {
  add_words(lines, "file", file.path,
            words_of({{binds_torch(file), "has torch"},
                      {is_taken_over(facts, file), "taken over"},
                      {has_large_samples(facts, file), "large samples"},
                      {is_lesson(facts, file), "lesson"},
                      {is_started_on_one_gpu(facts, file), "on one GPU"},
                      {is_started_on_several_gpus(facts, file), "on several GPUs"}}));
  if (const Statement* last = last_import(file)) {
    lines.push_back(fmt::format("  imports until '{}'", code_of(last)));
  }
}

void add_file(const SourceFacts& facts, const File& file, std::vector<std::string>& lines) {
  add_lines(facts, file, lines);
  add_reasons(facts, file, lines);
  add_settings(facts, file, lines);
  add_time_loops(file, lines);
  for (const HostRead& read : host_reads(facts, file)) {
    lines.push_back(fmt::format("read {}: {}, {}", code_of(read.expr), uses_text(facts, read),
                                words_of({{feeds_host(read), "feeds the host"},
                                          {can_do_without(facts, read), "can do without"},
                                          {is_conversion(facts, read), "conversion"}})));
  }
  for (const LayerPair& pair : neighbouring_layers(file)) {
    lines.push_back(fmt::format(
        "pair {} > {} {}", code_of(pair.first->expr), code_of(pair.second->expr),
        words_of({{pair.condition != nullptr, "on a condition"}, {pair.is_shared, "shared"}})));
  }
  for (const Loop* loop : file.loops) add_loop(facts, *loop, lines);
  for (const FunctionDef* function : file.functions) add_function(facts, *function, lines);
  for (const Statement* statement : file.statements) {
    const bool is_assigned =
        statement->kind == StatementKind::assignment && statement->value != nullptr;
    if (is_assigned) {
      const Expr& target = *statement->target;
      add_value(facts, *statement->value, lines);
      add_words(lines, "target", code_of(&target),
                words_of({{becomes_tensor(target), "becomes a tensor"},
                          {runs_backward(target), "runs backward"}}));
    }
    add_weights(*statement, lines);
  }
  for (const Call* call : file.calls) {
    add_call(facts, *call, lines);
    const bool moves = call->receiver != nullptr && copies_to_device(facts, *call);
    const Call* loader = moves ? loader_of(facts, call->receiver) : nullptr;
    if (moves) add_value(facts, *call->receiver, lines);
    if (loader != nullptr) lines.push_back("  out of " + code_of(loader->expr));
  }
}

void add_passes(const SourceFacts& facts, std::vector<std::string>& lines) {
  static const char* const kKinds[] = {
      "scaled backward", "backward",      "unscale",        "clip",
      "scaler step",     "scaler update", "optimizer step", "zero gradients"};
  for (const ScaledPass& pass : scaled_passes(facts)) {
    std::string text = "pass:";
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      const ScalingEvent& event = pass.events[i];
      const bool is_after_scaled = scaled_backward_before(pass.events, i) != nullptr;
      text += fmt::format(" {}{}{}", kKinds[static_cast<std::size_t>(event.kind)],
                          is_after_scaled                              ? " of scaled gradients"
                          : backward_before(pass.events, i) != nullptr ? " of gradients"
                                                                       : "",
                          is_scaler_off(facts, event)       ? " (off),"
                          : may_scaler_be_off(facts, event) ? " (may be off),"
                                                            : ",");
    }
    lines.push_back(text);
  }
  for (const Iteration& iteration : training_iterations(facts)) add_pass(facts, iteration, lines);
  for (const char* name : {"CUDA_LAUNCH_BLOCKING", "PYTORCH_CUDA_ALLOC_CONF"}) {
    for (const EnvironmentSetting& one : environment_settings(facts, name)) {
      lines.push_back(fmt::format("sets {} to {}", name, code_of(one.value)));
    }
  }
  for (const Call* call : compile_calls(facts)) {
    lines.push_back(fmt::format("compiled: {}", code_of(call->expr)));
  }
  for (const Compiled& compiled : compiled_code(facts)) {
    if (compiled.function == nullptr) continue;
    std::vector<std::string_view> traced;
    for (const FunctionDef* one : traced_functions(*compiled.function)) {
      traced.push_back(one->full_name);
    }
    lines.push_back(fmt::format("compiles {}", joined(traced)));
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
  for (const Call* loader : training_loaders(facts)) {
    lines.push_back(fmt::format("training loader {}", code_of(loader->expr)));
  }
  for (const auto& file : facts.files) add_file(facts, *file, lines);
  add_passes(facts, lines);
  return lines;
}

}  // namespace rooftile
