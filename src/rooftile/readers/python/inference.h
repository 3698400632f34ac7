// Resolves names and finds the types of expressions, file by file and function by function, callers
// before the functions they call.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rooftile/readers/python/known_names.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {

// Of an annotation that says no more than that.
inline constexpr std::string_view kAnyModule = "torch.nn.Module";

// What a name stands for at some place in the text.
struct Entry {
  std::string_view full_name;  // of an import or definition
  const Type* type = nullptr;
  const Statement* binding = nullptr;

  bool operator==(const Entry&) const = default;
};

// The names of one function or module.
struct Scope {
  explicit Scope(std::pmr::memory_resource* memory) : names(memory) {}

  std::pmr::unordered_map<std::string_view, Entry> names;
  std::unordered_set<std::string_view> global;  // declared with `global`
  const Scope* outer = nullptr;
  const File* file = nullptr;
  std::vector<std::string_view> wildcards;  // packages imported with *
};

class Inference {
 public:
  explicit Inference(SourceFacts& facts);

  void run();

 private:
  // What a branch did to a name; `before` is empty if there was none.
  struct Change {
    std::string_view name;
    std::optional<Entry> before, after;
  };

  // What `from package import *` may bring names from: a given file, or a library.
  struct WildcardSource {
    const Scope* scope = nullptr;  // null for a library
    std::string_view package;
  };

  struct Known {
    std::string_view name;  // in its public spelling
    LibraryCall call;
  };

  // Files, functions and classes (inference.cpp, inference_classes.cpp).
  void collect_definitions();
  void note_receiver(const Call& call);
  void classify_classes();
  bool looks_like_module(const ClassDef& def);
  bool derives_from(const ClassDef& def, std::initializer_list<std::string_view> bases);
  bool derives_from_layer(const ClassDef& def);
  void visit_module(File& file);
  void visit_function(const FunctionDef& def);
  void visit_queued();
  void record_options_of_functions();
  void visit_stale_modules();
  void pass_unpacked_arguments();
  void enqueue(const FunctionDef& def);
  void read_again(const ClassDef& def);
  void bind_parameters(const FunctionDef& def);
  const Type* conventional_parameter(const FunctionDef& def, std::size_t index);
  const Type* method_parameter(const FunctionDef& def, std::size_t index);
  const Type* annotated_parameter(const Parameter& parameter);
  const File* find_module(std::string_view name, const File& from) const;
  const File* find_by_suffix(std::string_view name, const File& from) const;
  bool lies_in_package(const File& file, std::string_view name) const;
  const File* find_in_root(std::string_view name) const;
  bool defines(const File& file, std::string_view name) const;
  const File* find_definer(std::string_view name, std::string_view member, const File& found) const;
  void find_foreign_prefixes();  // foreign_prefixes.cpp
  const File* find_behind_foreign_prefix(std::string_view name) const;
  std::string_view resolve_import(std::string_view full_name, const File& from);
  void add_packages_of(const File& file, const File& from);

  // Statements (inference_statement.cpp).
  void visit(std::span<const Statement* const> block);
  void visit(const Statement& statement);
  void visit_assignment(const Statement& statement);
  void visit_if(const Statement& statement);
  void visit_loop(const Statement& statement);
  void visit_with(const Statement& statement);
  void visit_try(const Statement& statement);
  void visit_class(const Statement& statement);
  void visit_import(const Statement& statement);
  void visit_global(const Statement& statement);
  void visit_return(const Statement& statement);
  void returns(const FunctionDef& function, const Type* type);  // inference_returns.cpp
  void read_callers(const FunctionDef& def);
  const Type* chosen_argument_of(const Call& call, const FunctionDef& def);
  void note_returned_items(const Statement& statement, const Type& type);
  void bind(const Expr* target, const Type* type, const Expr* value, const Statement* statement);
  void bind_sequence(const Expr* target, const Type* type, const Expr* value,
                     const Statement* statement);
  std::vector<const Type*> unpacked_items(const Type& type, const Expr* value, std::size_t count);
  void note_set_item(const Expr& target, const Type& type);
  bool is_made_in_place(const Entry& entry);
  void note_moved_items(const Expr& target, const Type& type);
  void bind_attribute(const Expr* target, const Type* type, const Statement* statement);
  void bind_own_attribute(const Expr& target, const Type* type, const Statement& statement);
  void bind_iteration(const Expr* target, const Expr* iterable, const Statement* statement);
  bool bind_pairs(const Expr* target, const Expr* iterable, const Statement* statement);
  void set_name(std::string_view name, const Entry& entry);
  std::vector<Change> take_changes(std::size_t mark);
  void join_branches(const std::vector<Change>& first, const std::vector<Change>& second);
  void record_globals(const File& file);
  void find_default_places();
  void find_files_with_default_place();
  void forget_assigned(std::span<const Statement* const> block);
  void forget_target(const Expr* target);

  // Expressions (inference_expression.cpp).
  const Type* infer(const Expr* expr);
  const Type* infer_kind(Expr& expr);
  const Type* infer_name(Expr& expr);
  const Type* infer_attribute(Expr& expr);
  const Type* infer_subscript(Expr& expr);
  const Type* infer_operation(Expr& expr);
  const Type* infer_text(Expr& expr);
  const Type* infer_sequence(Expr& expr);
  const Type* infer_comprehension(Expr& expr);
  const Type* infer_yield(Expr& expr);
  const Type* written_item(const Type& container, const Expr& index) const;
  const Expr* chosen_module(const Type& container, const Expr& index) const;
  const Type* chosen_type(const Expr& conditional);
  const Type* chosen_operand(Expr& expr);
  const Type* either(const Type* a, const Type* b);
  std::optional<bool> fixed_truth(const Expr& condition);
  std::optional<bool> stored_truth(std::string_view attribute);
  const Type* own_member(const ClassDef* def, std::string_view word, const Statement** binding);
  const Type* tensor_attribute(const Type& object, std::string_view word);
  const Type* attribute_type(const Type& object, std::string_view word, const Statement** binding);
  const Type* dictionary_member(const Call& made_by, std::string_view word);
  const Entry* lookup(std::string_view name);
  std::optional<Entry> lookup_wildcard(std::string_view name);
  std::optional<Entry> lookup_wildcard(std::string_view name, const Scope* from);
  const std::vector<WildcardSource>& wildcard_sources(const Scope& from);
  std::optional<Entry> definition(std::string_view full_name);
  Entry join(const std::optional<Entry>& a, const std::optional<Entry>& b);
  const Entry* class_attribute(const ClassDef* def, std::string_view name);
  const FunctionDef* static_method(const ClassDef* def, std::string_view name);
  const FunctionDef* find_property(const ClassDef& def, std::string_view name);
  const FunctionDef* find_method(const ClassDef* def, std::string_view name);

  // Calls (inference_call.cpp, inference_method.cpp).
  const Type* infer_call(Expr& expr);
  const Type* call_of(Call& call, const Type& type);
  const Type* call_of_each(Call& call, const Type& type,
                           const std::function<const Type*(const Type&)>& call_of_one);
  const Type* own_function_call(Call& call, const FunctionDef& def, bool bound);
  const Type* own_class_call(Call& call, const ClassDef& def);
  const Type* library_result(Call& call, const Known& known);
  const Type* library_instance(Call& call, const Known& known);
  const Type* configuration_of(const Call& call);
  std::string_view base_loader(const Call& call);
  const Type* base_object(const Call& super);
  const Type* class_member(Expr& expr, const Type& owner, std::string_view full_name);
  std::string_view handed_on_loader(const Call& call, const ClassDef& def);

  // functools.partial and imports by text (inference_partial.cpp).
  const Type* partial_of(const Call& call);
  void note_partial(const Expr* value, Entry& entry);
  void note_imported(const Expr* value, Entry& entry);
  const Type* loaded_or_made(Call& call);
  const ClassDef* configured_class(const Expr& part, const File& file) const;
  std::size_t pass_bound(const Call& partial, const FunctionDef& def);
  // Classes that a script picks by a text (inference_by_name.cpp).
  const Type* picked_by_name(const Expr& callee, const Call& call);
  std::string_view picked_of_library(const Expr& callee);
  const Type* named_global(const Expr& subscript);
  const Type* only_network_of(const Scope& scope);
  const Type* named_in(const Scope* scope, const Expr& name, const Call& call);
  const Scope* namespace_of(const Expr& object) const;
  const Type* next_item(const Type& from);
  const Type* next_of(Call& call);
  const Type* value_call(Call& call, const Type& callee);
  const Type* method_call(Call& call, const Type& receiver);
  const Type* unknown_method(const Call& call, const Type& receiver);
  void note_method(Call& call);
  void note_module(Call& call);
  const Type* container_method(Call& call, const Type& receiver);
  const Type* tensor_method(Call& call, const Type& receiver);
  const Type* module_method(Call& call, const Type& receiver);
  const Type* accelerator_method(Call& call);
  const Type* forward_result(Call& call, const Type& callee);
  void note_prediction(const Call& call);
  const Type* tensor_result(const Call& call, const Type& callee);
  const Type* wrapped(Call& call, std::string_view name);
  const Type* from_tensors(const Call& call);
  const Type* new_tensor(const Call& call);
  const Type* mapped(const Call& call);
  const Type* moved(const Type& what, const Call& call);
  const Type* moved_module(const Type* type, const Expr* value, std::string_view name);
  static bool asks_for_cuda(const Expr* condition);
  void pass_arguments(const Call& call, const FunctionDef& def, bool skip_first);
  void pass(const FunctionDef& def, std::size_t index, const Type* type);
  void pass_placed(const FunctionDef& def, std::size_t index, const Type* type);
  void pass_named(const FunctionDef& def, std::string_view name, const Type* type);
  void record_named(std::string_view name, const Call& call, std::string_view action,
                    std::vector<std::string_view> flags);
  void record_option(const Call& call);
  void record_click_option(const Call& call);
  void record_defaults(const Call& call);
  void record_entry(const Expr& target, const Expr* value);
  void record_single_entry(const Expr& target, const Expr* value);
  void record_parsed_entry(const Expr& target, const Statement& statement);
  static void set_weight_dtype(const Call& call, Type& made);
  void note_backward(const Call& call);
  const Type* of_backward(const Type* type, std::string_view name);
  void note_append(const Call& call, const Type& list);
  bool makes_accelerator(const ClassDef& def) const;
  void note_buffer(const Call& call);
  const Entry* bound_entry(const Expr* object);
  Residence named_residence(const Expr& name, int depth);
  std::optional<bool> truth_without_gpu(const Expr& condition, int depth) const;
  Residence device_residence(const Expr* expr, int depth = 0);
  Residence written_residence(const Expr* expr, int depth);
  Residence chosen_residence(const Expr& conditional, int depth);
  Residence option_residence(std::string_view name, int depth);
  const Known& known(std::string_view full_name);

  // Types (inference_types.cpp).
  Type instance_of(const ClassDef& def);
  const Type* own_object(const ClassDef& def);  // self, and what super() stands for
  const Type* class_type(const ClassDef& def);  // of the class itself
  const Type* function_type(const FunctionDef& def);
  const Type* type_of(const Entry& entry);  // also of a class that is imported
  const Type* join_children(Expr& expr, std::size_t from = 0);
  const Type* simple(TypeKind kind, Residence residence = Residence::unknown);
  const Type* tensor(Residence residence, bool requires_grad = false);
  const Type* container_of(const Type* element);
  const Type* join(const Type* a, const Type* b);
  Type joined(const Type& a, const Type& b);
  const std::vector<const ClassDef*>* choices(const Type& a, const Type& b);
  const Type* combine(const Type* a, const Type* b);
  const Type* with_residence(const Type& type, Residence residence);
  const Type* guess(const Type* type, std::string_view name);
  std::string_view intern(std::string_view text) { return store_.intern(text); }

  SourceFacts& facts_;
  Store& store_;
  // By kind and residence, of nothing else known.
  std::array<std::array<const Type*, 3>, static_cast<std::size_t>(TypeKind::host_object) + 1>
      simple_types_{};
  std::pmr::monotonic_buffer_resource scope_memory_;
  std::deque<Scope> scopes_;
  std::unordered_map<std::string_view, std::optional<bool>> stored_truths_;  // of attributes
  std::unordered_map<const FunctionDef*, Scope*> function_scopes_;
  std::unordered_map<const File*, Scope*> module_scopes_;
  // Of scopes that import *, in the order in which names are looked for.
  std::unordered_map<const Scope*, std::vector<WildcardSource>> wildcard_sources_;
  std::unordered_map<std::string_view, const File*> modules_;  // by their whole names
  bool has_own_library_ = false;  // a module is named like one of a library: "torch.ops"
  std::unordered_map<std::string_view, std::vector<const File*>> modules_by_suffix_;
  // What a file imports that is in no other given file.
  std::unordered_map<const File*, std::unordered_set<std::string_view>> foreign_names_;
  std::unordered_set<std::string_view> foreign_prefixes_;  // of names, not to be found in modules_
  std::unordered_map<const ClassDef*, std::unordered_map<std::string_view, Entry>> attributes_;
  std::unordered_map<std::string_view, Known> known_;
  std::deque<const FunctionDef*> queue_;
  std::unordered_map<const FunctionDef*, int> visits_;
  // Of return statements at the last visit, and those of the items of a tuple or the like.
  std::unordered_map<const Statement*, const Type*> returned_types_;
  std::unordered_map<const Statement*, std::vector<const Type*>> returned_items_;
  std::unordered_set<const FunctionDef*> queued_;
  // Variables with a call of backward() in a function, or at the top of a file.
  std::unordered_map<const void*, std::unordered_set<std::string_view>> backward_names_;
  // Likewise with one of eval() or cuda(), as only modules have them.
  std::unordered_map<const void*, std::unordered_set<std::string_view>> switched_names_;
  // Of files that set a default place for new tensors.
  std::unordered_map<const File*, Residence> default_places_;
  // The files of their programs, once imports are known.
  std::optional<FileSet> with_default_place_;
  std::unordered_set<const File*> stale_;  // whose top level calls what now returns something else
  std::vector<Change> changes_;
  // Visits of expressions, and how many there may be: code made to be slow ends in unknown types.
  std::uint64_t visited_ = 0, most_visits_ = 0;
  Scope* scope_ = nullptr;
  const FunctionDef* function_ = nullptr;
  const File* file_ = nullptr;
};

// `Network = getattr(module, name)`, then `Network(x)`: what the variable stands for; else itself.
const Expr& chosen_before(const Expr& callee);

// The facts are built by those who may change them; everyone else has const pointers.
template <class T>
T& writable(const T& value) {
  return const_cast<T&>(value);
}

}  // namespace rooftile::source
