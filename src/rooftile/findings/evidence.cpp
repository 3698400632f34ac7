#include "rooftile/findings/evidence.h"

#include <utility>

namespace rooftile {

std::string_view to_string(EvidenceKind kind) {
  switch (kind) {
    case EvidenceKind::measured:
      return "measured";
    case EvidenceKind::published:
      return "published";
    case EvidenceKind::estimated:
      return "estimated";
    case EvidenceKind::found:
      return "found";
    case EvidenceKind::to_check:
      return "to_check";
  }
  return "";
}

Evidence Evidence::measured(std::string text) { return {EvidenceKind::measured, std::move(text)}; }

Evidence Evidence::published(std::string source) {
  return {EvidenceKind::published, "", std::move(source)};
}

Evidence Evidence::published(std::string text, std::string source) {
  return {EvidenceKind::published, std::move(text), std::move(source)};
}

Evidence Evidence::estimated(std::string text) {
  return {EvidenceKind::estimated, std::move(text)};
}

Evidence Evidence::found(std::string text) { return {EvidenceKind::found, std::move(text)}; }

Evidence Evidence::to_check(std::string text) { return {EvidenceKind::to_check, std::move(text)}; }

std::string to_string(const Evidence& evidence) {
  if (evidence.kind == EvidenceKind::measured) return "measured: " + evidence.text;
  if (evidence.source.empty()) return evidence.text;
  return evidence.text.empty() ? evidence.source : evidence.text + ": " + evidence.source;
}

}  // namespace rooftile
