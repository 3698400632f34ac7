// Changes that make a network fit, in words.
#include <fmt/format.h>

#include "rooftile/analysis/memory/fit_changes.h"
#include "rooftile/analysis/memory/spreading.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// Sums over all GPUs in every layer need the links within a node.
std::string tensor_parallel_text(std::int64_t gpus) {
  if (gpus <= kMostLinkedGpus) return fmt::format("{} GPUs with tensor parallelism", gpus);
  return fmt::format(
      "{} GPUs in nodes of {}, with tensor parallelism in a node and {} pipeline "
      "stages over the nodes",
      gpus, kMostLinkedGpus, gpus / kMostLinkedGpus);
}

std::string words(FitBy by, const FitChange& change) {
  switch (by) {
    case FitBy::shorter_input:
      return fmt::format("inputs of at most {} positions, longer ones in chunks", change.length);
    case FitBy::smaller_batch:
      return fmt::format("batch {}", change.batch);
    case FitBy::chunked_loss:
      return "fused or chunked cross-entropy";
    case FitBy::checkpointing:
      return "activation checkpointing";
    case FitBy::autocast:
      return "16-bit autocast";
    case FitBy::eight_bit_states:
      return "8-bit optimizer states";
    case FitBy::half_precision:
      return "weights in 16 bits";
    case FitBy::eight_bit_cache:
      return "a KV cache in 8 bits";
    case FitBy::eight_bits:
      return "weights in 8 bits";
    case FitBy::four_bits:
      return "weights in 4 bits";
    case FitBy::sharding:
      return fmt::format("{} GPUs with FSDP or ZeRO-3", change.gpus);
    case FitBy::tensor_parallel:
      return tensor_parallel_text(change.gpus);
    case FitBy::expert_parallel:
      break;
  }
  return fmt::format("{} GPUs with expert parallelism", change.gpus);
}

// "a, b and c"
std::string change_text(const FitChange& change) {
  std::string text;
  for (std::size_t i = 0; i < change.by.size(); ++i) {
    if (i > 0) text += i + 1 == change.by.size() ? " and " : ", ";
    text += words(change.by[i], change);
  }
  return text;
}

// The time of a pass over today's, empty where it is not known: layers spread over GPUs share the
// work, everything else adds to it.
std::string time_text(const FitChange& change, Seconds pass) {
  if (!change.cost || pass <= Seconds()) return "";
  const double added = change.cost->expected / pass;
  if (change.uses(FitBy::tensor_parallel) || change.uses(FitBy::expert_parallel)) {
    // Other weights or caches take another time.
    if (change.by.size() > 1) return "";
    return fmt::format(", about {} of the time a pass would take on one",
                       share_text(change.pass_share + added));
  }
  // Communication may overlap, and fused kernels do not compute the logits again.
  const bool is_bound = change.uses(FitBy::sharding) || change.uses(FitBy::chunked_loss);
  return fmt::format(", {}{} time", is_bound ? "at most +" : "+", share_text(added));
}

// "activation checkpointing (38.2 GiB, +33 % time)"
std::string priced(const FitChange& change, Seconds pass) {
  return fmt::format("{} ({}{}{}{})", change_text(change), bytes_text(change.per_gpu),
                     change.gpus > 1 ? " each" : "", change.fit == Fit::tight ? ", tight" : "",
                     time_text(change, pass));
}

}  // namespace

std::string fit_text(const std::vector<FitChange>& changes, Seconds pass) {
  if (changes.empty()) return "Use a smaller model or GPUs with more memory";
  std::vector<std::string> parts;
  for (const FitChange& change : changes) parts.push_back(priced(change, pass));
  return (parts.size() == 1 ? "This makes it fit: " : "Any of these makes it fit: ") +
         join(parts, "; ");
}

}  // namespace rooftile
