// Entries of configurations that the given files write out: a dict, dict(…), EasyDict(…).
#pragma once

#include "rooftile/workload/source_store.h"

namespace rooftile::source {

// What `x = 3` and `x, y = 3, 4` give the name; null for other statements.
const Expr* assigned_value(const Statement& binding, std::string_view name);

// What stands for config["key"] in the dict behind it; null where no such dict is seen, or where
// the file that reads it sets the key too.
const Expr* written_item(const Store& store, const Expr& subscript);
// What config.get("key", …) gives; null like above.
const Expr* written_get(const Store& store, const Call& call);
// The same for config.key, where config is made by a call with key=….
const Expr* written_attribute(const Store& store, const Expr& attribute);

// `config.CUDNN.BENCHMARK` of `from .default import _C as config`: part of a variable of the given
// files, and no definition by that whole name.
bool is_of_global(const Store& store, const Expr& attribute);

// The option behind args["workers"] of `args = vars(parser.parse_args())`; empty for others.
std::string_view parsed_key(const Store& store, const Expr& subscript);
// `train(**vars(args))`: each parameter gets the option of its name.
bool spreads_options(const Store& store, const Call& call);
// options.get("workers", 0) of what is no object of the given files.
bool is_fallback(const Call& call);

}  // namespace rooftile::source
