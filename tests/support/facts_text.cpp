#include "tests/support/facts_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_store.h"

namespace rooftile {
namespace {

using namespace source;

const char* name_of(TypeKind kind) {
  static const char* const kNames[] = {
      "unknown", "module",    "loss",        "optimizer", "scheduler",  "loader",
      "dataset", "sampler",   "scaler",      "tensor",    "gradients",  "device",
      "dtype",   "profiler",  "accelerator", "trainer",   "array",      "number",
      "text",    "container", "function",    "class",     "host object"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* name_of(LoopRole role) {
  static const char* const kNames[] = {"training step", "evaluation step", "epoch", "other"};
  return kNames[static_cast<std::size_t>(role)];
}

// With single spaces, and not all of what is long.
std::string short_text(std::string_view text, std::size_t limit = 60) {
  std::string words;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n' || c == '\t';
    if (!is_space) words += c;
    if (is_space && !words.empty() && words.back() != ' ') words += ' ';
  }
  return words.size() <= limit ? words : words.substr(0, limit) + "…";
}

}  // namespace

std::string code_of(const Expr* expr) {
  if (expr == nullptr || expr->statement == nullptr) return "-";
  return short_text(expr->statement->file->slice(expr->range));
}

std::string code_of(const Statement* statement) {
  if (statement == nullptr) return "-";
  const std::string_view text = statement->file->slice(statement->range);
  return short_text(text.substr(0, text.find('\n')));
}

namespace {

// The words of the flags that are set, with a space before each.
std::string words_of(std::initializer_list<std::pair<bool, const char*>> flags) {
  std::string words;
  for (const auto& [is_set, word] : flags) {
    if (is_set) words += fmt::format(" {}", word);
  }
  return words;
}

// `call`: what it is made by, where that stands beside it.
std::string type_text(const Type& type, std::string_view call = "", int depth = 0) {
  std::string text = name_of(type.kind);
  text += words_of({{type.residence == Residence::host, "on the host"},
                    {type.residence == Residence::gpu, "on a GPU"},
                    {type.data_parallel, "DataParallel"},
                    {type.ddp, "DDP"},
                    {type.fsdp, "FSDP"},
                    {type.compiled, "compiled"},
                    {type.frozen, "frozen"},
                    {type.half, "half"},
                    {type.bfloat16, "bfloat16"},
                    {type.channels_last, "channels_last"},
                    {type.requires_grad, "with gradients"},
                    {type.guessed, "guessed"}});
  if (!type.name.empty() && type.name != call) text += fmt::format(" {}", type.name);
  if (type.choices != nullptr) text += fmt::format(" of {} classes", type.choices->size());
  if (type.element != nullptr && depth < 2) {
    text += fmt::format(" of ({})", type_text(*type.element, "", depth + 1));
  }
  return text;
}

std::string value_text(const Value& value) {
  static const char* const kSure[] = {"", " by a constant", " unless changed", " unsure"};
  const std::string sure = kSure[static_cast<std::size_t>(value.certainty)];
  switch (value.kind) {
    case ValueKind::absent:
      return "absent";
    case ValueKind::unknown:
      return "unknown";
    case ValueKind::none:
      return "None" + sure;
    case ValueKind::boolean:
      return (value.boolean ? "True" : "False") + sure;
    case ValueKind::integer:
      return fmt::format("{}{}", value.integer, sure);
    case ValueKind::real:
      return fmt::format("{:.6g}{}", value.real, sure);
    case ValueKind::text:
      return fmt::format("'{}'{}", short_text(value.text), sure);
    case ValueKind::name:
      return fmt::format("{}{}", value.text, sure);
    case ValueKind::list:
      return "list " + code_of(value.found) + sure;
  }
  return "";
}

std::string way_text(const Way& way) {
  std::string text = name_of(way.role);
  if (way.step_loop != nullptr) text += fmt::format(" in '{}'", code_of(way.step_loop->statement));
  if (way.start != nullptr) text += fmt::format(" from {}", way.start->full_name);
  if (way.autocast != nullptr) text += fmt::format(" autocast {}", code_of(way.autocast));
  if (way.condition != nullptr) text += fmt::format(" on '{}'", code_of(way.condition));
  text += words_of({{way.is_autocast_off, "autocast off"},
                    {way.gradients_off, "without gradients"},
                    {way.passes_forward, "through forward"},
                    {way.forward_is_off, "forward without gradients"},
                    {way.is_in_inner_loop, "in an inner loop"},
                    {way.is_between_steps > 0, "between steps"},
                    {way.shut == Shut::condition, "under a condition"},
                    {way.shut == Shut::yes, "shut"},
                    {way.negated, "negated"},
                    {way.is_shut_for_good, "for good"},
                    {way.is_conditional, "conditional"},
                    {way.is_for_inference, "for inference"},
                    {way.is_off_by_default, "off by default"},
                    {way.is_off_when_launched, "off when launched"}});
  return text;
}

std::string ways_text(const SourceFacts& facts, const Call& call) {
  std::vector<std::string> ways;
  for (const Way& way : ways_to(facts, call)) ways.push_back(way_text(way));
  std::sort(ways.begin(), ways.end());
  return ways.empty() ? "never" : fmt::format("{}", fmt::join(ways, " | "));
}

std::string call_line(const SourceFacts& facts, const Call& call) {
  const std::string code = code_of(call.expr);
  std::string text = code;
  if (!code.starts_with(fmt::format("{}(", call.name))) text += fmt::format(" is {}", call.name);
  if (call.target != nullptr) text += fmt::format(" to {}", call.target->full_name);
  if (call.receiver != nullptr && !call.receiver_type().is(TypeKind::unknown)) {
    text += fmt::format("; of {}", type_text(call.receiver_type()));
  }
  if (!call.expr->type->is(TypeKind::unknown)) {
    text += fmt::format("; gives {}", type_text(*call.expr->type, call.name));
  }
  for (const Argument& argument : call.arguments) {
    const std::string value = value_text(facts.value(argument.value));
    const std::string written = code_of(argument.value);
    const bool is_text = argument.value->kind == ExprKind::text;
    if (value == written || value == "unknown" || is_text) continue;
    text +=
        fmt::format("; {}{} = {}", argument.name, argument.followed ? " (followed)" : "", value);
  }
  if (call.unknown_arguments) text += "; unknown arguments";
  const std::string ways = ways_text(facts, call);
  return ways == "other" ? text : text + "; " + ways;
}

std::string function_line(const FunctionDef& function) {
  std::vector<std::string> parameters;
  for (const Parameter& parameter : function.parameters) {
    if (!parameter.type->is(TypeKind::unknown)) {
      parameters.push_back(fmt::format("{}: {}", parameter.name, type_text(*parameter.type)));
    }
  }
  std::string text = fmt::format("def {}({}) of {} calls", function.full_name,
                                 fmt::join(parameters, ", "), function.callers.size());
  if (!function.returns->is(TypeKind::unknown)) {
    text += fmt::format(" gives {}", type_text(*function.returns));
  }
  return text + words_of({{function.is_training_step, "training step"},
                          {function.is_evaluation_step, "evaluation step"},
                          {function.is_open_step, "open step"}});
}

std::string class_line(const ClassDef& one) {
  std::string text = fmt::format("class {}:", one.full_name) +
                     words_of({{one.is_module, "module"},
                               {one.is_lightning_module, "Lightning"},
                               {one.is_lightning_callback, "callback"},
                               {one.is_dataset, "dataset"},
                               {one.is_autograd_function, "autograd function"},
                               {one.is_hf_trainer, "trainer"},
                               {one.is_config, "config"}});
  for (const Layer& layer : one.layers) {
    text +=
        fmt::format("; {} = {}{}", layer.attribute, layer.made_by->name,
                    words_of({{layer.conditional, "conditional"}, {layer.repeated, "repeated"}}));
  }
  std::vector<std::string> uses;
  for (const LayerUse& use : one.forward) {
    uses.push_back(fmt::format("{}{}", use.consumes_previous ? "> " : "",
                               use.layer != nullptr ? use.layer->attribute : use.call->name));
  }
  return uses.empty() ? text : fmt::format("{}; forward {}", text, fmt::join(uses, ", "));
}

std::string loop_line(const Loop& loop) {
  std::string text = fmt::format("loop '{}': {}", code_of(loop.statement), name_of(loop.role));
  if (loop.backward != nullptr) text += fmt::format("; {}", code_of(loop.backward->expr));
  if (loop.optimizer_step != nullptr)
    text += fmt::format("; {}", code_of(loop.optimizer_step->expr));
  if (loop.loader != nullptr) text += fmt::format("; over {}", code_of(loop.loader->expr));
  return text + words_of({{loop.on_gpu, "on a GPU"}});
}

std::string file_line(const File& file) {
  return fmt::format("file {} ({}){}; imports {}", file.path, file.module,
                     words_of({{file.is_notebook, "notebook"},
                               {file.is_entry, "entry"},
                               {file.is_test, "test"},
                               {file.is_configuration, "configuration"},
                               {file.is_for_gpu, "for a GPU"},
                               {file.runs_exec, "runs exec"}}),
                     fmt::join(file.imports, " "));
}

std::string program_line(const Program& program) {
  return fmt::format("program {} of {} files, {} training loops{}",
                     program.entry != nullptr ? program.entry->path : "-", program.files.size(),
                     program.training_loops.size(),
                     words_of({{program.trains_on_gpu, "on a GPU"}}));
}

std::string option_line(const SourceFacts& facts, std::string_view name, const Option& option) {
  return fmt::format("option {} = {} {}{} flags {} given {}", name,
                     option.value == nullptr ? "-" : value_text(facts.value(option.value)),
                     option.action,
                     words_of({{option.several, "several"},
                               {option.is_set_later, "set later"},
                               {option.is_required, "required"},
                               {option.is_entry, "entry"},
                               {option.is_number, "number"},
                               {option.is_given, "given"}}),
                     fmt::join(option.flags, " "), fmt::join(option.given, " "));
}

std::string assignment_line(const SourceFacts& facts, const Statement& statement) {
  const Expr* target = statement.target;
  const std::string value = value_text(facts.value(statement.value));
  std::string text;
  if (!target->type->is(TypeKind::unknown)) text += ": " + type_text(*target->type);
  if (target->type->made_by != nullptr && target->type->made_by->expr != statement.value) {
    text += " by " + code_of(target->type->made_by->expr);
  }
  if (value != "unknown" && value != code_of(statement.value)) text += " = " + value;
  return text.empty() ? text : "set " + code_of(&statement) + text;
}

void add_file(const SourceFacts& facts, const File& file, std::vector<std::string>& lines) {
  lines.push_back(file_line(file));
  for (const Suppression& one : file.suppressions) {
    lines.push_back(fmt::format("allow {} in line {}{}: {} {}", fmt::join(one.rules, " "), one.line,
                                words_of({{one.own_line, "alone"}}), one.reason, one.problem));
  }
  for (const FunctionDef* function : file.functions) lines.push_back(function_line(*function));
  for (const ClassDef* one : file.classes) lines.push_back(class_line(*one));
  for (const Loop* loop : file.loops) lines.push_back(loop_line(*loop));
  for (const Statement* statement : file.statements) {
    const bool is_assigned = statement->kind == StatementKind::assignment &&
                             statement->target != nullptr && statement->value != nullptr;
    if (!is_assigned) continue;
    std::string line = assignment_line(facts, *statement);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  for (const Call* call : file.calls) lines.push_back(call_line(facts, *call));
}

}  // namespace

std::vector<std::string> facts_lines(const SourceFacts& facts) {
  std::vector<std::string> lines;
  for (const Program& program : facts.programs) lines.push_back(program_line(program));
  std::vector<std::string> options;
  for (const auto& [name, option] : facts.store().options) {
    options.push_back(option_line(facts, name, option));
  }
  std::sort(options.begin(), options.end());
  lines.insert(lines.end(), options.begin(), options.end());
  for (const auto& file : facts.files) add_file(facts, *file, lines);
  return lines;
}

}  // namespace rooftile
