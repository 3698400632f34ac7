#include "rooftile/formats/onnx/load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rooftile/base/file_kind.h"
#include "rooftile/formats/onnx/inference.h"
#include "rooftile/formats/onnx/schemas.h"
#include "rooftile/formats/onnx/storage.h"
#include "rooftile/formats/onnx/wire.h"

namespace rooftile::onnx_format {
namespace {

// A file's bytes, mapped so that weights that are skipped are not read into memory.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
      problem_ = std::strerror(errno);
      return;
    }
    if (!S_ISREG(status.st_mode)) {
      problem_ = "not a regular file";
      return;
    }
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
    if (data_ == MAP_FAILED) {
      problem_ = std::strerror(errno);
      data_ = nullptr;
    }
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(data_, size_);
    if (descriptor_ >= 0) close(descriptor_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& problem() const { return problem_; }
  std::string_view bytes() const { return {static_cast<const char*>(data_), data_ ? size_ : 0}; }

 private:
  int descriptor_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  std::string problem_;
};

std::optional<Error> check_versions(const onnx::ModelProto& model) {
  if (!model.has_graph() || model.graph().node_size() == 0) {
    return Error{"the model holds no graph with operators", {}};
  }
  for (const auto& import : model.opset_import()) {
    const bool standard = import.domain().empty() || import.domain() == "ai.onnx";
    if (standard && (import.version() < 1 || import.version() > newest_opset())) {
      return Error{fmt::format("operator set {} is not known; this build reads up to {}",
                               import.version(), newest_opset()),
                   {}};
    }
  }
  return {};
}

struct Attempt {
  Inferred inferred;
  std::unique_ptr<Graph::Storage> storage;
};

Result<Attempt> attempt(std::unique_ptr<Graph::Storage> storage,
                        const ResolvedDimensions& dimensions) {
  Attempt result{{}, std::move(storage)};
  auto inferred = infer_model(*result.storage, dimensions);
  if (!inferred) return tl::unexpected(inferred.error());
  result.inferred = std::move(*inferred);
  return result;
}

// Whether the outputs that the file declares with the old leading size have the new one.
bool outputs_follow(const onnx::GraphProto& graph, const Inferred& inferred, std::int64_t from,
                    std::int64_t to) {
  for (int i = 0; i < graph.output_size(); ++i) {
    const auto& type = graph.output(i).type();
    if (!type.has_tensor_type() || type.tensor_type().shape().dim_size() == 0) continue;
    if (type.tensor_type().shape().dim(0).dim_value() != from) continue;
    const Shape& shape = inferred.output_shapes[static_cast<std::size_t>(i)];
    if (shape.empty() || shape[0] != to) return false;
  }
  return true;
}

// A model whose batch is fixed in the file, at another batch: kept only if every shape follows.
std::optional<Attempt> attempt_batch(const onnx::ModelProto& model, std::int64_t from,
                                     std::int64_t to, ResolvedDimensions dimensions) {
  auto storage = std::make_unique<Graph::Storage>();
  storage->model = model;
  set_leading_size(to, *storage->model.mutable_graph());
  dimensions.declared_shapes_hold = false;
  dimensions.rebatch = Rebatch{from, to};
  auto result = attempt(std::move(storage), dimensions);
  if (!result || !result->inferred.errors.empty()) return {};
  if (!outputs_follow(model.graph(), result->inferred, from, to)) return {};
  return std::move(*result);
}

void add_notes(const ResolvedDimensions& dimensions, const Inferred& inferred, Graph& graph) {
  graph.notes.insert(graph.notes.begin(), dimensions.notes.begin(), dimensions.notes.end());
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < inferred.errors.size() && i < kShown; ++i) {
    std::string text = inferred.errors[i].substr(0, 300);
    for (char& c : text) {
      if (c == '\n' || c == '\r') c = ' ';
    }
    graph.notes.push_back(fmt::format("shape inference stopped at {}", text));
  }
  if (!inferred.errors.empty()) {
    graph.skipped["shape inference failed"] = static_cast<std::int64_t>(inferred.errors.size());
  }
}

}  // namespace

Result<std::string> read_slim_model(const std::string& path) {
  const MappedFile file(path);
  if (!file.problem().empty()) return fail(file.problem(), path);
  if (file.bytes().empty()) return fail("the file is empty", path);
  auto slim = slim_model(file.bytes());
  if (!slim && !looks_like_model(file.bytes())) {
    constexpr std::size_t kHeadBytes = 4096;
    return fail(fmt::format("expected an ONNX model, found {}",
                            describe_content(file.bytes().substr(0, kHeadBytes))),
                path);
  }
  if (!slim) return fail("not a readable ONNX model: " + slim.error().message, path);
  return slim;
}

Result<Graph> load_graph(std::string_view bytes, const DimensionChoices& choices) {
  auto storage = std::make_unique<Graph::Storage>();
  if (!storage->model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail("not a readable ONNX model: the ONNX library cannot parse it");
  }
  onnx::ModelProto& model = storage->model;
  if (auto error = check_versions(model)) return tl::unexpected(*error);
  auto dimensions = resolve_dimensions(choices, *model.mutable_graph());
  if (!dimensions) return tl::unexpected(dimensions.error());

  std::optional<Attempt> result;
  const auto leading = common_leading_size(model.graph());
  const bool other_batch = choices.batch && !dimensions->batch_used && choices.shapes.empty() &&
                           leading != choices.batch;
  if (other_batch && leading) {
    result = attempt_batch(model, *leading, *choices.batch, *dimensions);
    if (result) dimensions->batch = choices.batch;
  }
  if (!result) {
    if (other_batch) {
      dimensions->unused.emplace_back("--batch");
      dimensions->notes.push_back(
          leading
              ? fmt::format("the file fixes the batch at {}, and its shapes do not follow "
                            "--batch {}; read at {}",
                            *leading, *choices.batch, *leading)
              : fmt::format("no input dimension is known as the batch, --batch {} has no effect",
                            *choices.batch));
    }
    auto plain = attempt(std::move(storage), *dimensions);
    if (!plain) return tl::unexpected(plain.error());
    result = std::move(*plain);
  }
  Graph graph = std::move(result->inferred.graph);
  add_notes(*dimensions, result->inferred, graph);
  graph.unused_choices = dimensions->unused;
  graph.batch = dimensions->batch;
  graph.sequence = dimensions->sequence;
  graph.producer = result->storage->model.producer_name();
  graph.storage = std::move(result->storage);
  return graph;
}

}  // namespace rooftile::onnx_format
