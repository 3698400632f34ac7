#include "rooftile/script/reach/path.h"

#include <algorithm>
#include <unordered_map>

#include "rooftile/script/reach/guards.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr std::size_t kMaxEarlier = 500;  // statements of a block that are asked for early exits

bool is_among(std::span<const Statement* const> block, const Statement& one) {
  return std::ranges::find(block, &one) != block.end();
}

// `if self.table is not None and n <= len(self.table): return`, and then `self.table = …`: what
// follows fills what is kept.
bool asks_for_kept(const Expr& condition, std::span<const Statement* const> rest) {
  if (condition.kind == ExprKind::logical && condition.word() == "and") {
    return std::ranges::any_of(condition.children(),
                               [&](const Expr* part) { return asks_for_kept(*part, rest); });
  }
  const bool asks = condition.kind == ExprKind::comparison && condition.word() == "is not" &&
                    condition.children()[1]->kind == ExprKind::none &&
                    condition.children()[0]->kind == ExprKind::attribute;
  return asks && std::ranges::any_of(rest, [&](const Statement* each) {
           return each->kind == StatementKind::assignment &&
                  each->file->slice(each->target->range) ==
                      each->file->slice(condition.children()[0]->range);
         });
}

// Steps from the inside outwards.
class PathFinder {
 public:
  explicit PathFinder(const SourceFacts& facts) : facts_(facts) {}

  Path find(const Statement& start) {
    add_early_exits(start);
    const Statement* inner = &start;
    for (const Statement* outer = start.parent; outer != nullptr; outer = outer->parent) {
      if (outer->kind == StatementKind::function || outer->kind == StatementKind::class_) break;
      add_guards(*outer, *inner);
      if (outer->loop != nullptr && !is_among(outer->otherwise, *inner)) {
        path_.emplace_back().loop = outer->loop;
      }
      add_early_exits(*outer);
      inner = outer;
    }
    std::ranges::reverse(path_);
    return std::move(path_);
  }

 private:
  void add(const std::vector<Guard>& guards) {
    for (const Guard& guard : guards) path_.emplace_back().guard = guard;
  }

  void add_guards(const Statement& outer, const Statement& inner) {
    if (outer.kind == StatementKind::if_) {
      add(guards_of_condition(facts_, outer.value, &outer, is_among(outer.otherwise, inner)));
    } else if (outer.kind == StatementKind::with_) {
      for (const WithItem& item : outer.items) add({guard_of_manager(item.context, &outer)});
    } else if (outer.kind == StatementKind::handler && outer.word.starts_with("except")) {
      add_exception(outer);
    }
  }

  void add_exception(const Statement& statement) {
    Guard& guard = path_.emplace_back().guard;
    guard.kind = GuardKind::exception;
    guard.statement = &statement;
  }

  // `if step % 100: continue` above guards what follows, and so does a return in a function that is
  // called on each step. What ends the loop says nothing about the passes before. Behind `with
  // ignored(): return f(x)` goes on who met an exception.
  void add_early_exits(const Statement& statement) {
    const auto all = before(statement);
    for (const Statement* earlier : all.last(std::min(all.size(), kMaxEarlier))) {
      if (earlier->body.empty()) continue;
      const StatementKind exit = earlier->body.back()->kind;
      const bool may_raise =
          earlier->kind == StatementKind::with_ || earlier->kind == StatementKind::try_;
      if (may_raise && exit == StatementKind::return_) add_exception(*earlier);
      if (earlier->kind != StatementKind::if_) continue;
      const bool skips = exit == StatementKind::continue_ ||
                         (exit == StatementKind::return_ && loop_around(earlier) == nullptr);
      if (!skips || !earlier->otherwise.empty()) continue;
      if (earlier->value != nullptr && asks_for_kept(*earlier->value, after(*earlier))) {
        Guard& guard = path_.emplace_back().guard;
        guard.kind = GuardKind::once;
        guard.expr = earlier->value;
        guard.statement = earlier;
      } else {
        add(guards_of_condition(facts_, earlier->value, earlier, true));
      }
    }
  }

  const SourceFacts& facts_;
  Path path_;
};

struct Paths {
  std::unordered_map<const Statement*, Path> by_statement;
};

}  // namespace

const Path& path_to(const SourceFacts& facts, const Statement& statement) {
  auto& known = facts.store().kept<Paths>().by_statement;
  if (!facts.store().is_complete) known.erase(&statement);
  const auto [place, is_new] = known.try_emplace(&statement);
  if (is_new) place->second = PathFinder(facts).find(statement);
  return place->second;
}

std::vector<Guard> inline_guards(const SourceFacts& facts, const Call& call) {
  std::vector<Guard> all;
  const Expr* inner = call.expr;
  for (const Expr* outer = inner->parent; outer != nullptr; outer = outer->parent) {
    std::vector<Guard> guards;
    if (outer->kind == ExprKind::conditional && outer->children().size() == 3 &&
        inner != outer->children()[1]) {
      guards = guards_of_condition(facts, outer->children()[1], call.statement,
                                   inner == outer->children()[2]);
    } else if (outer->kind == ExprKind::logical && outer->word() != "not" &&
               inner != outer->children()[0]) {
      guards =
          guards_of_condition(facts, outer->children()[0], call.statement, outer->word() == "or");
    }
    all.insert(all.begin(), guards.begin(), guards.end());
    inner = outer;
  }
  return all;
}

Path path_to(const SourceFacts& facts, const Call& call) {
  Path path = path_to(facts, *call.statement);
  for (const Guard& guard : inline_guards(facts, call)) path.emplace_back().guard = guard;
  return path;
}

}  // namespace rooftile::source
