// What follows from resolved names and types: arguments behind **, imports by name, roles of loops,
// the order of layers, programs, and the indexes of the queries.
#pragma once

#include "rooftile/workload/source_store.h"

namespace rooftile::source {

// Items of dictionaries that a call unpacks become its arguments, where they are written down.
void follow_unpacked_arguments(SourceFacts& facts);
// Arguments that functools.partial bound become those of the calls of what it made. Needs the
// arguments behind **.
void add_bound_arguments(SourceFacts& facts);
// The functools.partial(…) that made what is called; null for other calls.
const Call* partial_behind(const Call& call);
// Adds to File::imported what `importlib.import_module` and `__import__` may load: the one file
// whose name is known with all options at their defaults, else all files of a package whose names
// begin like the part that is written (`"models." + name`, f"{__name__}.{name}").
// A path that spec_from_file_location and the like load counts as such a name.
void follow_dynamic_imports(SourceFacts& facts);
// Likewise what texts and the configurations of Hydra name: `class_name="training.loss.OwnLoss"`.
void follow_names_in_texts(SourceFacts& facts);
// The class that such a text names; null where none or several may be meant.
const ClassDef* named_by_text(const Store& store, std::string_view name);
// Whether the text may be the dotted name of a class or function: "models.Net".
bool may_name(const Expr& expr);
void add_import(const File& importer, const File& file);
// The file and all that it imports, also through others, each once.
std::vector<const File*> with_imported(const File& file);
// Calls of methods whose receiver is not known, or may be of a derived class, lead to the methods
// of that name in reach. Needs the imports of files.
void link_dynamic_calls(SourceFacts& facts);
// Whether the class derives from the other one, also through others of the given files.
bool derives(const SourceFacts& facts, const ClassDef& def, const ClassDef& base);
void find_test_files(SourceFacts& facts);
void index_calls(SourceFacts& facts);
// Needs the callers of functions.
void find_loop_roles(SourceFacts& facts);
void find_layers(SourceFacts& facts);
// Needs the roles of loops; also sets Loop::on_gpu.
void find_programs(SourceFacts& facts);

}  // namespace rooftile::source
