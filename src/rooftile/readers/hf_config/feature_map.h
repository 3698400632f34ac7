// Emits networks on feature maps: convolutions, and attention between positions.
#pragma once

#include <cstdint>
#include <string>

#include "rooftile/readers/hf_config/emitter.h"

namespace rooftile::hf {

// Channels at the positions of a map; `value` is the tensor.
struct Map {
  Value value;
  std::int64_t channels = 0, height = 0, width = 0;

  std::int64_t positions() const { return height * width; }
};

// A square convolution.
struct Filter {
  std::int64_t channels = 0;  // that it writes
  std::int64_t kernel = 1, stride = 1, padding = 0, groups = 1;
  bool bias = true;
  bool transposed = false;
};

// Heads of attention; `windows` parts of the map attend apart from each other.
struct Heads {
  std::int64_t count = 1, windows = 1;
};

class MapEmitter {
 public:
  MapEmitter(Emitter& out, std::int64_t batch) : out_(out), batch_(batch) {}

  // What follows is in the blocks "path.{first-last}", which are alike.
  void enter(const std::string& path, std::int64_t first, std::int64_t count);
  void leave();

  Map conv(const std::string& name, const Map& in, const Filter& filter);
  // A product for each position.
  Map linear(const std::string& name, const Map& in, std::int64_t channels, bool bias = true);
  Map batch_norm(const std::string& name, const Map& in, bool weights = true);
  Map layer_norm(const std::string& name, const Map& in, bool weights = true);
  // Root mean squares over the channels of each head, with a weight for each.
  Map head_norm(const std::string& name, const Map& in, std::int64_t heads);
  Map group_norm(const std::string& name, const Map& in, std::int64_t groups);
  Map activation(const std::string& name, const Map& in, const std::string& fn);
  // The result has the size of `a`; of a larger `b` only the positions of `a` count.
  Map add(const std::string& name, const Map& a, const Map& b);
  Map multiply(const std::string& name, const Map& a, const Map& b);
  // Interpolated to another size; or each side twice as long.
  Map resize(const std::string& name, const Map& in, std::int64_t height, std::int64_t width);
  Map enlarge(const std::string& name, const Map& in);
  Map max_pool(const std::string& name, const Map& in, std::int64_t kernel, std::int64_t stride,
               std::int64_t padding);
  // Means of squares of `side` positions, those at the edge smaller.
  Map average_pool(const std::string& name, const Map& in, std::int64_t side);
  // The mean of all positions: a map of one.
  Map mean(const std::string& name, const Map& in);
  // Channels of both at the same positions.
  Map concatenate(const Map& a, const Map& b) const;
  // The positions of q attend to those of k and v; the result has the channels of q.
  Map attention(const std::string& name, const Map& q, const Map& k, const Map& v,
                const Heads& heads);
  void parameters(std::int64_t count) { out_.add_parameters(static_cast<double>(count)); }

 private:
  // False, and an error, where a tensor of the map would be beyond any machine.
  bool fits(const std::string& name, const Map& map);
  std::int64_t elements(const Map& map) const { return batch_ * map.positions() * map.channels; }
  Map norm(const std::string& name, const Map& in, const Normalization& body, bool weights);

  Emitter& out_;
  std::int64_t batch_;
};

}  // namespace rooftile::hf
