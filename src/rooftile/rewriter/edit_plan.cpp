#include "rooftile/rewriter/edit_plan.h"

#include <algorithm>

namespace rooftile {
namespace {

bool touch(const TextEdit& a, const TextEdit& b) {
  return a.file == b.file && a.begin <= b.end && b.begin <= a.end;
}

// An import, for example, that several fixes need.
bool is_shared_line(const TextEdit& a, const TextEdit& b) {
  return a == b && a.begin == a.end && a.replacement.ends_with('\n');
}

class Planner {
 public:
  bool fits(const Fix& fix) const {
    return std::ranges::all_of(fix.edits, [&](const TextEdit& edit) {
      const auto file = plan.by_file.find(edit.file);
      return file == plan.by_file.end() ||
             std::ranges::none_of(file->second, [&](const TextEdit& taken) {
               return touch(edit, taken) && !is_shared_line(edit, taken);
             });
    });
  }

  void take(const Fix& fix) {
    for (const TextEdit& edit : fix.edits) {
      std::vector<TextEdit>& edits = plan.by_file[edit.file];
      const bool is_there = std::ranges::any_of(
          edits, [&](const TextEdit& taken) { return is_shared_line(edit, taken); });
      if (!is_there) edits.push_back(edit);
    }
  }

  EditPlan plan;
};

}  // namespace

EditPlan plan_edits(const std::vector<Finding>& findings, bool with_unsafe,
                    const std::set<std::string>& frozen_files) {
  Planner planner;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Fix& fix = findings[i].fix;
    if (fix.edits.empty()) continue;
    const bool is_frozen = std::ranges::any_of(
        fix.edits, [&](const TextEdit& edit) { return frozen_files.contains(edit.file); });
    if (!fix.safe && !with_unsafe) {
      ++planner.plan.unsafe;
    } else if (is_frozen) {
      ++planner.plan.frozen;
    } else if (!planner.fits(fix)) {
      ++planner.plan.overlapping;
    } else {
      planner.take(fix);
      planner.plan.fixed.push_back(i);
    }
  }
  for (auto& [file, edits] : planner.plan.by_file) {
    std::ranges::stable_sort(edits, {},
                             [](const TextEdit& edit) { return std::pair(edit.begin, edit.end); });
  }
  return std::move(planner.plan);
}

Result<std::string> edited_text(std::string_view text, const std::vector<TextEdit>& edits) {
  std::string result;
  std::size_t at = 0;
  for (const TextEdit& edit : edits) {
    if (edit.begin < at || edit.end < edit.begin || edit.end > text.size()) {
      return fail("edits that overlap or lie outside of the text", edit.file);
    }
    result.append(text.substr(at, edit.begin - at)).append(edit.replacement);
    at = edit.end;
  }
  return result.append(text.substr(at));
}

}  // namespace rooftile
