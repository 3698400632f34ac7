// The raw points beside a device file: CSV that the library reads as timings.
// docs/formats/timings.md describes the columns.
#pragma once

#include <cstdio>
#include <memory>
#include <set>
#include <string>

#include "gpu/session.h"

namespace rooftile::gpu {

// What earlier sessions left in a file.
struct KnownPoints {
  std::string gpu;             // name of the GPU in its first line; empty for a new file
  std::set<std::string> done;  // operations in text form
};

// An empty answer for a file that does not exist; an error for one that is something else.
Result<KnownPoints> read_known_points(const std::string& path);

// Comment with the GPU and the versions, and the line of column names.
std::string points_header(const Gpu& gpu);
// One line; a point that failed is a comment, so that it is tried again.
std::string points_row(const Point& point);

// my_gpu.json -> my_gpu.points.csv
std::string points_path(const std::string& device_path);

// Appends; every point is on disk once write() returns.
class PointsFile {
 public:
  // Writes the header into a new file. An error where the file holds another GPU's points.
  static Result<PointsFile> open(const std::string& path, const Gpu& gpu);

  Result<void> write(const Point& point);
  const std::set<std::string>& done() const { return done_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  PointsFile(std::FILE* file, std::set<std::string> done, std::string path)
      : file_(file), done_(std::move(done)), path_(std::move(path)) {}
  Result<void> append(const std::string& text);

  std::unique_ptr<std::FILE, Close> file_;
  std::set<std::string> done_;
  std::string path_;
};

}  // namespace rooftile::gpu
