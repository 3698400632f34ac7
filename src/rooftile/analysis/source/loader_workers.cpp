// Whether workers would shorten the loading, for loaders.h.
#include <algorithm>
#include <iterator>
#include <vector>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/monai.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr int kMaxValues = 8;

bool only_cheap(const FunctionDef& function, int depth);

// What takes no time for one sample: casts, views, small arrays, a random place, and functions of
// the project that do no more.
bool is_cheap(const Call& call, int depth) {
  constexpr int kMaxDepth = 3;
  if (call.target != nullptr) return depth < kMaxDepth && only_cheap(*call.target, depth + 1);
  if (call.name.starts_with("random.") || call.name.starts_with("numpy.random.")) return true;
  if (is_one_of(call.name, {"torch.tensor",
                            "torch.as_tensor",
                            "torch.from_numpy",
                            "torch.zeros",
                            "torch.ones",
                            "torch.full",
                            "torch.arange",
                            "torch.cat",
                            "torch.stack",
                            "torch.randint",
                            "torch.rand",
                            "torch.randn",
                            "torch.randperm",
                            "len",
                            "tuple",
                            "list",
                            "int",
                            "float",
                            "bool",
                            "str",
                            "dict",
                            "min",
                            "max",
                            "abs",
                            "range",
                            "isinstance",
                            "numpy.float32",
                            "numpy.float64",
                            "numpy.int64",
                            "numpy.array",
                            "numpy.asarray",
                            "numpy.zeros",
                            "numpy.ones",
                            "numpy.arange",
                            "numpy.stack",
                            "numpy.concatenate"})) {
    return true;
  }
  if (call.receiver == nullptr && call.method == "slice") return true;
  const bool only_casts =
      call.method == "to" && call.arguments.size() == 1 && call.arguments.front().name == "dtype";
  if (only_casts) return true;
  return is_one_of(
      call.method,
      {"float",      "double",      "half",    "long",   "int",   "short",   "byte",      "bool",
       "LongTensor", "FloatTensor", "Tensor",  "astype", "clone", "copy",    "item",      "size",
       "type",       "unsqueeze",   "squeeze", "numpy",  "view",  "reshape", "transpose", "permute",
       "contiguous", "detach",      "flatten", "numel",  "dim"});
}

// `with h5py.File(path) as f: …` in a method that loads, or `f = h5py.File(path)` and `f.close()`:
// what the items need is taken out of it at once.
bool is_closed_again(const Call& call) {
  const Statement* statement = call.statement;
  if (statement == nullptr || call.function == nullptr) return false;
  if (statement->kind == StatementKind::with_) return true;
  const Expr* target = statement->target;
  const bool is_local = target != nullptr && target->kind == ExprKind::name;
  return is_local && std::ranges::any_of(call.function->calls, [&](const Call* other) {
           return other->method == "close" && other->receiver != nullptr &&
                  other->receiver->kind == ExprKind::name &&
                  other->receiver->word() == target->word();
         });
}

// h5py.File(path), lmdb.open(path): items are read from the disk.
bool reads_files(const ClassDef& def) {
  return std::ranges::any_of(def.methods, [](const FunctionDef* method) {
    return std::ranges::any_of(method->calls, [&](const Call* call) {
      const bool opens = is_one_of(call->name, {"h5py.File", "lmdb.open"});
      return opens && (method->name == "__getitem__" || !is_closed_again(*call));
    });
  });
}

bool only_indexes(const ClassDef& def) {
  if (reads_files(def)) return false;
  const auto line = lineage(&def);
  const auto owner = std::ranges::find_if(
      line, [](const ClassDef* each) { return each->method("__getitem__") != nullptr; });
  if (owner == line.end()) return false;
  const FunctionDef* get = (*owner)->method("__getitem__");
  return only_cheap(*get, 0);
}

bool only_cheap(const FunctionDef& function, int depth) {
  bool only = true;
  for_statements(function.body, [&](const Statement& statement) {
    if (statement.kind == StatementKind::raise_) return;  // no sample comes of it
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        only = only && (part.call() == nullptr || is_cheap(*part.call(), depth));
        return only;
      });
    });
    only = only && statement.kind != StatementKind::for_ && statement.kind != StatementKind::with_;
  });
  return only;
}

bool is_iterable_dataset(const ClassDef& def) {
  return std::any_of(def.bases.begin(), def.bases.end(), [](const Expr* base) {
    return base->full_name().ends_with("IterableDataset");
  });
}

// `TaskDataset = classes[task]`, where each class of the program only indexes.
bool all_only_index(const SourceFacts& facts, const File& file) {
  bool has_one = false;
  for (const Program* program : facts.programs_of(file)) {
    for (const File* one : program->files) {
      for (const ClassDef* def : one->classes) {
        if (!def->is_dataset || def->method("__getitem__") == nullptr) continue;
        if (!only_indexes(*def)) return false;
        has_one = true;
      }
    }
  }
  return has_one;
}

// What the function puts into a list or dictionary: `sets[split] = dataset`,
// `sets.append(dataset)`.
std::vector<const Expr*> items_put(const Expr& holder) {
  std::vector<const Expr*> items;
  const bool is_variable = holder.kind == ExprKind::name && holder.statement != nullptr;
  const FunctionDef* function = is_variable ? holder.statement->function : nullptr;
  if (function == nullptr) return items;
  for_statements(function->body, [&](const Statement& statement) {
    const Expr* target = statement.target;
    const bool sets = statement.kind == StatementKind::assignment && target != nullptr &&
                      target->kind == ExprKind::subscript &&
                      last_name(target->children()[0]) == holder.word();
    if (sets && statement.value != nullptr) items.push_back(statement.value);
    const Call* call = statement.value == nullptr ? nullptr : statement.value->call();
    const bool appends = call != nullptr && call->method == "append" &&
                         last_name(call->receiver) == holder.word() && call->arguments.size() == 1;
    if (appends) items.push_back(call->arguments[0].value);
  });
  return items;
}

bool is_in_memory(const SourceFacts& facts, const Expr* dataset, int depth = 0);

// A list of data sets, not of samples.
bool are_in_memory(const SourceFacts& facts, const Expr* sets, int depth) {
  const Expr* list = resolved(sets);
  if (list == nullptr) return false;
  const auto is_kept = [&](const Expr* one) { return is_in_memory(facts, one, depth + 1); };
  const std::vector<const Expr*> put = items_put(*sets);
  if (!put.empty()) return std::ranges::all_of(put, is_kept);
  if (list->kind == ExprKind::list || list->kind == ExprKind::tuple) {
    return !list->children().empty() && std::ranges::all_of(list->children(), is_kept);
  }
  if (list->kind != ExprKind::comprehension) return false;
  const Expr* item = list->children().front();
  if (item->kind != ExprKind::name) return is_kept(item);
  // `[part for i, part in enumerate(parts) if i != fold]`
  const auto clause = std::ranges::find(list->children(), ExprKind::for_clause, &Expr::kind);
  const Expr* parts = clause == list->children().end() ? nullptr : (*clause)->children().back();
  const bool is_counted = parts != nullptr && parts->call() != nullptr &&
                          is_one_of(parts->call()->name, {"enumerate", "zip"}) &&
                          !parts->call()->arguments.empty();
  return is_kept(is_counted ? parts->call()->arguments.front().value : parts);
}

// Of the call that makes a data set, or a list of what goes into one.
bool is_made_in_memory(const SourceFacts& facts, const Call& call, int depth) {
  if (is_kept_by_monai(facts, call)) return true;
  if (is_one_of(call.name,
                {"torch.utils.data.TensorDataset", "zip", "list", "range", "torch.load"})) {
    return true;
  }
  if (call.name.empty() && call.target == nullptr && call.receiver == nullptr) {
    return all_only_index(facts, *call.file);
  }
  if (call.name == "torch.utils.data.ConcatDataset" && !call.arguments.empty()) {
    return are_in_memory(facts, call.arguments.front().value, depth + 1);
  }
  const bool is_part =
      call.name == "torch.utils.data.Subset" || call.name == "torch.utils.data.random_split";
  return is_part && !call.arguments.empty() &&
         is_in_memory(facts, call.arguments.front().value, depth + 1);
}

// `Pairs(left, right)` of a class whose items are those of the data sets that it is given.
bool wraps_others(const SourceFacts& facts, const Call* made, int depth) {
  return made != nullptr && std::ranges::any_of(made->arguments, [&](const Argument& argument) {
           return argument.value->type->is(TypeKind::dataset) &&
                  !is_in_memory(facts, argument.value, depth + 1);
         });
}

bool is_in_memory(const SourceFacts& facts, const Expr* dataset, int depth) {
  const bool is_filled = dataset != nullptr && depth > 0 && depth <= kMaxValues &&
                         dataset->kind == ExprKind::name && !items_put(*dataset).empty();
  if (is_filled) return are_in_memory(facts, dataset, depth);
  dataset = resolved(dataset);
  if (dataset == nullptr || depth > kMaxValues) return false;
  const Type& type = *dataset->type;
  if (type.is(TypeKind::tensor) || type.is(TypeKind::array)) return true;
  if (dataset->kind == ExprKind::list || dataset->kind == ExprKind::comprehension) return true;
  if (dataset->kind == ExprKind::dict && dataset->statement->target != nullptr) {
    return are_in_memory(facts, dataset->statement->target, depth);
  }
  const auto origins = script::origins(facts, *dataset);
  if (origins.front() != dataset || origins.size() > 1) {
    return std::ranges::all_of(
        origins, [&](const Expr* one) { return is_in_memory(facts, one, depth + 1); });
  }
  // `self.samples = []`, which other methods fill.
  const bool is_list =
      type.is(TypeKind::container) && !type.guessed && dataset->kind == ExprKind::attribute;
  if (is_list && (type.element == nullptr || !type.element->is(TypeKind::dataset))) return true;
  if (!type.classes().empty()) {
    return std::ranges::all_of(type.classes(), [&](const ClassDef* def) {
      return is_iterable_dataset(*def) ||
             (only_indexes(*def) && !wraps_others(facts, type.made_by, depth));
    });
  }
  const Call* call = dataset->call() != nullptr ? dataset->call() : type.made_by;
  if (call == nullptr) {
    return dataset->kind == ExprKind::subscript &&
           is_in_memory(facts, dataset->children().front(), depth + 1);
  }
  return is_made_in_memory(facts, *call, depth);
}

// dgl.batch(graphs) in the collate function: mini-batches of graphs, which are kept in memory
// unless the data set is seen to read files.
bool batches_graphs(const SourceFacts& facts, const Call& loader) {
  const Expr* dataset = dataset_of(loader);
  const ClassDef* def = dataset == nullptr ? nullptr : dataset->type->class_def;
  if (def != nullptr && !only_indexes(*def)) return false;
  const auto batches = [](const Call* call) {
    return is_one_of(call->name, {"dgl.batch", "torch_geometric.data.Batch.from_data_list"});
  };
  const auto functions = collate_functions(facts, loader);
  const bool collates = std::ranges::any_of(functions, [&](const FunctionDef* function) {
    return std::ranges::any_of(function->calls, batches);
  });
  // batch.ndata["feat"] of a graph, where its class is not given.
  return collates || (loader.argument("collate_fn") != nullptr &&
                      std::ranges::any_of(loops_over(facts, loader), [](const Loop* loop) {
                        const ByteRange range = loop->statement->range;
                        return contains_any(loop->file->slice(range), {".ndata[", ".edata["});
                      }));
}

bool reads_file(const Call& call) {
  return is_one_of(
      call.name, {"open", "librosa.load", "librosa.core.load", "soundfile.read", "torchaudio.load",
                  "torch.load", "numpy.load", "cv2.imread", "PIL.Image.open", "imageio.imread",
                  "scipy.io.wavfile.read", "scipy.io.loadmat", "h5py.File"});
}

// Those of a loader; of an own class also the one that it is made with: `self.collate_fn =
// load_batch`, `super().__init__(data, collate_fn=load_batch)`.
std::vector<const FunctionDef*> all_collates(const SourceFacts& facts, const Call& loader) {
  std::vector<const FunctionDef*> functions = collate_functions(facts, loader);
  const Expr* callee = loader.expr->children().empty() ? nullptr : loader.expr->children().front();
  const ClassDef* def = callee == nullptr ? nullptr : callee->type->class_def;
  const FunctionDef* init = def == nullptr ? nullptr : def->method("__init__");
  if (init == nullptr) return functions;
  for (const Call* call : init->calls)
    std::ranges::copy(collate_functions(facts, *call), std::back_inserter(functions));
  for_statements(init->body, [&](const Statement& statement) {
    const bool sets = statement.kind == StatementKind::assignment && statement.value != nullptr &&
                      statement.target != nullptr && statement.target->word() == "collate_fn";
    const FunctionDef* set = sets ? statement.value->type->function : nullptr;
    if (set != nullptr) functions.push_back(set);
  });
  return functions;
}

// Reads files, or calls functions of the project for each of the samples: that is what takes time,
// however quickly the data set gives what it holds.
bool works_hard(const FunctionDef& collate) {
  const bool reads = any_call_below(collate, kMaxCallDepth, reads_file);
  return reads || std::ranges::any_of(collate.calls, [&](const Call* call) {
           const Statement* loop = loop_around(call->statement);
           const bool is_own = call->target != nullptr && call->target->name != "__init__" &&
                               !call->target->calls.empty();
           return is_own && loop != nullptr && loop->function == &collate;
         });
}

}  // namespace

bool needs_no_workers(const SourceFacts& facts, const Call& loader) {
  const Argument* batch_size = loader.argument("batch_size", 1);
  if (batch_size != nullptr && facts.argument(loader, "batch_size", 1).kind == ValueKind::none) {
    return true;
  }
  // MONAI's ThreadDataLoader reads ahead in a thread.
  const bool reads_ahead = loader.method == "ThreadDataLoader";
  const bool is_graph = loader.name.starts_with("torch_geometric.");
  return is_graph || reads_ahead || batches_graphs(facts, loader) ||
         has_gpu_samples(facts, loader) ||
         (is_in_memory(facts, dataset_of(loader)) &&
          std::ranges::none_of(all_collates(facts, loader),
                               [](const FunctionDef* each) { return works_hard(*each); }));
}

}  // namespace rooftile::source
