#include "rooftile/workload/source_facts.h"

#include <algorithm>

#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

template <class Map>
const typename Map::mapped_type& found_in(const Map& map, const typename Map::key_type& key) {
  static const typename Map::mapped_type none;
  const auto found = map.find(key);
  return found == map.end() ? none : found->second;
}

// `calls` are sorted by file, so those of a small program are found without looking at all.
void add_those_in(const Program& program, const std::vector<const Call*>& calls,
                  std::vector<const Call*>& all) {
  constexpr std::size_t kFewCalls = 64;
  if (calls.size() < kFewCalls) {
    std::ranges::copy_if(calls, std::back_inserter(all),
                         [&](const Call* call) { return program.has(*call->file); });
    return;
  }
  for (const File* file : program.files) {
    const auto is_before = [&](const Call* call) { return call->file->path < file->path; };
    auto own = std::partition_point(calls.begin(), calls.end(), is_before);
    for (; own != calls.end() && (*own)->file == file; ++own) all.push_back(*own);
  }
}

bool stands_before(const Call* a, const Call* b) {
  if (a->file != b->file) return a->file->path < b->file->path;
  return a->expr->range.begin < b->expr->range.begin;
}

}  // namespace

namespace {

template <class OwnClass>
std::vector<const ClassDef*> lineage_by(const ClassDef* def, const OwnClass& own_class) {
  constexpr std::size_t kMostClasses = 256;
  std::vector<const ClassDef*> all, open{def};
  while (!open.empty() && all.size() < kMostClasses) {
    const ClassDef* next = open.back();
    open.pop_back();
    if (next == nullptr || std::ranges::find(all, next) != all.end()) continue;
    all.push_back(next);
    for (auto base = next->bases.rbegin(); base != next->bases.rend(); ++base) {
      open.push_back(own_class(**base));
    }
  }
  return all;
}

}  // namespace

std::vector<const ClassDef*> lineage(const Store& store, const ClassDef* def) {
  return lineage_by(def, [&](const Expr& base) -> const ClassDef* {
    const auto own = store.classes_by_name.find(base.full_name());
    return own == store.classes_by_name.end() ? nullptr : own->second;
  });
}

std::vector<const ClassDef*> lineage(const ClassDef* def) {
  return lineage_by(def, [](const Expr& base) { return base.type->class_def; });
}

namespace {

void collect_calls(const Expr* expr, std::vector<const Call*>& calls) {
  if (expr == nullptr) return;
  if (expr->call() != nullptr) calls.push_back(expr->call());
  for (const Expr* child : expr->children()) collect_calls(child, calls);
}

void collect_calls(const Statement& statement, std::vector<const Call*>& calls) {
  if (statement.kind == StatementKind::function || statement.kind == StatementKind::class_) return;
  collect_calls(statement.value, calls);
  collect_calls(statement.target, calls);
  for (const WithItem& item : statement.items) collect_calls(item.context, calls);
  for (const Statement* inner : statement.body) collect_calls(*inner, calls);
  for (const Statement* inner : statement.otherwise) collect_calls(*inner, calls);
}

}  // namespace

void Expr::set_word(std::string_view word) {
  constexpr std::size_t kMaxBytes = (std::size_t{1} << 24U) - 1;
  word_ = word.data();
  word_size_ = static_cast<std::uint32_t>(std::min(word.size(), kMaxBytes)) & kMaxBytes;
}

void Expr::set_children(std::span<const Expr* const> children) {
  child_count_ = static_cast<std::uint32_t>(children.size());
  if (children.size() == 1) {
    child_ = children.front();
  } else {
    children_ = children.data();
  }
}

void Expr::set_call(const Call* call) {
  kind = ExprKind::call;
  call_ = call;
}

void Expr::set_function(const FunctionDef* def) { function_ = def; }

void Expr::set_origin(const NameOrigin* origin) { origin_ = origin; }

void Store::set_origin(Expr& expr, std::string_view full_name, const Statement* binding) {
  if (expr.full_name() == full_name && expr.binding() == binding) return;
  NameOrigin* origin = arena.make<NameOrigin>();
  *origin = {full_name, binding};
  expr.set_origin(origin);
}

SourceFacts::SourceFacts() : store_(std::make_unique<Store>()) {}
SourceFacts::SourceFacts(SourceFacts&&) noexcept = default;
SourceFacts& SourceFacts::operator=(SourceFacts&&) noexcept = default;
SourceFacts::~SourceFacts() = default;

const Type& unknown_type() {
  static const Type type;
  return type;
}

std::size_t TypeHash::operator()(const Type& type) const {
  std::size_t hash =
      static_cast<std::size_t>(type.kind) * 4 + static_cast<std::size_t>(type.residence);
  const auto mix = [&hash](std::size_t value) { hash = hash * 0x9E3779B97F4A7C15U + value; };
  mix(std::hash<const void*>{}(type.made_by));
  mix(std::hash<const void*>{}(type.class_def));
  mix(std::hash<const void*>{}(type.function));
  mix(std::hash<const void*>{}(type.element));
  mix(std::hash<const void*>{}(type.items));
  mix(std::hash<std::string_view>{}(type.name));
  return hash;
}

bool Value::is_true() const {
  switch (kind) {
    case ValueKind::boolean:
      return boolean;
    case ValueKind::integer:
    case ValueKind::real:
      return real != 0.0;
    case ValueKind::text:
      return !text.empty();
    case ValueKind::list:
      return found != nullptr && !found->children().empty();
    case ValueKind::name:
      return true;
    default:
      return false;
  }
}

bool Value::is_false() const { return known() && !is_true(); }

bool Value::is(std::string_view wanted) const {
  return (kind == ValueKind::text || kind == ValueKind::name) && text == wanted;
}

const FunctionDef* ClassDef::method(std::string_view wanted) const {
  const auto found = std::ranges::find(methods, wanted, &FunctionDef::name);
  return found == methods.end() ? nullptr : *found;
}

const Layer* ClassDef::layer(std::string_view attribute) const {
  const auto found = std::ranges::find(layers, attribute, &Layer::attribute);
  return found == layers.end() ? nullptr : &*found;
}

const Argument* Call::argument(std::string_view wanted, int position) const {
  for (const Argument& argument : arguments) {
    if (argument.unpacked) continue;
    const bool matches = argument.name.empty()
                             ? position >= 0 && argument.position == static_cast<unsigned>(position)
                             : argument.name == wanted;
    if (matches) return &argument;
  }
  return nullptr;
}

namespace {

bool is_decorated(const FunctionDef& function, std::string_view word) {
  return std::ranges::any_of(function.decorators,
                             [&](const Expr* each) { return each->word() == word; });
}

// Whether the first parameter is filled without an argument: self, cls, or the context of an
// autograd function's apply().
bool fills_first(const Call& call, const FunctionDef& function) {
  if (function.class_def == nullptr) return false;
  if (function.class_def->is_autograd_function) return call.method != function.name;
  if (is_decorated(function, "staticmethod")) return false;
  // Base.reset(self, x)
  const bool is_of_class = call.receiver != nullptr && call.method == function.name &&
                           call.receiver_type().is(TypeKind::class_);
  return !is_of_class || is_decorated(function, "classmethod");
}

}  // namespace

const Argument* passed_argument(const Call& call, const FunctionDef& function,
                                std::string_view parameter) {
  const auto found = std::ranges::find(function.parameters, parameter, &Parameter::name);
  if (found == function.parameters.end() || found->starred || found->double_starred) return nullptr;
  const auto place = static_cast<int>(found - function.parameters.begin());
  return call.argument(parameter, place - (fills_first(call, function) ? 1 : 0));
}

const Type& Call::receiver_type() const {
  return receiver == nullptr ? unknown_type() : *receiver->type;
}

Place File::place(std::uint32_t byte) const {
  const auto after = std::ranges::upper_bound(line_starts, byte);
  if (after == line_starts.begin()) return {1, byte + 1, 0};
  const auto line = static_cast<std::uint32_t>(after - line_starts.begin());
  Place place{line, byte - *std::prev(after) + 1, 0};
  for (const Cell& cell : cells) {
    if (cell.first_line > line) break;
    place.cell = cell.number;
    place.line = line - cell.first_line + 1;
  }
  return place;
}

std::string_view File::slice(ByteRange range) const {
  if (range.begin > text.size() || range.end < range.begin) return {};
  return std::string_view(text).substr(range.begin, range.end - range.begin);
}

bool File::imports_from(std::string_view package) const {
  return std::ranges::any_of(imports, [&](std::string_view name) {
    return name.starts_with(package) &&
           (name.size() == package.size() || name[package.size()] == '.');
  });
}

const std::vector<const Call*>& SourceFacts::calls(std::string_view full_name) const {
  if (!full_name.ends_with(".*")) return found_in(store_->calls_by_name, full_name);
  const auto known = store_->calls_by_prefix.find(full_name);
  if (known != store_->calls_by_prefix.end()) return known->second;
  const std::string_view prefix = full_name.substr(0, full_name.size() - 1);
  std::vector<const Call*> all;
  for (const auto& [name, calls] : store_->calls_by_name) {
    if (name.starts_with(prefix)) all.insert(all.end(), calls.begin(), calls.end());
  }
  std::ranges::sort(all, stands_before);
  return store_->calls_by_prefix.emplace(store_->intern(full_name), std::move(all)).first->second;
}

std::vector<const Call*> SourceFacts::calls(
    std::initializer_list<std::string_view> full_names) const {
  std::vector<const Call*> all;
  for (const std::string_view name : full_names) {
    const std::vector<const Call*>& some = calls(name);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::ranges::sort(all, stands_before);
  return all;
}

const std::vector<const Call*>& SourceFacts::method_calls(std::string_view method) const {
  return found_in(store_->calls_by_method, method);
}

const std::vector<const Call*>& SourceFacts::constructions(TypeKind kind) const {
  return found_in(store_->calls_by_kind, kind);
}

std::vector<const Call*> SourceFacts::calls_in(
    const Program& program, std::initializer_list<std::string_view> full_names) const {
  std::vector<const Call*> all;
  for (const std::string_view name : full_names) {
    if (name.ends_with(".*")) {
      std::vector<const Call*> some = calls(name);
      std::erase_if(some, [&](const Call* call) { return !program.has(*call->file); });
      all.insert(all.end(), some.begin(), some.end());
    } else if (const auto found = store_->calls_by_name.find(name);
               found != store_->calls_by_name.end()) {
      add_those_in(program, found->second, all);
    }
  }
  std::ranges::sort(all, stands_before);
  return all;
}

std::vector<const Call*> SourceFacts::constructions_in(const Program& program,
                                                       TypeKind kind) const {
  std::vector<const Call*> all;
  const auto found = store_->calls_by_kind.find(kind);
  if (found != store_->calls_by_kind.end()) add_those_in(program, found->second, all);
  std::ranges::sort(all, stands_before);
  return all;
}

std::vector<const Loop*> SourceFacts::loops(LoopRole role) const {
  std::vector<const Loop*> all;
  for (const auto& file : files) {
    for (const Loop* loop : file->loops) {
      if (loop->role == role) all.push_back(loop);
    }
  }
  return all;
}

std::vector<const ClassDef*> SourceFacts::modules() const {
  std::vector<const ClassDef*> all;
  for (const auto& file : files) {
    for (const ClassDef* def : file->classes) {
      if (def->is_module) all.push_back(def);
    }
  }
  return all;
}

std::vector<const Statement*> SourceFacts::assignments(std::string_view full_name) const {
  return found_in(store_->assignments_by_name, full_name);
}

std::vector<const Program*> SourceFacts::programs_of(const File& file) const {
  std::vector<const Program*> all;
  for (const std::size_t place : found_in(store_->programs_by_file, &file)) {
    all.push_back(&programs[place]);
  }
  return all;
}

bool FileSet::insert(const File& file) {
  if (contains(file)) return false;
  if (has_.size() <= file.number) has_.resize(file.number + 1);
  has_[file.number] = true;
  return true;
}

void FileSet::add(const FileSet& others) {
  if (has_.size() < others.has_.size()) has_.resize(others.has_.size());
  for (std::size_t i = 0; i < others.has_.size(); ++i) has_[i] = has_[i] || others.has_[i];
}

std::span<const Statement* const> after(const Statement& statement) {
  return statement.block.empty() ? statement.block : statement.block.subspan(statement.index + 1);
}

std::span<const Statement* const> before(const Statement& statement) {
  return statement.block.first(statement.block.empty() ? 0 : statement.index);
}

bool is_within(const Statement& inner, const Statement& outer) {
  for (const Statement* each = &inner; each != nullptr; each = each->parent) {
    if (each == &outer) return true;
  }
  return false;
}

const Statement* loop_around(const Statement* statement) {
  while (statement != nullptr && statement->loop == nullptr) {
    if (statement->kind == StatementKind::function) return nullptr;
    statement = statement->parent;
  }
  return statement;
}

const Expr* find_inside(const Expr* expr, bool (*test)(const Expr&)) {
  if (expr == nullptr) return nullptr;
  if (test(*expr)) return expr;
  for (const Expr* child : expr->children()) {
    if (const Expr* found = find_inside(child, test)) return found;
  }
  return nullptr;
}

std::vector<const Call*> calls_inside(const Statement& statement) {
  std::vector<const Call*> calls;
  collect_calls(statement, calls);
  std::ranges::stable_sort(calls, {}, [](const Call* call) { return call->expr->range.begin; });
  return calls;
}

}  // namespace rooftile::source
