#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace odd_vocabulary_in_source {

using namespace source;

constexpr std::int64_t kToy = 1000;  // entries; smaller ones cost nothing
constexpr std::int64_t kStep = 8;

bool is_odd(std::int64_t size) { return size >= kToy && size % kStep != 0; }

bool names_vocabulary(std::string_view text) {
  const std::string name = lower(text);
  if (contains_any(name, {"gram", "hash", "bucket"})) return false;  // slots of a table
  for (const std::string_view word : {"vocab", "token", "word", "dict", "bpe"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

struct OutputLayer {
  const Call* call = nullptr;
  Value size;
};

// The Linear layers of all programs by how many outputs they have: the last one gives the logits.
class OutputLayers {
 public:
  explicit OutputLayers(const SourceFacts& facts) {
    for (const Call* call : facts.calls("torch.nn.Linear")) {
      const Value size = facts.argument(*call, "out_features", 1);
      if (size.kind == ValueKind::integer && is_odd(size.integer) && !call->file->is_test) {
        layers_[size.integer].push_back({call, size});
      }
    }
  }

  std::vector<OutputLayer> of(const std::vector<const Program*>& programs,
                              std::int64_t size) const {
    std::vector<OutputLayer> found;
    const auto known = layers_.find(size);
    if (known == layers_.end()) return found;
    std::ranges::copy_if(known->second, std::back_inserter(found), [&](const OutputLayer& layer) {
      return std::ranges::any_of(programs,
                                 [&](auto* program) { return program->has(*layer.call->file); });
    });
    return found;
  }

 private:
  std::unordered_map<std::int64_t, std::vector<OutputLayer>> layers_;
};

bool is_only_loaded(const Call& call) {
  return call.function != nullptr && call.function->name.find("pretrained") != std::string::npos;
}

// The number that is written for the size, on the call's line or where the default stands.
const Expr* written_size(const Value& value) {
  const Expr* written = value.found;
  const bool is_number = written != nullptr && written->kind == ExprKind::integer;
  return is_number ? written : nullptr;
}

// The same number elsewhere in the file: it may be what a run takes in place of the default.
bool is_written_elsewhere(std::int64_t size, const File& file,
                          const std::set<const Expr*>& places) {
  const std::string digits = std::to_string(size);
  for (std::size_t at = file.text.find(digits); at != std::string::npos;
       at = file.text.find(digits, at + 1)) {
    const bool is_known = std::ranges::any_of(places, [&](const Expr* one) {
      return one->statement->file == &file && one->range.begin == at;
    });
    if (!is_known) return true;
  }
  return false;
}

// One size for the embedding and the output layers, wherever it is written.
Fix fix_for(const Call& call, const Value& value, const std::vector<OutputLayer>& outputs) {
  const std::int64_t padded = round_up(value.integer, kVocabularyStep);
  Fix fix{
      fmt::format("{} -> {}{}: leave the added rows unused, and slice the logits before loss and "
                  "sampling",
                  value.integer, padded,
                  outputs.empty() ? "" : " in the embedding and the output layer"),
      Exactness::changes_training};
  std::set<const Expr*> places{written_size(value)};
  for (const OutputLayer& output : outputs) places.insert(written_size(output.size));
  if (places.contains(nullptr)) return fix;  // a machine would change only some of them
  const bool is_default = value.certainty == Certainty::configurable;
  if (is_default && is_written_elsewhere(value.integer, *call.file, places)) return fix;
  for (const Expr* written : places) {
    add_edit(replace(*written->statement->file, written->range, std::to_string(padded)), fix);
  }
  if (value.certainty == Certainty::configurable) {
    fix.text += fmt::format("; the default is at {}",
                            place_text(*written_size(value)->statement, *call.file));
  }
  return fix;
}

Finding embedding_finding(const Call& call, const Value& value,
                          const std::vector<OutputLayer>& outputs) {
  const bool is_default = value.certainty == Certainty::configurable;
  Finding finding = finding_at(
      call,
      fmt::format(
          "the vocabulary of {}{} is not a multiple of 8: rows of the logits do not start at "
          "16-byte addresses",
          value.integer, is_default ? " (default)" : ""),
      fix_for(call, value, outputs));
  finding.evidence = {
      Evidence::published("vocabulary 50257 -> 50304, about 25 % faster training",
                          "nanoGPT, author's note, 2023"),
      Evidence::published("16-byte rows", "cuBLAS documentation, Tensor Core Usage")};
  return finding;
}

// A field of a class of settings, or a parameter of its __init__, with the size as its default.
struct Setting {
  const ClassDef* owner = nullptr;
  std::string_view name;
};

std::optional<Setting> setting_of(const Expr* found) {
  const Statement* entry = found == nullptr ? nullptr : found->statement;
  if (entry == nullptr) return std::nullopt;
  if (const FunctionDef* function = entry->function_def; function != nullptr) {
    const ClassDef* owner = function->class_def;
    if (owner == nullptr || owner->is_module) return std::nullopt;
    const auto is_default = [&](const Parameter& one) { return one.default_value == found; };
    const auto parameter = std::ranges::find_if(function->parameters, is_default);
    if (parameter == function->parameters.end()) return std::nullopt;
    return Setting{owner, parameter->name};
  }
  const Statement* home = entry->parent;
  if (home == nullptr || home->class_def == nullptr || entry->target == nullptr) {
    return std::nullopt;
  }
  return Setting{home->class_def, last_name(entry->target)};
}

// GPTConfig(vocab_size=50304): who makes the configuration passes another size than its default.
// One that nobody makes comes with the weights of a trained network.
bool is_unused_default(const SourceFacts& facts, const Value& value) {
  const std::optional<Setting> setting = setting_of(value.found);
  if (!setting) return false;
  auto made = facts.calls(setting->owner->full_name);
  std::erase_if(made, [](const Call* call) { return is_only_loaded(*call); });
  return std::all_of(made.begin(), made.end(), [&](const Call* call) {
    const Value given = facts.argument(*call, setting->name);
    return given.kind == ValueKind::integer && !is_odd(given.integer);
  });
}

// `self.to_logits(x) if not return_embeddings else x`, where each call seen wants embeddings: the
// layer is not run.
bool is_run(const SourceFacts& facts, const Call& layer) {
  const ClassDef* def = layer.function == nullptr ? nullptr : layer.function->class_def;
  const std::string_view attribute = last_name(layer.statement->target);
  if (def == nullptr || attribute.empty()) return true;
  bool is_used = false;
  for (const FunctionDef* method : def->methods) {
    for (const Call* call : method->calls) {
      if (call->method != attribute) continue;
      is_used = true;
      if (!ways_to(facts, *call).empty()) return true;
    }
  }
  return !is_used;
}

bool is_vocabulary(const Call& embedding, const Value& size) {
  return names_vocabulary(embedding.file->slice(size.expr->range)) ||
         (embedding.statement->target != nullptr &&
          names_vocabulary(last_name(embedding.statement->target)));
}

void check_embeddings(const SourceFacts& facts, std::vector<Finding>& findings) {
  std::optional<OutputLayers> known_outputs;
  for (const Call* call : facts.calls("torch.nn.Embedding")) {
    const Value size = facts.argument(*call, "num_embeddings", 0);
    if (size.kind != ValueKind::integer || !is_odd(size.integer) || is_only_loaded(*call)) continue;
    const auto programs = training_programs_of(facts, *call->file);
    if (programs.empty() || is_unused_default(facts, size)) continue;
    if (!known_outputs) known_outputs.emplace(facts);
    const std::vector<OutputLayer> outputs = known_outputs->of(programs, size.integer);
    if (outputs.empty() ? !is_vocabulary(*call, size)
                        : std::ranges::none_of(outputs, [&](const OutputLayer& output) {
                            return is_run(facts, *output.call);
                          })) {
      continue;
    }
    findings.push_back(embedding_finding(*call, size, outputs));
  }
}

// len(tokenizer), len(vocabulary): as large as it happens to be.
bool is_any_length(const Value& size) {
  const Expr* given = resolved(size.expr);
  // len(tokenizer) + new tokens
  const bool is_sum =
      given != nullptr && given->kind == ExprKind::binary && given->word() == "+" && !size.known();
  const auto is_length = [](const Expr* part) {
    const Expr* made = resolved(part);
    return made != nullptr && made->call() != nullptr && made->call()->name == "len";
  };
  return is_length(given) ||
         (is_sum && std::any_of(given->children().begin(), given->children().end(), is_length));
}

// A text encoder without an output layer gains nothing.
bool is_encoder(const Call& call) {
  const std::string receiver = lower(receiver_text(call));
  return receiver.find("encoder") != std::string::npos ||
         receiver.find("clip") != std::string::npos;
}

void check_resizing(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const Call* call : facts.method_calls("resize_token_embeddings")) {
    if (!trains_on_gpu(facts, *call->file) || call->unknown_arguments) continue;
    if (call->receiver == nullptr || is_encoder(*call)) continue;
    if (call->argument("pad_to_multiple_of", 1) != nullptr) continue;
    const Value size = facts.argument(*call, "new_num_tokens", 0);
    const bool is_wrong_number = size.kind == ValueKind::integer && is_odd(size.integer);
    if (!is_wrong_number && !is_any_length(size)) continue;
    if (!is_reached_by_default(facts, *call)) continue;
    Fix fix{"Pass pad_to_multiple_of=64", Exactness::changes_training};
    add_edit(add_argument(*call, "pad_to_multiple_of", "64"), fix);
    Finding finding =
        finding_at(*call,
                   fmt::format("the embeddings are resized to {}, which is rarely a multiple of 8",
                               is_wrong_number ? std::to_string(size.integer)
                                               : code_text(*call->file, size.expr)),
                   std::move(fix));
    if (!is_wrong_number) finding.own_level = Level::info;  // of how many entries is not known
    finding.evidence = {
        Evidence::published("pad the vocabulary to a multiple of 8",
                            "NVIDIA, Tips for Optimizing GPU Performance Using Tensor Cores"),
        Evidence::published("pad_to_multiple_of",
                            "transformers documentation, resize_token_embeddings")};
    findings.push_back(std::move(finding));
  }
}

}  // namespace odd_vocabulary_in_source

std::vector<Finding> odd_vocabularies_in_source(const source::SourceFacts& facts) {
  std::vector<Finding> findings;
  odd_vocabulary_in_source::check_embeddings(facts, findings);
  odd_vocabulary_in_source::check_resizing(facts, findings);
  return findings;
}

}  // namespace rooftile
