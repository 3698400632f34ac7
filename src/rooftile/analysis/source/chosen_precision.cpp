#include "rooftile/analysis/source/chosen_precision.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/default_settings.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// A scaler alone makes nothing 16 bits wide: who uses one with autocast says that too.
bool is_of_scaler(std::string_view line) {
  return contains_any(line, {"amp.GradScaler", "NativeScaler"});
}

// An option `--fp16` is a sign, and the error that says what apex would be for is none.
bool is_complaint(std::string_view line) { return trim(line).starts_with("raise "); }

// NumPy on the host, and digits of printed numbers.
bool is_of_host(std::string_view line) {
  return contains_any(line, {"np.float16", "numpy.float16", "set_printoptions"});
}

// `if x.dtype == torch.float16:`, `x.dtype in {torch.float16, torch.bfloat16}` and a table with the
// key `torch.float16:` take what they are given.
bool asks_for_dtype(std::string_view line) {
  return contains_any(line, {".dtype ==", ".dtype in", ".dtype not in",
                             ".dtype !=", "torch.float16:", "torch.bfloat16:"});
}

// Precision and recall; `double_precision=False` of a solver.
bool is_of_metric(std::string_view line) {
  return contains_any(lower(line), {"recall", "f1", "fbeta", "metric", "double_precision"});
}

// `def text_of(number, precision=2):`, how many digits are shown.
bool shows_digits(const File& file) {
  constexpr std::string_view kKeyword = "precision=";
  for (std::size_t at = file.text.find(kKeyword); at != std::string::npos;
       at = file.text.find(kKeyword, at + 1)) {
    const std::string_view digits = std::string_view(file.text).substr(at + kKeyword.size(), 2);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!digits.empty() && is_digit(digits[0]) && (digits.size() < 2 || !is_digit(digits[1]))) {
      return true;
    }
  }
  return false;
}

// Horovod sends gradients as 16 bits, whatever they are multiplied in.
bool is_of_transfer(std::string_view line) {
  return contains_any(lower(line), {"allreduce", "compression"});
}

using LineTest = bool (*)(std::string_view);

// Whether a word stands in a line that no test takes out. Imports do not count: one that nothing
// uses decides nothing.
bool uses_word(const File& file, std::string_view word, std::initializer_list<LineTest> without) {
  if (!mentions(file, {word})) return false;
  const std::string text = code_of(file);
  std::string used;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1);
    const std::string_view line = std::string_view(text).substr(begin, end + 1 - begin);
    const std::string_view code = trim(line);
    const bool is_import = starts_with_any(code, {"import ", "from "});
    const bool speaks = !is_import && line.find(word) != std::string_view::npos;
    const bool is_out =
        speaks && std::ranges::any_of(without, [&](LineTest test) { return test(line); });
    if (speaks && !is_out) used += line;
    begin = end + 1;
  }
  return has_word(used, word);
}

// `"--is_apex"` chooses it.
bool is_no_option(std::string_view line) { return !contains(line, "--"); }

// apex's own way to train in 16 bits, or an option for it; its other parts do not count.
bool uses_amp(const File& file) {
  return uses_word(file, "amp", {is_of_scaler}) || uses_word(file, "use_apex", {}) ||
         uses_word(file, "apex", {is_no_option});
}

bool is_switch(std::string_view name) { return contains(name, "fp16"); }

// `create(use_fp16=True)`, not the False or the parameter that is handed on.
bool sets_switch(const Call& call) {
  return std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return is_switch(argument.name) && argument.value->word() != "False" &&
           !is_switch(last_name(argument.value));
  });
}

// Networks have a switch, `use_fp16=False`, that no call, option or settings file sets: a part of
// where they were copied from.
bool has_switch_left_off(const SourceFacts& facts, const Program& program) {
  const auto& settings = facts.store().kept<NamedInSettings>();
  if (std::ranges::any_of(settings.keys, is_switch) ||
      std::ranges::any_of(facts.store().options,
                          [](const auto& option) { return is_switch(option.first); })) {
    return false;
  }
  bool has_switch = false;
  for (const File* file : program.files) {
    if (std::ranges::any_of(file->calls, [](const Call* call) { return sets_switch(*call); })) {
      return false;
    }
    for (const FunctionDef* function : file->functions) {
      has_switch = has_switch || (function->class_def != nullptr &&
                                  std::ranges::any_of(function->parameters, [](const Parameter& p) {
                                    return is_switch(p.name) && p.default_value != nullptr &&
                                           p.default_value->word() == "False";
                                  }));
    }
  }
  return has_switch;
}

bool never(std::string_view) { return false; }

// Words that mean something else in some lines, or are only imported or explained.
bool names_precision(const SourceFacts& facts, const Program& program) {
  const LineTest is_left_off = has_switch_left_off(facts, program) ? is_switch : never;
  return std::ranges::any_of(program.files, [&](const File* file) {
    if (!runs_by_default(facts, program, *file)) return false;
    for (const std::string_view word : {"autocast", "mixed_precision", "FP16", "AMP", "Amp"}) {
      if (uses_word(*file, word, {is_complaint})) return true;
    }
    return uses_amp(*file) ||
           uses_word(*file, "fp16", {is_complaint, is_of_transfer, is_left_off}) ||
           uses_word(*file, "float16", {is_of_host, asks_for_dtype, is_left_off}) ||
           uses_word(*file, "HalfTensor", {}) || uses_word(*file, "bfloat16", {asks_for_dtype}) ||
           uses_word(*file, "fairseq", {}) ||
           (!shows_digits(*file) && uses_word(*file, "precision=", {is_of_host, is_of_metric}));
  });
}

// All options of a library's trainer, precision among them: whether a documented run sets it.
bool is_set_for_trainer(const SourceFacts& facts, const Program& program) {
  if (!mentions(program, {"Trainer.add_argparse_args", "LightningCLI", "HfArgumentParser"})) {
    return false;
  }
  const auto& settings = facts.store().kept<NamedInSettings>();
  return facts.store().started_with_precision.contains(program.entry) ||
         std::ranges::any_of(settings.keys, [](std::string_view key) {
           return contains_any(lower(key), {"precision", "fp16", "bf16", "amp_"}) || key == "amp";
         });
}

}  // namespace

bool trains_by_mmcv(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    if (!mentions(*file, {"mmcv", "mmengine"})) return false;
    const bool has_runner = std::ranges::any_of(file->imports, [](std::string_view name) {
      return starts_with_any(name, {"mmengine", "mmcv.runner", "mmcv.parallel", "mmcv.engine"});
    });
    return has_runner || mentions(*file, {"mmcv.runner", "mmcv.parallel", "build_runner"});
  });
}

bool chooses_precision(const SourceFacts& facts, const Program& program) {
  if (names_precision(facts, program)) return true;
  if (trains_by_mmcv(program) || is_set_for_trainer(facts, program)) return true;
  return mentions(program, {"bf16", "fp8", "half()", "deepspeed", "Fabric", "allow_tf32",
                            "set_float32_matmul_precision", "fp32_precision", "Accelerator", "tf32",
                            "TF32", "torch_dtype"});
}

}  // namespace rooftile::source
