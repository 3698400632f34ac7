#include "rooftile/script/reach/refused.h"

#include <algorithm>

#include "rooftile/script/reach/path.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

bool takes(const FunctionDef& function, std::string_view keyword) {
  return std::ranges::any_of(function.parameters, [&](const Parameter& parameter) {
    return parameter.double_starred || (!parameter.starred && parameter.name == keyword);
  });
}

bool is_plain(const ClassDef& def) {
  return std::ranges::all_of(lineage(&def), [](const ClassDef* each) {
    return each->decorators.empty() && each->method("__new__") == nullptr;
  });
}

// By the full name of a function or class: which method an object has may only be a guess.
bool is_known(const Call& call) {
  const FunctionDef* target = call.target;
  if (target == nullptr || !target->decorators.empty() || target->outer != nullptr) return false;
  const ClassDef* def = target->class_def;
  if (def == nullptr) return target->full_name == call.name;
  const ClassDef* made = call.expr->type->class_def;
  return target->name == "__init__" && made != nullptr && made->full_name == call.name &&
         is_plain(*made);
}

bool is_refused(const Call& call) {
  return is_known(call) && std::ranges::any_of(call.arguments, [&](const Argument& argument) {
           const bool is_written =
               !argument.name.empty() && !argument.unpacked && !argument.followed;
           return is_written && !takes(*call.target, argument.name);
         });
}

}  // namespace

bool is_refused(const SourceFacts& facts, const FunctionDef& function) {
  return std::ranges::any_of(function.calls, [&](const Call* call) {
    return is_refused(*call) && path_to(facts, *call).empty();
  });
}

bool lacks_module(const SourceFacts& facts, const Program& program) {
  const auto& lacking = facts.store().kept<LackingModules>().files;
  return !lacking.empty() && std::ranges::any_of(program.files, [&](const File* file) {
    return lacking.contains(file);
  });
}

}  // namespace rooftile::source
