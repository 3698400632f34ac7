// What a function returns where input can be wrong.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace rooftile {

// `message` says what was found and what was expected; `where` is the place ("model.onnx: node
// conv1", "line 2"), empty when the caller knows it better.
struct Error {
  std::string message;
  std::string where;

  bool operator==(const Error&) const = default;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(std::string message, std::string where = {}) {
  return tl::unexpected<Error>(Error{std::move(message), std::move(where)});
}

// "where: message", or the message alone.
inline std::string to_string(const Error& error) {
  return error.where.empty() ? error.message : error.where + ": " + error.message;
}

}  // namespace rooftile
