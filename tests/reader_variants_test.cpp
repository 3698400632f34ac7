// Small changes of configs, models, exports, captures and recordings, each read as before. The
// seeds are the fuzz targets' corpora, a config of each kind of model, and the graphs in the tests
// of the ONNX reader; tests/golden/variants/readers has a line for each variant.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <onnx/defs/printer.h>
#include <sqlite3.h>

#include <array>
#include <filesystem>
#include <functional>
#include <regex>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/base/byte_stream.h"
#include "rooftile/readers/hf_config/families.h"
#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/readers/kineto/capture_reader.h"
#include "rooftile/readers/kineto/kineto_reader.h"
#include "rooftile/readers/nsys/nsys_export.h"
#include "rooftile/readers/nsys/nsys_reader.h"
#include "rooftile/readers/onnx/onnx_models.h"
#include "rooftile/readers/pt2/pt2_archives.h"
#include "rooftile/readers/pt2/pt2_reader.h"
#include "rooftile/readers/timings_reader.h"
#include "script_spec.h"
#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/line_mutator.h"
#include "tests/fuzz/onnx_mutator.h"
#include "tests/support/conclusions.h"
#include "tests/support/golden.h"
#include "tests/support/model_configs.h"
#include "tests/support/variants.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;
const fs::path kTests = fs::path(ROOFTILE_ROOT) / "tests";

using Lines = std::vector<std::string>;

std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(extension)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// All that is concluded, or where it cannot be read.
Lines lines_of(const Result<Workload>& workload, const char* device = "h100_sxm") {
  if (!workload) return {"error " + workload.error().where};
  return conclusions(*workload, model_on(device));
}

// ---- texts in JSON

struct JsonKind {
  const char* name;       // of the golden
  const char* folder;     // of the seeds
  const char* extension;  // of those
  int variants;
  Lines (*read)(const std::string& text);
};

Lines read_config(const std::string& text) {
  ReadOptions options;
  options.mode = Mode::decode;
  options.batch = 3;
  return lines_of(parse_hf_config(text, "config.json", options), "a100_sxm_80gb");
}

Lines read_program(const std::string& text) {
  return lines_of(
      read_pt2_bytes(pt2_test::zip({{"models/model.json", text}}), "m.pt2", ReadOptions()));
}

Lines read_capture(const std::string& text) {
  return lines_of(read_capture_bytes(*stream_of(text, std::size_t{1} << 20U), "-"));
}

Lines read_recording(const std::string& text) {
  const Result<Timeline> timeline = read_kineto_bytes(*stream_of(text, std::size_t{1} << 20U), "-");
  if (!timeline) return {"error " + timeline.error().where};
  return lines_of(measured_workload({summarize(*timeline)}));
}

class JsonVariants : public testing::TestWithParam<JsonKind> {};

TEST_P(JsonVariants, AreReadAsBefore) {
  const JsonKind& kind = GetParam();
  Variants variants(kTests / "golden/variants/readers" / fmt::format("{}.txt", kind.name));
  for (const fs::path& file : files_in(kTests / "fuzz/corpus" / kind.folder, kind.extension)) {
    const std::string name = file.filename().string(), text = file_text(file);
    variants.seed(name, kind.read(text));
    for (int i = 0; i < kind.variants; ++i) {
      const std::string other =
          fuzzing::JsonMutator(text, hash_of(fmt::format("{} {}", name, i))).mutate();
      if (other != text) variants.add(change_text(text, other), kind.read(other));
    }
  }
  variants.expect();
}

INSTANTIATE_TEST_SUITE_P(
    Readers, JsonVariants,
    testing::Values(JsonKind{"configs", "hf_config", ".json", 15, &read_config},
                    JsonKind{"pt2", "pt2", ".json", 150, &read_program},
                    JsonKind{"capture", "capture", "_step.json", 60, &read_capture},
                    JsonKind{"kineto", "kineto", ".json", 120, &read_recording}),
    [](const auto& test) { return std::string(test.param.name); });

// ---- a config of each kind of model

constexpr int kOfConfig = 12;
constexpr std::uint32_t kStepsOfConfig = 4;

Lines operations_of(const std::string& config, Mode mode) {
  ReadOptions options;
  options.mode = mode;
  options.batch = 3;
  const Result<Workload> workload = parse_hf_config(config, "config.json", options);
  if (!workload) return {"error"};
  Lines lines;
  for (const Op& op : workload->ops) lines.push_back(to_text(op));
  lines.push_back(workload_line(*workload));
  return lines;
}

class ConfigVariants : public testing::Test {
 public:
  explicit ConfigVariants(std::string type) : type_(std::move(type)) {}

  void TestBody() override {
    Variants variants(kTests / "golden/variants/configs" / (type_ + ".txt"));
    std::string config = fmt::format(R"({{"model_type": "{}"{}}})", type_, sizes_of(type_));
    const Lines seed = operations_of(config, Mode::inference);
    if (seed == Lines{"error"}) config = fmt::format(R"({{"model_type": "{}"}})", type_);
    variants.seed("inference", operations_of(config, Mode::inference));
    const Lines trained = operations_of(config, Mode::training);
    variants.add("training", trained);
    for (int i = 0; i < kOfConfig; ++i) {
      std::string other = config, change;
      const std::uint32_t first = hash_of(fmt::format("{} {}", type_, i));
      for (std::uint32_t step = 0; step < kStepsOfConfig; ++step) {  // most members mean nothing
        const std::string next = fuzzing::JsonMutator(other, first + step).mutate();
        if (next != other) change += (change.empty() ? "" : "; ") + change_text(other, next);
        other = next;
      }
      variants.add(change, operations_of(other, Mode::inference));
    }
    variants.expect();
  }

 private:
  std::string type_;
};

const bool kRegistered = [] {
  for (const std::string& type : hf::known_model_types()) {
    std::string name = type;
    for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    testing::RegisterTest("ConfigVariants", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [type]() -> ConfigVariants* { return new ConfigVariants(type); });
  }
  return true;
}();

// ---- ONNX models: the graphs in the tests of the reader

constexpr std::uint32_t kOfModel = 8;

std::vector<onnx::ModelProto> models_in(const fs::path& file) {
  std::vector<onnx::ModelProto> models;
  const std::string text = file_text(file);
  const bool is_export = file.filename().string().find("export") != std::string::npos;
  for (std::size_t at = text.find("R\"("); at != std::string::npos;
       at = text.find("R\"(", at + 1)) {
    const std::string graph = text.substr(at + 3, text.find(")\"", at) - at - 3);
    try {
      models.push_back(model_of(graph, is_export ? 17 : 21));
      if (is_export) models.back().set_producer_name("pytorch");
    } catch (const std::exception&) {  // a part of one
    }
  }
  return models;
}

class ModelVariants : public testing::TestWithParam<fs::path> {};

TEST_P(ModelVariants, AreReadAsBefore) {
  Variants variants(kTests / "golden/variants/readers" / (GetParam().stem().string() + ".txt"));
  const std::vector<onnx::ModelProto> models = models_in(GetParam());
  for (std::size_t number = 0; number < models.size(); ++number) {
    const std::string text = onnx::ProtoToString(models[number]);
    variants.seed(fmt::format("model {}", number), lines_of(read_model(models[number])));
    const std::uint32_t first = hash_of(text);
    for (std::uint32_t i = 0; i < kOfModel; ++i) {
      onnx::ModelProto model = models[number];
      const onnx::ModelProto donor = models[(number + i) % models.size()];
      fuzzing::ModelMutator(model, donor, first + i).mutate();
      variants.add(change_text(text, onnx::ProtoToString(model)), lines_of(read_model(model)));
    }
  }
  variants.expect();
}

INSTANTIATE_TEST_SUITE_P(
    Readers, ModelVariants,
    testing::ValuesIn(files_in(fs::path(ROOFTILE_ROOT) / "src/rooftile/readers/onnx", "_test.cpp")),
    [](const auto& test) { return test.param.stem().string(); });

// ---- Nsight Systems: statements of SQL that make an export

constexpr int kOfExport = 60;

// None where SQL refuses a statement.
std::optional<std::string> bytes_of(const std::string& sql) {
  sqlite3* handle = nullptr;
  std::optional<std::string> bytes;
  if (sqlite3_open(":memory:", &handle) == SQLITE_OK &&
      sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    sqlite3_int64 size = 0;
    unsigned char* const data = sqlite3_serialize(handle, "main", &size, 0);
    bytes.emplace(reinterpret_cast<char*>(data), static_cast<std::size_t>(size));
    sqlite3_free(data);
  }
  sqlite3_close(handle);
  return bytes;
}

Lines read_export_of(const std::string& sql) {
  const std::optional<std::string> bytes = bytes_of(sql);
  if (!bytes) return {"no SQL"};
  const Result<std::vector<Timeline>> timelines = read_nsys_bytes(*bytes, "run.sqlite");
  if (!timelines) return {"error " + timelines.error().where};
  std::vector<TraceSummary> summaries;
  for (const Timeline& timeline : *timelines) summaries.push_back(summarize(timeline));
  return lines_of(measured_workload(std::move(summaries)));
}

std::string export_sql(std::string_view schema) {
  std::string sql = std::string(schema) + std::string(kStringsSql) + std::string(kCallsSql) +
                    std::string(kRangesSql);
  sql += with_ids(
      "INSERT INTO NVTX_EVENTS VALUES(500,5000,59,NULL,'train step',$T,NULL,NULL);"
      "INSERT INTO NVTX_EVENTS VALUES(5000,9900,59,NULL,'train step',$T,NULL,NULL);"
      "INSERT INTO NVTX_EVENTS VALUES(700,1400,60,3,'aten::mm, seq = 4, sizes = [[8, 16], [16, "
      "32]]',$T,NULL,NULL);"
      "INSERT INTO NVTX_EVENTS VALUES(800,NULL,34,NULL,NULL,$T,NULL,6);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, streamId, correlationId, "
      "globalPid, bytes, copyKind, srcKind, dstKind);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(2000,2600,0,7,44,$P,4096,1,0,2);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(6000,6900,0,13,46,$P,8192,2,2,1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start, end, deviceId, streamId, correlationId, "
      "globalPid, value, bytes, memKind);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES(2700,2750,0,7,45,$P,0,512,2);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, globalPid, correlationId, "
      "syncType);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES(7000,7400,$P,47,3);"
      "CREATE TABLE TARGET_INFO_GPU(id, name, memoryBandwidth, smCount, computeMajor, "
      "computeMinor, totalMemory);"
      "INSERT INTO TARGET_INFO_GPU VALUES(0,'NVIDIA H100',3350000000000,132,9,0,85000000000);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(900,950,0,$T,42,3,0,NULL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(955,990,1,$T,43,4,0,NULL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(1900,2700,0,$T,44,5,0,NULL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(5100,5200,0,$T,48,3,0,NULL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(10,20,0,$T,0,8,0,NULL);");
  for (const char* const kernel :
       {"1000,1500,0,7,42,$P", "1600,1600,0,13,43,$P", "5300,5900,0,7,48,$P"}) {
    sql += kernel_sql(kernel);
  }
  return sql;
}

TEST(ExportVariants, AreReadAsBefore) {
  Variants variants(kTests / "golden/variants/readers/nsys.txt");
  for (const auto& [name, schema] :
       {std::pair{"old schema", kOldSql}, std::pair{"new schema", kNewSql}}) {
    const std::string sql = export_sql(schema);
    variants.seed(name, read_export_of(sql));
    for (int i = 0; i < kOfExport; ++i) {
      const std::uint32_t seed = hash_of(fmt::format("{} {}", name, i));
      const std::string other = fuzzing::LineMutator(sql, seed, ';').mutate();
      if (other != sql) variants.add(change_text(sql, other), read_export_of(other));
    }
  }
  variants.expect();
}

// ---- timings

TEST(TimingVariants, AreReadAsBefore) {
  Variants variants(kTests / "golden/variants/readers/timings.txt");
  for (const fs::path& file : files_in(kTests / "fuzz/corpus/timings", "")) {
    const std::string text = file_text(file);
    const auto read = [](const std::string& csv) { return lines_of(parse_timings(csv, "-")); };
    variants.seed(file.filename().string(), read(text));
    for (std::uint32_t i = 0; i < 60; ++i) {
      const std::string other =
          fuzzing::LineMutator(text, hash_of(text) + i, i % 2 ? ',' : '\n').mutate();
      if (other != text) variants.add(change_text(text, other), read(other));
    }
  }
  variants.expect();
}

}  // namespace
}  // namespace rooftile
