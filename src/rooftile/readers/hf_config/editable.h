// A config.json whose sizes can be changed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/readers/reader.h"
#include "rooftile/workload/model_shape.h"

namespace rooftile {

class EditableConfig {
 public:
  static Result<EditableConfig> read(const std::string& path);
  static Result<EditableConfig> parse(std::string_view text, const std::string& source);

  // Those that the config states and that one number decides.
  const ModelShape& shape() const;
  // The key of a size: "n_embd". Of a size of shape() only.
  std::string_view key(ShapeSize size) const;
  // What is not among shape() for another reason than being absent, in words.
  const std::vector<std::string>& notes() const;

  // Whether the precisions of layers are looked up one by one, which makes building slow.
  bool is_quantized() const;

  // The forward workload at other sizes, and at the shape's batch where it has one; may be called
  // from several threads.
  Result<Workload> build(const ModelShape& shape, const ReadOptions& options) const;

 private:
  struct State;
  static Result<EditableConfig> of(State state);
  explicit EditableConfig(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace rooftile
