// Products and convolutions whose names are lists of words. Sources: CUTLASS documentation,
// "Kernel name"; cuBLAS, cuDNN and cuBLASLt name their kernels by the same words.
#include <algorithm>
#include <array>

#include "rooftile/analysis/kernel_families.h"
#include "rooftile/analysis/kernel_matrix_words.h"

namespace rooftile::kernel_name_detail {
namespace {

using Words = std::vector<std::string_view>;

// s16816gemm, h884cudnn, sgemm, s64x128x16gemm, i16832gemm, s1688tf32gemm, s16816dgrad: the
// accumulator, the Tensor Core instruction and the task in one word.
struct InstructionWord {
  char accumulator = 0;
  std::string_view shape{};  // "16816"; empty on CUDA cores
  std::string_view math{};   // between shape and task: "tf32"
  KernelClass task = KernelClass::gemm;
  KernelDirection direction = KernelDirection::unknown;
};

// The longest task word at the end: spgemm before gemm.
const TaskWord* task_at_end(std::string_view word) {
  const TaskWord* best = nullptr;
  for (const TaskWord& task : kTaskWords) {
    if (ends_with(word, task.text) && (!best || task.text.size() > best->text.size())) best = &task;
  }
  return best;
}

std::optional<InstructionWord> parse_instruction(std::string_view word) {
  const TaskWord* task = task_at_end(word);
  if (!task) return std::nullopt;
  word.remove_suffix(task->text.size());
  InstructionWord found{.task = task->task, .direction = task->direction};
  if (starts_with(word, "gc")) return InstructionWord{'c', {}, {}, task->task, task->direction};
  if (word.empty() || !contains("shdicz", word.substr(0, 1))) return std::nullopt;
  found.accumulator = word.front();
  word.remove_prefix(1);
  const std::size_t length = std::min(word.find_first_not_of("0123456789x"), word.size());
  found.shape = word.substr(0, length);
  found.math = word.substr(length);
  if (!found.math.empty() && !parse_dtype_word(found.math)) return std::nullopt;
  return found;
}

std::optional<Dtype> accumulator_of(char letter) {
  switch (letter) {
    case 's':
      return Dtype::fp32;
    case 'h':
      return Dtype::fp16;
    case 'd':
      return Dtype::fp64;
    case 'i':
      return Dtype::int32;
    default:
      return std::nullopt;
  }
}

// The operands' type where the instruction alone settles it: half precision accumulates only
// products of halves, and an instruction of depth 8 on 32-bit operands is a TF32 one.
std::optional<Dtype> operands_of(const InstructionWord& word, int capability) {
  if (!word.math.empty()) return parse_dtype_word(word.math);
  switch (word.accumulator) {
    case 'h':
      return Dtype::fp16;
    case 'd':
      return Dtype::fp64;
    case 'i':
      return word.shape.empty() ? std::nullopt : std::optional(Dtype::int8);
    case 's':
      if (word.shape.empty()) return Dtype::fp32;
      return word.shape == "1688" && capability >= 80 ? std::optional(Dtype::tf32) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// Words of CUTLASS 2 and of cuBLAS and cuDNN by architecture:
// cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_tn_align8,
// ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn.
class WordListParser {
 public:
  explicit WordListParser(const Words& words) : words_(words) {}

  std::optional<KernelFacts> parse() {
    for (const std::string_view word : words_) read(word);
    if (!instruction_) return std::nullopt;
    finish();
    return facts_;
  }

 private:
  void read(std::string_view word) {
    if (!instruction_) {
      // CUTLASS 3 may leave the instruction out: cutlass3x_sm90_tensorop_gemm_bf16_…
      if (is_cutlass3_ && word == "gemm") instruction_ = InstructionWord{};
      if (!instruction_) instruction_ = parse_instruction(word);
      if (instruction_) {
        facts_.kernel_class = instruction_->task;
        facts_.direction = instruction_->direction;
        return;
      }
    } else if (const auto dtype = parse_dtype_word(word)) {
      types_.push_back(*dtype);
    } else if (const auto sizes = parse_sizes(word)) {
      sizes_.push_back(*sizes);
    } else {
      read_alignment(word, facts_);
      read_layout(word, facts_);
      // cutlass3x: 0 stands for an automatic number.
      if (sizes_.size() == 2 && facts_.stages == 0 && is_cutlass3_) read_stages(word);
    }
    read_flag(word);
  }

  void read_flag(std::string_view word) {
    if (const int capability = parse_architecture(word)) facts_.compute_capability = capability;
    if (word == "cutlass3x") is_cutlass3_ = true;
    if (ends_with(word, "tensorop")) facts_.tensor_core = true;
    if (word == "simt") facts_.tensor_core = false;
    if (is_split_k_word(word)) facts_.split_k = true;
    if (word == "winograd") is_winograd_ = true;
    const int number = static_cast<int>(take_whole_number(word));
    if (!instruction_ && number >= 50 && number <= 200) facts_.compute_capability = number;
  }

  void read_stages(std::string_view word) {
    facts_.stages = static_cast<int>(take_whole_number(word));
  }

  static std::int64_t take_whole_number(std::string_view word) {
    const auto number = take_number(word);
    return number && word.empty() ? *number : 0;
  }

  void finish() {
    const bool tensor_shape = instruction_->shape.size() > 2;
    if (tensor_shape) facts_.tensor_core = true;
    if (!facts_.tensor_core && instruction_->accumulator != 'c') facts_.tensor_core = false;
    facts_.accumulator = accumulator_of(instruction_->accumulator);
    // Single-element loads belong to this algorithm and say nothing about the operands.
    if (is_winograd_) facts_.alignment = 0;
    if (is_cutlass3_) {
      finish_cutlass3();
    } else {
      finish_sizes();
      facts_.dtype =
          types_.empty() ? operands_of(*instruction_, facts_.compute_capability) : types_.front();
    }
  }

  void finish_sizes() {
    if (!sizes_.empty()) set_tile(sizes_[0], facts_);
    if (sizes_.size() < 2 || sizes_[1].size() != 2 || sizes_[0].size() != 2) return;
    facts_.tile_k = sizes_[1][0];
    facts_.stages = static_cast<int>(sizes_[1][1]);
  }

  // Types of A, B, the accumulator, C and D.
  void finish_cutlass3() {
    if (!sizes_.empty()) set_tile(sizes_[0], facts_);
    if (!types_.empty()) facts_.dtype = types_.front();
    if (types_.size() > 2) facts_.accumulator = types_[2];
  }

  const Words& words_;
  KernelFacts facts_;
  std::optional<InstructionWord> instruction_;
  std::vector<Dtype> types_;  // after the instruction
  std::vector<std::vector<std::int64_t>> sizes_;
  bool is_cutlass3_ = false, is_winograd_ = false;
};

}  // namespace

// cutlass_80_tensorop_…, wherever it stands: cutlass::Kernel2<cutlass_80_…>, mangled names.
std::optional<KernelFacts> parse_cutlass_name(const KernelName& name) {
  std::size_t begin = std::string_view::npos;
  for (const std::string_view start :
       {"cutlass_tensorop_", "cutlass_simt_", "cutlass_wmma_", "cutlass3x_", "cutlass_5",
        "cutlass_6", "cutlass_7", "cutlass_8", "cutlass_9", "cutlass_1"}) {
    begin = std::min(begin, name.whole.find(start));
  }
  if (begin == std::string_view::npos) return std::nullopt;
  std::string_view list = name.whole.substr(begin);
  list = list.substr(0, list.find_first_of(">:(, "));
  auto facts = WordListParser(words_of(list)).parse();
  if (facts) facts->library = contains(name.whole, "cudnn") ? "cudnn" : "cutlass";
  return facts;
}

// volta_scudnn_128x64_relu_interior_nn_v1, ampere_sgemm_128x64_nn, with prefixes as in
// void cudnn_infer_ampere_scudnn_…, _5x_cudnn_volta_scudnn_…, trt_ampere_h16816gemm_….
std::optional<KernelFacts> parse_name_by_architecture(const KernelName& name) {
  const Words words = words_of(name.function);
  const auto first = std::find_if(words.begin(), words.end(), [](std::string_view word) {
    return parse_architecture(word) != 0;
  });
  if (first == words.end()) return std::nullopt;
  auto facts = WordListParser(Words(first, words.end())).parse();
  if (!facts) return std::nullopt;
  const bool cudnn = facts->kernel_class == KernelClass::convolution;
  facts->library = words.front() == "trt" ? "tensorrt" : cudnn ? "cudnn" : "cublas";
  return facts;
}

}  // namespace rooftile::kernel_name_detail
