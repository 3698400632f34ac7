// A fact behind a finding, and where it is from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rooftile {

enum class EvidenceKind : std::uint8_t {
  measured,   // in the trace that was read
  published,  // by others, in the document that `source` names
  estimated,  // by the time model, or computed from shapes and data sheets
  found,      // in the script, model or trace as it is written
  to_check,   // what settles the rest
};
std::string_view to_string(EvidenceKind kind);

struct Evidence {
  EvidenceKind kind = EvidenceKind::found;
  std::string text;         // may be empty where a document says it all
  std::string source = {};  // title of the document, with the section

  static Evidence measured(std::string text);
  static Evidence published(std::string source);
  static Evidence published(std::string text, std::string source);
  static Evidence estimated(std::string text);
  static Evidence found(std::string text);
  static Evidence to_check(std::string text);

  bool operator==(const Evidence&) const = default;
};

// One line: "measured: 3 runs of kernel x", "up to 3x: PyTorch Performance Tuning Guide".
std::string to_string(const Evidence& evidence);

}  // namespace rooftile
