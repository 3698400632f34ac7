#include "rooftile/pipeline/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/identify.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

// Names of the entries, sorted; hidden ones are left out.
std::vector<std::string> entries_of(const fs::path& folder) {
  constexpr std::size_t kMost = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
    if (names.size() == kMost) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

// By its content: many programs have a config.json.
bool is_model_config(const fs::path& file) {
  constexpr std::size_t kHeadBytes = std::size_t{1} << 16;
  const Result<std::string> head = read_head(file.string(), kHeadBytes);
  return head && hf::looks_like_config("", *head);
}

std::optional<ModelFolder> pipeline_in(const fs::path& folder,
                                       const std::vector<std::string>& names) {
  if (!is_one_of("model_index.json", names)) return std::nullopt;
  ModelFolder found;
  const auto file_of = [&](const std::string& name) { return folder / name / "config.json"; };
  for (const std::string& name : names) {
    if (is_model_config(file_of(name))) found.others.push_back(name);
  }
  for (const char* denoiser : {"transformer", "unet"}) {
    const auto entry = std::find(found.others.begin(), found.others.end(), denoiser);
    if (entry == found.others.end()) continue;
    found.file = file_of(denoiser).string();
    found.others.erase(entry);
    return found;
  }
  return std::nullopt;
}

Result<std::optional<ModelFolder>> onnx_in(const fs::path& folder,
                                           const std::vector<std::string>& names) {
  std::vector<std::string> models;
  for (const std::string& name : names) {
    if (lower(name).ends_with(".onnx")) models.push_back(name);
  }
  const auto usual = std::find(models.begin(), models.end(), "model.onnx");
  if (models.size() > 1 && usual == models.end()) {
    return fail(fmt::format("several ONNX models, name one: {}", join(models, ", ")),
                folder.string());
  }
  if (models.empty()) return std::nullopt;
  const std::string name = usual == models.end() ? models.front() : *usual;
  std::erase(models, name);
  return ModelFolder{(folder / name).string(), std::move(models)};
}

}  // namespace

Result<std::optional<ModelFolder>> model_in_folder(const std::string& folder) {
  const fs::path path(folder);
  const std::vector<std::string> names = entries_of(path);
  const fs::path config = path / "config.json";
  if (is_one_of("config.json", names) && is_model_config(config)) {
    ModelFolder found{config.string(), {}};
    std::copy_if(names.begin(), names.end(), std::back_inserter(found.others),
                 [](const std::string& name) { return name.ends_with(".onnx"); });
    return found;
  }
  if (auto pipeline = pipeline_in(path, names)) return pipeline;
  return onnx_in(path, names);
}

}  // namespace rooftile
