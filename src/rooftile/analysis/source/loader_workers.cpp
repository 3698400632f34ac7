// Whether workers would shorten the loading, for loaders.h.
#include <algorithm>
#include <iterator>
#include <vector>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
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
  if (draws_number(call)) return true;
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
  if (call.method == "slice" || (call.method == "to" && call.argument("dtype") != nullptr)) {
    return true;
  }
  return is_one_of(
      call.method,
      {"float",      "double",      "half",    "long",   "int",   "short",   "byte",      "bool",
       "LongTensor", "FloatTensor", "Tensor",  "astype", "clone", "copy",    "item",      "size",
       "type",       "unsqueeze",   "squeeze", "numpy",  "view",  "reshape", "transpose", "permute",
       "contiguous", "detach",      "flatten", "numel",  "dim"});
}

// h5py.File(path), lmdb.open(path): items are read from the disk, unless a `with` in a method that
// loads takes out at once what they need.
bool reads_files(const ClassDef& def) {
  return std::ranges::any_of(def.methods, [](const FunctionDef* method) {
    return std::ranges::any_of(method->calls, [&](const Call* call) {
      const bool is_closed = call->statement->kind == StatementKind::with_;
      return is_one_of(call->name, {"h5py.File", "lmdb.open"}) &&
             (method->name == "__getitem__" || !is_closed);
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
  const auto takes_time = [&](const Expr& part) {
    return part.call() != nullptr && !is_cheap(*part.call(), depth);
  };
  return !any_statement(function.body, [&](const Statement& statement) {
    if (statement.kind == StatementKind::raise_) return false;  // no sample comes of it
    return statement.kind == StatementKind::for_ || statement.kind == StatementKind::with_ ||
           any_part(statement, takes_time);
  });
}

bool is_iterable_dataset(const ClassDef& def) {
  return std::any_of(def.bases.begin(), def.bases.end(), [](const Expr* base) {
    return base->full_name().ends_with("IterableDataset");
  });
}

bool is_in_memory(const SourceFacts& facts, const Expr* dataset, int depth = 0);

// Of the call that makes a data set, or a list of what goes into one.
bool is_made_in_memory(const SourceFacts& facts, const Call& call, int depth) {
  if (is_one_of(call.name,
                {"torch.utils.data.TensorDataset", "zip", "list", "range", "torch.load"})) {
    return true;
  }
  if (call.name == "torch.utils.data.ConcatDataset" && !call.arguments.empty()) {
    const Expr* list = resolved(call.arguments.front().value);
    return list->kind == ExprKind::list && !list->children().empty() &&
           std::ranges::all_of(list->children(), [&](const Expr* one) {
             return is_in_memory(facts, one, depth + 1);
           });
  }
  const bool is_part =
      is_one_of(call.name, {"torch.utils.data.Subset", "torch.utils.data.random_split"});
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
  dataset = resolved(dataset);
  if (dataset == nullptr || depth > kMaxValues) return false;
  const Type& type = *dataset->type;
  if (type.is(TypeKind::tensor) || type.is(TypeKind::array)) return true;
  if (dataset->kind == ExprKind::list || dataset->kind == ExprKind::comprehension) return true;
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

}  // namespace

bool needs_no_workers(const SourceFacts& facts, const Call& loader) {
  if (facts.argument(loader, "batch_size", 1).kind == ValueKind::none) return true;
  // Mini-batches of graphs, which are kept in memory: DGL's are made by the collate function.
  const bool is_graph =
      loader.name.starts_with("torch_geometric.") ||
      (loader.file->imports_from("dgl") && loader.argument("collate_fn") != nullptr);
  return is_graph || has_gpu_samples(facts, loader) || is_in_memory(facts, dataset_of(loader));
}

}  // namespace rooftile::source
