// What owns the parts of source facts, and the indexes behind their queries. For the reader that
// fills them in and for the queries themselves; rules have no use for it.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/workload/source_arena.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct TypeHash {
  std::size_t operator()(const Type& type) const;
};

// For a value in a documented command that stands for another: `--data $DATA`.
inline constexpr const char* kUnclear = "$";

// The default of a command-line option or configuration entry.
struct Option {
  const Expr* value = nullptr;  // null when there is none
  std::string_view action;      // "store_true"
  bool several = false;         // defined twice with different defaults
  bool is_set_later = false;    // by parser.set_defaults, which wins
  bool is_required = false;     // has to be given: no default, not even None
  bool is_entry = false;        // `args.device = "cuda"` after the parsing: an option wins
  bool is_number = false;       // type=int or float, also of a default that is a text
  bool is_given = false;        // by all documented commands
  std::vector<std::string_view> flags{};  // other ways to write it: "-j"
  std::vector<std::string_view> given{};  // by documented commands; empty for a switch
};

// What the facts of files are made of that one thread reads.
struct FactsMemory {
  Arena expressions, statements, calls;
  Arena others;
  std::deque<FunctionDef> functions;
  std::deque<ClassDef> classes;
  std::deque<Loop> loops;

  std::size_t bytes() const {
    return expressions.bytes() + statements.bytes() + calls.bytes() + others.bytes();
  }
};

struct Store {
  std::vector<std::unique_ptr<FactsMemory>> memory;
  Arena arena;  // for what is found out when all files are read
  std::vector<std::unique_ptr<File>> configurations;  // of the options that they set
  std::unordered_set<Type, TypeHash> types;
  std::set<std::vector<const ClassDef*>> class_choices;  // of types
  std::unordered_set<std::string> names;                 // that full names point to
  std::unordered_map<std::string_view, std::vector<const Call*>> calls_by_name;
  // Of "torch.optim.*"; filled when they are asked for first.
  std::unordered_map<std::string_view, std::vector<const Call*>> calls_by_prefix;
  std::unordered_map<std::string_view, std::vector<const Call*>> calls_by_method;
  std::unordered_map<TypeKind, std::vector<const Call*>> calls_by_kind;  // that make such an object
  std::unordered_map<std::string_view, std::vector<const Statement*>> assignments_by_name;
  // By full name: the statement that binds it, once, at module level.
  std::unordered_map<std::string_view, const Statement*> globals;
  std::unordered_map<std::string_view, const FunctionDef*> functions_by_name;
  std::unordered_map<std::string_view, const ClassDef*> classes_by_name;
  // Of argparse, click and the like: destination name without dashes.
  std::unordered_map<std::string_view, Option> options;
  // The same of one file: scripts beside each other have options of one name and other defaults.
  std::unordered_map<const File*, std::unordered_map<std::string_view, Option>> file_options;

  // Scripts that documented commands start, those of which all commands make one GPU visible, and
  // those of which some give several.
  std::unordered_set<const File*> started, on_one_gpu, on_several_gpus;
  std::unordered_set<const File*> started_with_precision;  // `--precision 16`, `--bf16`
  std::unordered_map<const File*, std::vector<std::size_t>> programs_by_file;  // by their places
  bool is_complete = false;  // nothing changes any more
  const Type* intern(const Type& type) { return &*types.insert(type).first; }
  std::string_view intern(std::string_view text) { return *names.emplace(text).first; }
  // What an analysis works out once and is asked for again: its own type, one object of each.
  template <class T>
  T& kept() const {
    std::shared_ptr<void>& found = kept_by_type[typeid(T)];
    if (found == nullptr) found = std::make_shared<T>();
    return *static_cast<T*>(found.get());
  }
  mutable std::unordered_map<std::type_index, std::shared_ptr<void>> kept_by_type;

  // Both have to live as long as the expression.
  void set_origin(Expr& expr, std::string_view full_name, const Statement* binding);
};

// A class, then its bases among the given files and theirs, each once and at most some hundred, in
// the order in which a member is looked for; empty for null.
std::vector<const ClassDef*> lineage(const Store& store, const ClassDef* def);
// The same by the types of the bases, once they are known.
std::vector<const ClassDef*> lineage(const ClassDef* def);

// Of no kind and nothing known; what unresolved expressions point to.
const Type& unknown_type();

}  // namespace rooftile::source
