// toml++ as this folder uses it.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/impl/preprocessor.h>
// The library asserts, and in release builds assumes, what files do not keep to: "[=". Its code
// goes on to an error where the assumption is left out.
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>
