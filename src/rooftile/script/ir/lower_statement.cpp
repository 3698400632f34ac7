// Statements of lower_function.h.
#include <algorithm>
#include <cctype>

#include "rooftile/base/text.h"
#include "rooftile/script/ir/lower_function.h"

namespace rooftile::script {

using source::ExprKind;
using source::StatementKind;

LowerFunction::LowerFunction(const source::File& file, const PendingBody& body,
                             const Function* outer, std::uint32_t index,
                             std::vector<PendingBody>& pending)
    : file_(file),
      body_(body),
      index_(index),
      pending_(pending),
      builder_(body.kind, body.name, outer) {}

std::unique_ptr<const Function> LowerFunction::run() {
  Function& function = builder_.function();
  function.file = &file_;
  function.def = body_.def;
  if (body_.def != nullptr) {
    for (const source::Parameter& parameter : body_.def->parameters) {
      builder_.write(parameter.name, builder_.add(Op::parameter, parameter.name, {}));
    }
  }
  if (body_.lambda != nullptr) {
    const ValueId result = value(body_.lambda->children()[0]);
    function.results.push_back(builder_.add(Op::result, {}, {result}));
    builder_.leave();
  } else {
    block(body_.class_def != nullptr ? body_.class_def->body
          : body_.def != nullptr     ? body_.def->body
                                     : file_.body);
    if (builder_.is_open()) function.end = builder_.current();
  }
  std::vector<ValueId> forward;
  std::unique_ptr<Function> finished = builder_.finish(forward);
  for (ExprValue& each : places_) each.value = forward[each.value];
  // Of a target that is read first, as in `x += 1`, what it is given stands last.
  std::ranges::stable_sort(places_, {}, &ExprValue::expr);
  finished->places = std::move(places_);
  return finished;
}

void LowerFunction::block(Block statements) {
  for (const Statement* each : statements) statement(*each);
}

void LowerFunction::statement(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::assignment:
      assignment(statement);
      break;
    case StatementKind::if_:
      return if_statement(statement);
    case StatementKind::for_:
      return for_loop(statement);
    case StatementKind::while_:
      return while_loop(statement);
    case StatementKind::with_:
      return with_statement(statement);
    case StatementKind::try_:
      return try_statement(statement);
    case StatementKind::match_:
      return match_statement(statement);
    case StatementKind::function:
      return function_definition(statement);
    case StatementKind::class_:
      return class_definition(statement);
    case StatementKind::import_:
      imports(statement);
      break;
    case StatementKind::global_:
      return globals(statement);
    case StatementKind::delete_:
      del(*statement.value);
      break;
    case StatementKind::return_:
    case StatementKind::raise_:
    case StatementKind::break_:
    case StatementKind::continue_:
      return leave(statement);
    default:
      if (statement.value != nullptr) value(statement.value);
      block(statement.body);
  }
  may_raise();
}

// Each statement of a `try` may end in a handler: that sees what was assigned until then.
void LowerFunction::may_raise() {
  if (handlers_.empty() || !builder_.is_open()) return;
  const BlockId after = builder_.add_block(false);
  builder_.branch(kNone, after, handlers_.back());
  builder_.seal(after);
  open(after);
}

void LowerFunction::assignment(const Statement& statement) {
  if (statement.value == nullptr) return;  // `x: int`
  ValueId result = value(statement.value);
  if (statement.word != "=") {  // `+=`: the operator without its `=`
    const std::string_view sign = statement.word.substr(0, statement.word.size() - 1);
    result = builder_.add(Op::operation, sign, {value(statement.target), result});
  }
  assign(*statement.target, result);
}

void LowerFunction::if_statement(const Statement& statement) {
  const ValueId condition = value(statement.value);
  const BlockId yes = builder_.add_block(false);
  const BlockId no = builder_.add_block(false);
  const BlockId after = builder_.add_block(false);
  builder_.branch(condition, yes, no);
  builder_.seal(yes);
  builder_.seal(no);
  open(yes);
  block(statement.body);
  builder_.jump(after);
  open(no);
  block(statement.otherwise);
  builder_.jump(after);
  builder_.seal(after);
  open(after);
}

void LowerFunction::loop_body(const Statement& statement, BlockId head, BlockId after) {
  loops_.push_back({head, after});
  block(statement.body);
  loops_.pop_back();
  builder_.jump(head);
  builder_.seal(head);
}

void LowerFunction::for_loop(const Statement& statement) {
  const ValueId iterated = value(statement.value);
  const BlockId head = builder_.add_block(false);
  const BlockId body = builder_.add_block(false);
  const BlockId done = builder_.add_block(false);
  const BlockId after = builder_.add_block(false);
  builder_.jump(head);
  open(head);
  builder_.branch(kNone, body, done);
  builder_.seal(body);
  open(body);
  const ValueId item = builder_.add(Op::iterate, {}, {iterated});
  assign(*statement.target, item);
  loop_body(statement, head, after);
  builder_.seal(done);
  open(done);
  block(statement.otherwise);
  builder_.jump(after);
  builder_.seal(after);
  open(after);
}

void LowerFunction::while_loop(const Statement& statement) {
  const BlockId head = builder_.add_block(false);
  const BlockId body = builder_.add_block(false);
  const BlockId done = builder_.add_block(false);
  const BlockId after = builder_.add_block(false);
  builder_.begin();  // else a head that is never reached has itself before it, and nothing else
  builder_.jump(head);
  open(head);
  const ValueId condition = value(statement.value);
  builder_.branch(condition, body, done);
  builder_.seal(body);
  open(body);
  loop_body(statement, head, after);
  builder_.seal(done);
  open(done);
  block(statement.otherwise);
  builder_.jump(after);
  builder_.seal(after);
  open(after);
}

void LowerFunction::with_statement(const Statement& statement) {
  for (const source::WithItem& item : statement.items) {
    const ValueId entered = builder_.add(Op::enter, {}, {value(item.context)});
    if (item.target != nullptr) assign(*item.target, entered);
  }
  may_raise();
  block(statement.body);
}

// A `finally` is entered from the end of all else; where the body is left by return it is not.
void LowerFunction::try_statement(const Statement& statement) {
  const BlockId raised = builder_.add_block(false);
  const BlockId body = builder_.add_block(false);
  const BlockId after = builder_.add_block(false);
  builder_.branch(kNone, body, raised);
  builder_.seal(body);
  open(body);
  handlers_.push_back(raised);
  block(statement.body);
  handlers_.pop_back();
  const Statement* last = nullptr;
  for (const Statement* each : statement.otherwise) {
    if (each->word == "else") block(each->body);
    if (each->word == "finally") last = each;
  }
  builder_.jump(after);
  builder_.seal(raised);
  open(raised);
  std::vector<BlockId> ends;
  except_handlers(statement.otherwise, ends);
  for (const BlockId end : ends) {
    open(end);
    builder_.jump(after);
  }
  builder_.seal(after);
  open(after);
  if (last != nullptr) block(last->body);
}

// The current block leads to each of them.
void LowerFunction::except_handlers(Block handlers, std::vector<BlockId>& ends) {
  for (const Statement* each : handlers) {
    if (!each->word.starts_with("except")) continue;
    const BlockId handler = builder_.add_block(false);
    const BlockId others = builder_.add_block(false);
    builder_.branch(kNone, handler, others);
    builder_.seal(handler);
    builder_.seal(others);
    open(handler);
    forget_names(*each, " as ");
    block(each->body);
    ends.push_back(builder_.current());
    open(others);
  }
  // A `try` without handlers: what is raised goes on; others may be raised too.
  if (ends.empty()) ends.push_back(builder_.current());
}

void LowerFunction::match_statement(const Statement& statement) {
  value(statement.value);
  const BlockId after = builder_.add_block(false);
  for (const Statement* each : statement.body) {
    const BlockId yes = builder_.add_block(false);
    const BlockId no = builder_.add_block(false);
    builder_.branch(kNone, yes, no);
    builder_.seal(yes);
    builder_.seal(no);
    open(yes);
    forget_names(*each, "case");
    block(each->body);
    builder_.jump(after);
    open(no);
  }
  builder_.jump(after);
  builder_.seal(after);
  open(after);
}

// The patterns of a case and the name of an exception are not in the syntax: every name in the head
// behind the word may be bound to something new.
void LowerFunction::forget_names(const Statement& statement, std::string_view after) {
  const std::uint32_t end =
      statement.body.empty() ? statement.range.end : statement.body.front()->range.begin;
  std::string_view head = file_.slice({statement.range.begin, end});
  const std::size_t start = head.find(after);
  if (start == std::string_view::npos) return;
  head.remove_prefix(start + after.size());
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (std::size_t i = 0; i < head.size();) {
    std::size_t last = i;
    while (last < head.size() && is_part(head[last])) ++last;
    if (last > i && std::isdigit(static_cast<unsigned char>(head[i])) == 0) {
      write(head.substr(i, last - i), builder_.add(Op::unknown, {}, {}));
    }
    i = last + 1;
  }
}

ValueId LowerFunction::decorated(std::span<const Expr* const> decorators, ValueId made) {
  for (auto each = decorators.rbegin(); each != decorators.rend(); ++each) {
    made = builder_.add(Op::decorated, {}, {value(*each), made});
  }
  return made;
}

ValueId LowerFunction::closure(const source::FunctionDef& def, std::string_view name,
                               const Expr* lambda) {
  std::vector<ValueId> defaults;
  for (const source::Parameter& parameter : def.parameters) {
    if (parameter.annotation != nullptr) value(parameter.annotation);
    if (parameter.default_value != nullptr) defaults.push_back(value(parameter.default_value));
  }
  pending_.push_back({.kind = lambda == nullptr ? FunctionKind::function : FunctionKind::lambda,
                      .name = name,
                      .outer = index_,
                      .def = &def,
                      .class_def = nullptr,
                      .lambda = lambda});
  return builder_.add(Op::closure, name, defaults, lambda);
}

void LowerFunction::function_definition(const Statement& statement) {
  const source::FunctionDef& def = *statement.function_def;
  write(def.name, decorated(def.decorators, closure(def, def.full_name, nullptr)));
}

void LowerFunction::class_definition(const Statement& statement) {
  const source::ClassDef& def = *statement.class_def;
  pending_.push_back({.kind = FunctionKind::class_body,
                      .name = def.full_name,
                      .outer = index_,
                      .def = nullptr,
                      .class_def = &def,
                      .lambda = nullptr});
  const ValueId made = builder_.add(Op::definition, def.full_name, values(def.bases));
  write(def.name, decorated(def.decorators, made));
}

void LowerFunction::imports(const Statement& statement) {
  for (const source::ImportedName& each : statement.imports) {
    if (each.local == "*") continue;
    write(each.local, builder_.add(Op::import, each.full_name, {}));
  }
}

void LowerFunction::globals(const Statement& statement) {
  std::string_view text = file_.slice(statement.range);
  text.remove_prefix(std::min(text.find(' '), text.size()));
  for (const std::string_view part : split(text, ',')) shared_.insert(trim(part));
}

void LowerFunction::del(const Expr& target) {
  if (target.kind == ExprKind::name)
    return write(target.word(), builder_.add(Op::undefined, {}, {}));
  if (target.kind != ExprKind::tuple) value(&target);
  if (target.kind != ExprKind::tuple) return;
  for (const Expr* each : target.children()) del(*each);
}

void LowerFunction::leave(const Statement& statement) {
  const ValueId given = statement.value == nullptr ? kNone : value(statement.value);
  if (!builder_.is_open()) open(builder_.add_block(true));
  if (statement.kind == StatementKind::return_) {
    const ValueId result = given == kNone ? builder_.add(Op::constant, "None", {}) : given;
    builder_.function().results.push_back(builder_.add(Op::result, {}, {result}));
  }
  const bool raises = statement.kind == StatementKind::raise_ && !handlers_.empty();
  if (raises) builder_.jump(handlers_.back());
  if (!loops_.empty() && statement.kind == StatementKind::break_)
    builder_.jump(loops_.back().after);
  if (!loops_.empty() && statement.kind == StatementKind::continue_) {
    builder_.jump(loops_.back().head);
  }
  builder_.leave();
}

}  // namespace rooftile::script
