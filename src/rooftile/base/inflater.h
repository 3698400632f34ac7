// Gzip, decompressed piece by piece.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rooftile {

// Concatenated gzip members as one stream. What comes before damage is still given out.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // More compressed bytes; they must stay until needs_input().
  void set_input(std::string_view bytes);
  bool needs_input() const;
  // Fills the output as far as the input goes; the number of bytes written.
  std::size_t inflate(std::span<char> output);
  // No more output will come: damage, or bytes behind the last member.
  bool stopped() const { return stopped_; }
  // At the end of the input: what is missing; empty when all is there.
  std::string problem() const;

 private:
  struct State;
  void finish_member();

  std::unique_ptr<State> state_;
  bool inside_member_ = false, stopped_ = false;
  std::string problem_;
};

bool is_gzip(std::string_view head);

}  // namespace rooftile
