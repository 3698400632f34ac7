// Expressions of lower_function.h.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/script/ir/lower_function.h"

namespace rooftile::script {

using source::ExprKind;

std::string_view LowerFunction::keep(std::string text) {
  return builder_.function().words.emplace_back(std::move(text));
}

// The name of a comprehension's variable is another one than that of the function.
std::string_view LowerFunction::in_scope(std::string_view name) const {
  const auto found = std::find_if(inner_names_.rbegin(), inner_names_.rend(),
                                  [&](const auto& each) { return each.first == name; });
  return found == inner_names_.rend() ? name : found->second;
}

void LowerFunction::write(std::string_view name, ValueId value) {
  if (shared_.contains(name)) {
    builder_.add(Op::store_free, name, {value});
  } else if (const std::string_view hidden = in_scope(name); hidden != name) {
    builder_.write_hidden(hidden, name, value);
  } else {
    builder_.write(name, value);
  }
}

ValueId LowerFunction::name(const Expr& expr) {
  const std::string_view word = in_scope(expr.word());
  const ValueId found =
      shared_.contains(word) ? builder_.add(Op::free, word, {}) : builder_.read(word);
  return builder_.add(Op::name, expr.word(), {found}, &expr);
}

std::vector<ValueId> LowerFunction::values(std::span<const Expr* const> exprs) {
  std::vector<ValueId> all;
  all.reserve(exprs.size());
  for (const Expr* each : exprs) all.push_back(value(each));
  return all;
}

ValueId LowerFunction::all_of(Op op, std::string_view word, const Expr& expr) {
  const std::size_t mark = stack_.size();
  for (const Expr* each : expr.children()) {
    const ValueId made = value(each);
    stack_.push_back(made);
  }
  const ValueId all = builder_.add(op, word, std::span(stack_).subspan(mark), &expr);
  stack_.resize(mark);
  return all;
}

ValueId LowerFunction::value(const Expr* expr) {
  const ValueId found = made(*expr);
  places_.push_back({expr, found});
  return found;
}

ValueId LowerFunction::made(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::name:
      return name(expr);
    case ExprKind::attribute:
      return all_of(Op::attribute, expr.word(), expr);
    case ExprKind::call:
      return all_of(Op::call, {}, expr);
    case ExprKind::subscript:
      return all_of(Op::item, {}, expr);
    case ExprKind::format:
      return all_of(Op::format, expr.word(), expr);
    case ExprKind::text:
    case ExprKind::integer:
    case ExprKind::real:
    case ExprKind::boolean:
    case ExprKind::none:
    case ExprKind::ellipsis:
      return builder_.add(Op::constant, file_.slice(expr.range), {}, &expr);
    case ExprKind::slice:
      return all_of(Op::sequence, "slice", expr);
    case ExprKind::list:
      return all_of(Op::sequence, "list", expr);
    case ExprKind::tuple:
      return all_of(Op::sequence, "tuple", expr);
    case ExprKind::set:
      return all_of(Op::sequence, "set", expr);
    case ExprKind::dict:
      return all_of(Op::sequence, "dict", expr);
    case ExprKind::unary:
    case ExprKind::binary:
    case ExprKind::comparison:
      return all_of(Op::operation, expr.word(), expr);
    case ExprKind::logical:
      return expr.word() == "not" ? all_of(Op::operation, "not", expr) : logical(expr);
    case ExprKind::conditional:
      return conditional(expr);
    case ExprKind::lambda:
      return lambda(expr);
    case ExprKind::comprehension:
      return comprehension(expr);
    case ExprKind::starred:
      return all_of(Op::starred, expr.word(), expr);
    case ExprKind::yield:
      builder_.function().is_generator = true;
      return all_of(Op::wait, "yield", expr);
    case ExprKind::await:
      return all_of(Op::wait, "await", expr);
    case ExprKind::walrus: {
      if (expr.children().size() != 2) return all_of(Op::unknown, {}, expr);
      const ValueId given = value(expr.children()[1]);
      assign(*expr.children()[0], given);
      return given;
    }
    default:
      return all_of(Op::unknown, {}, expr);
  }
}

ValueId LowerFunction::lambda(const Expr& expr) {
  return closure(*expr.function(), "lambda", &expr);
}

ValueId LowerFunction::conditional(const Expr& expr) {
  if (expr.children().size() != 3) return all_of(Op::unknown, {}, expr);
  const ValueId condition = value(expr.children()[1]);
  const BlockId yes = builder_.add_block(false);
  const BlockId no = builder_.add_block(false);
  const BlockId after = builder_.add_block(false);
  builder_.branch(condition, yes, no);
  builder_.seal(yes);
  builder_.seal(no);
  open(yes);
  const std::string_view chosen = keep(fmt::format(".{}", builder_.function().words.size()));
  builder_.write_hidden(chosen, {}, value(expr.children()[0]));
  builder_.jump(after);
  open(no);
  builder_.write_hidden(chosen, {}, value(expr.children()[2]));
  builder_.jump(after);
  builder_.seal(after);
  open(after);
  return builder_.read(chosen);
}

// `a and b`: where a is false it is the value.
ValueId LowerFunction::logical(const Expr& expr) {
  const std::string_view chosen = keep(fmt::format(".{}", builder_.function().words.size()));
  const BlockId after = builder_.add_block(false);
  for (std::size_t i = 0; i < expr.children().size(); ++i) {
    const ValueId one = value(expr.children()[i]);
    builder_.write_hidden(chosen, {}, one);
    if (i + 1 == expr.children().size()) break;
    const BlockId next = builder_.add_block(false);
    if (expr.word() == "and") {
      builder_.branch(one, next, after);
    } else {
      builder_.branch(one, after, next);
    }
    builder_.seal(next);
    open(next);
  }
  builder_.jump(after);
  builder_.seal(after);
  open(after);
  return builder_.read(chosen);
}

ValueId LowerFunction::comprehension(const Expr& expr) {
  const auto is_clause = [](const Expr* part) { return part->kind == ExprKind::for_clause; };
  const auto first = std::ranges::find_if(expr.children(), is_clause);
  const std::size_t names = inner_names_.size();
  ++comprehensions_;
  const ValueId made =
      clauses(expr.children(), static_cast<std::size_t>(first - expr.children().begin()), expr);
  --comprehensions_;
  inner_names_.resize(names);
  return made;
}

namespace {

void add_names(const source::Expr& target, std::vector<std::string_view>& names) {
  if (target.kind == ExprKind::name) names.push_back(target.word());
  const bool has_parts = target.kind == ExprKind::tuple || target.kind == ExprKind::list ||
                         target.kind == ExprKind::starred;
  for (std::size_t i = 0; has_parts && i < target.children().size(); ++i) {
    add_names(*target.children()[i], names);
  }
}

}  // namespace

// The clauses and conditions from `next` on, then the element; each clause is a loop around what
// follows.
ValueId LowerFunction::clauses(std::span<const Expr* const> parts, std::size_t next,
                               const Expr& whole) {
  const std::size_t elements = parts[1]->kind == ExprKind::for_clause ? 1 : 2;
  std::vector<std::pair<BlockId, BlockId>> heads;  // and the blocks behind the loops
  for (; next < parts.size(); ++next) {
    const Expr& part = *parts[next];
    const BlockId body = builder_.add_block(false);
    const BlockId done = builder_.add_block(false);
    if (part.kind != ExprKind::for_clause) {  // `if part`
      builder_.branch(value(&part), body, done);
      builder_.seal(body);
      open(body);
      heads.emplace_back(kNone, done);
      continue;
    }
    if (part.children().size() != 2) continue;
    const ValueId iterated = value(part.children()[1]);
    const BlockId head = builder_.add_block(false);
    builder_.jump(head);
    open(head);
    builder_.branch(kNone, body, done);
    builder_.seal(body);
    open(body);
    std::vector<std::string_view> names;
    add_names(*part.children()[0], names);
    for (const std::string_view each : names) {
      inner_names_.emplace_back(each, keep(fmt::format("{}.{}", each, comprehensions_)));
    }
    assign(*part.children()[0], builder_.add(Op::iterate, {}, {iterated}));
    heads.emplace_back(head, done);
  }
  std::vector<ValueId> element = values(parts.first(elements));
  for (auto each = heads.rbegin(); each != heads.rend(); ++each) {
    builder_.jump(each->first == kNone ? each->second : each->first);
    if (each->first != kNone) builder_.seal(each->first);
    builder_.seal(each->second);
    open(each->second);
  }
  return builder_.add(Op::sequence, "comprehension", element, &whole);
}

void LowerFunction::assign(const Expr& target, ValueId given) {
  switch (target.kind) {
    case ExprKind::name:
      places_.push_back({&target, given});
      return write(target.word(), given);
    case ExprKind::tuple:
    case ExprKind::list:
      return unpack(target, given);
    case ExprKind::starred:
      assign(*target.children()[0], given);
      return;
    case ExprKind::attribute: {
      places_.push_back({&target, given});
      builder_.add(Op::store_attribute, target.word(), {value(target.children()[0]), given},
                   &target);
      return;
    }
    case ExprKind::subscript: {
      std::vector<ValueId> operands = values(target.children());
      operands.push_back(given);
      places_.push_back({&target, given});
      builder_.add(Op::store_item, {}, operands, &target);
      return;
    }
    default:
      value(&target);
  }
}

void LowerFunction::unpack(const Expr& target, ValueId given) {
  places_.push_back({&target, given});
  for (std::size_t i = 0; i < target.children().size(); ++i) {
    const Expr& part = *target.children()[i];
    // Behind a starred part the places count from the end, which is not known.
    const std::string_view place = part.kind == ExprKind::starred ? "*" : keep(std::to_string(i));
    const bool is_behind = std::any_of(
        target.children().begin(), target.children().begin() + static_cast<std::ptrdiff_t>(i),
        [](const Expr* each) { return each->kind == ExprKind::starred; });
    assign(part, builder_.add(Op::element, is_behind ? "*" : place, {given}));
  }
}

}  // namespace rooftile::script
