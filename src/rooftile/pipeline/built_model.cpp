#include "rooftile/pipeline/built_model.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/python.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/rebatch.h"

namespace rooftile {
namespace {

// As the package ends where it can say why there is no model.
constexpr int kRefused = 2;
constexpr std::chrono::seconds kBuildLimit{120};
constexpr const char* kNeedsPackage =
    "libraries of Python build more, where its package rooftile is installed: pip install . in a "
    "checkout of Rooftile";

// The precisions that a capture runs a model in: they decide which attention it takes.
bool is_captured_in(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::fp16 || dtype == Dtype::fp32;
}

std::vector<std::string> flags_of(const ReadOptions& options) {
  std::vector<std::string> flags;
  if (options.mode == Mode::training) flags.emplace_back("--mode=train");
  if (options.dtype && is_captured_in(*options.dtype)) {
    flags.push_back(fmt::format("--dtype={}", to_string(*options.dtype)));
  }
  if (options.batch) flags.push_back(fmt::format("--batch={}", *options.batch));
  if (options.seq) flags.push_back(fmt::format("--seq={}", *options.seq));
  return flags;
}

// A file without a name, gone with its descriptor.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("rooftile", MFD_CLOEXEC)) {}
  int descriptor() const { return file_.get(); }
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_.get()); }
  std::string head() const {
    std::array<char, 4096> bytes{};
    const ssize_t size = ::pread(file_.get(), bytes.data(), bytes.size(), 0);
    return {bytes.data(), static_cast<std::size_t>(size > 0 ? size : 0)};
  }

 private:
  Descriptor file_;
};

// The reports name the model as the user did.
Workload renamed(Workload workload, const std::string& path, const std::string& target) {
  workload.sources = {target};
  for (Op& op : workload.ops) {
    if (op.source.file == path) op.source.file = target;
  }
  return workload;
}

Result<Workload> read_capture(const MemoryFile& file, const std::string& target) {
  Result<Input> captured = read_input(file.path(), {});
  if (!captured) return tl::unexpected(captured.error());
  return renamed(std::move(captured->workload), file.path(), target);
}

Result<Workload> build_model(const std::string& target, const ReadOptions& options) {
  if (options.mode == Mode::decode) {
    return fail("a decode step is derived from configs that are read without Python");
  }
  for (const std::filesystem::path& python : python_candidates()) {
    const MemoryFile file;
    if (file.descriptor() < 0) return fail(system_message(errno));
    std::vector<std::string> words{python.string(), "-m", "rooftile._build", target};
    for (std::string& flag : flags_of(options)) words.push_back(std::move(flag));
    const Result<int> code = run_program(std::move(words), file.descriptor(), kBuildLimit);
    if (!code) return tl::unexpected(code.error());
    if (*code == 0) return read_capture(file, target);
    if (*code == kRefused) return fail(file.head());
  }
  return fail(kNeedsPackage);
}

// Models by everything but the batch.
class Builder {
 public:
  Result<Workload> build(const std::string& target, const ReadOptions& options) {
    const std::scoped_lock lock(mutex_);
    ReadOptions any_batch = options;
    any_batch.batch.reset();
    const auto key = std::pair(target, flags_of(any_batch));
    const auto known = built_.find(key);
    const std::int64_t batch = options.batch.value_or(1);
    if (known != built_.end() && known->second.batch == batch) return known->second;
    // At batch 1 every size holds the batch, so it is no start for another one.
    if (known != built_.end() && known->second.batch.value_or(1) > 1 && batch > 1) {
      if (auto scaled = at_batch(known->second, batch)) return std::move(*scaled);
    }
    Result<Workload> workload = build_model(target, options);
    if (workload && workload->batch) built_.insert_or_assign(key, *workload);
    return workload;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<std::string>>, Workload> built_;
};

}  // namespace

std::function<Result<Workload>(const std::string& target, const ReadOptions& options)>
model_builder() {
  return [builder = std::make_shared<Builder>()](const std::string& target,
                                                 const ReadOptions& options) {
    return builder->build(target, options);
  };
}

}  // namespace rooftile
