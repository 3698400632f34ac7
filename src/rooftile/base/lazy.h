// A value that is made when it is first asked for, from any thread.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

namespace rooftile {

template <class T>
class Lazy {
 public:
  // `make` runs once at most, and may find none.
  explicit Lazy(std::function<std::optional<T>()> make) : make_(std::move(make)) {}

  // Null where there is none.
  const T* get() const {
    std::call_once(once_, [this] { value_ = make_(); });
    return value_ ? &*value_ : nullptr;
  }

 private:
  std::function<std::optional<T>()> make_;
  mutable std::once_flag once_;
  mutable std::optional<T> value_;
};

}  // namespace rooftile
