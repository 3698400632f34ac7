// The reading half of the text form.
#include "rooftile/workload/workload_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "rooftile/base/text.h"
#include "rooftile/workload/encoded_name.h"
#include "rooftile/workload/op_fields.h"
#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

struct Word {
  std::string_view key, value;
  bool used = false;
};

// The words key=value of one line; remembers the first mistake.
class FieldParser {
 public:
  explicit FieldParser(std::vector<Word> words) : words_(std::move(words)) {}

  void required(std::string_view key, std::int64_t& size) {
    if (const Word* word = take(key)) {
      size = integer(*word);
    } else {
      mistake(fmt::format("{} is missing", key));
    }
  }
  void optional(std::string_view key, std::int64_t& size, std::int64_t otherwise) {
    const Word* word = take(key);
    size = word == nullptr ? otherwise : integer(*word);
  }
  void flag(std::string_view key, bool& value, bool otherwise) {
    const Word* word = take(key);
    value = otherwise;
    if (word == nullptr) return;
    if (word->value == "1" || word->value == "0") {
      value = word->value == "1";
    } else {
      mistake(fmt::format("{}={}: expected 0 or 1", key, word->value));
    }
  }
  template <class Enum, class Names>
  void choice(std::string_view key, Enum& value, const Names& names, Enum otherwise) {
    value = otherwise;
    const Word* word = take(key);
    if (word == nullptr) return;
    const auto found = std::find(names.begin(), names.end(), word->value);
    if (found == names.end()) {
      const std::vector<std::string> all(names.begin(), names.end());
      mistake(fmt::format("{}={}: expected one of {}", key, rooftile::quoted(word->value),
                          join(all, ", ")));
    } else {
      value = static_cast<Enum>(found - names.begin());
    }
  }
  void word(std::string_view key, std::string& value) {
    if (const Word* word = take(key)) value = decode_name(word->value);
  }
  void extents(std::string_view key, Extents& sizes, std::optional<std::int64_t> otherwise) {
    const Word* word = take(key);
    if (word == nullptr) {
      if (!otherwise) mistake(fmt::format("{} is missing", key));
      return;
    }
    for (const std::string_view part : split(word->value, 'x')) {
      const std::optional<std::int64_t> size = parse_integer(part);
      if (!size || sizes.size() >= kMaxAxes) {
        mistake(fmt::format("{}: expected sizes such as 3x3, found {}", key,
                            rooftile::quoted(word->value)));
        return;
      }
      sizes.push_back(*size);
    }
  }
  void extents_like(std::string_view key, Extents& sizes, const Extents& usual) {
    if (has(key)) {
      extents(key, sizes, 0);
    } else {
      take(key);
      sizes = usual;
    }
  }
  void dtype(std::string_view key, Dtype& value) {
    const Word* word = take(key);
    if (word == nullptr) return;
    if (const std::optional<Dtype> parsed = parse_dtype(word->value)) {
      value = *parsed;
    } else {
      mistake(fmt::format("{}: unknown dtype {}", key, rooftile::quoted(word->value)));
    }
  }
  const Word* take(std::string_view key) {
    known_.push_back(key);
    const auto found = std::find_if(words_.begin(), words_.end(),
                                    [&](const Word& word) { return word.key == key; });
    if (found == words_.end()) return nullptr;
    found->used = true;
    return &*found;
  }
  bool has(std::string_view key) const {
    return std::any_of(words_.begin(), words_.end(),
                       [&](const Word& word) { return word.key == key; });
  }
  void mistake(std::string message) {
    if (!mistake_) mistake_ = std::move(message);
  }
  // The first mistake, or a word that no field took.
  std::optional<std::string> result() const {
    if (mistake_) return mistake_;
    for (const Word& word : words_) {
      if (!word.used) {
        return fmt::format("unknown or repeated key {}, expected {}", rooftile::quoted(word.key),
                           join({known_.begin(), known_.end()}, ", "));
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMaxAxes = 16;

  std::int64_t integer(const Word& word) {
    const std::optional<std::int64_t> value = parse_integer(word.value);
    if (!value) {
      mistake(fmt::format("{}: expected a whole number, found {}", word.key,
                          rooftile::quoted(word.value)));
    }
    return value.value_or(1);
  }

  std::vector<Word> words_;
  std::vector<std::string_view> known_;
  std::optional<std::string> mistake_;
};

// A size given once stands for all spatial axes; sizes equal to the default become empty, so that
// equal operations compare equal.
void spread(Extents& sizes, std::size_t axes, std::optional<std::int64_t> otherwise) {
  if (sizes.size() == 1 && axes > 1) sizes.assign(axes, sizes.front());
  if (otherwise && std::all_of(sizes.begin(), sizes.end(),
                               [&](std::int64_t size) { return size == *otherwise; })) {
    sizes.clear();
  }
}

void complete(Convolution& conv) {
  const std::size_t axes = conv.input.size();
  spread(conv.kernel, axes, std::nullopt);
  spread(conv.stride, axes, 1);
  spread(conv.dilation, axes, 1);
  spread(conv.pad_begin, axes, 0);
  spread(conv.pad_end, axes, 0);
  spread(conv.output_pad, axes, 0);
}

void complete(Pooling& pool) { spread(pool.kernel, pool.input.size(), std::nullopt); }

template <class B>
void complete(B&) {}

template <std::size_t... I>
std::optional<Body> make_body(std::string_view kind, std::index_sequence<I...>) {
  std::optional<Body> body;
  (void)((kind == kind_name(Body(std::in_place_index<I>))
              ? (body.emplace(std::in_place_index<I>), true)
              : false) ||
         ...);
  return body;
}

std::string known_kinds() {
  return "gemm, conv, attention, recurrent, norm, softmax, pool, elementwise, reduce, embedding, "
         "layout, cast, collective, optimizer, other";
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t i = 0;
  while (i < line.size()) {
    if (line[i] == ' ' || line[i] == '\t') {
      ++i;
      continue;
    }
    if (line[i] == '#') break;
    const std::size_t end = std::min(line.find_first_of(" \t", i), line.size());
    words.push_back(line.substr(i, end - i));
    i = end;
  }
  return words;
}

Result<std::vector<Word>> key_values(const std::vector<std::string_view>& words,
                                     std::size_t first) {
  std::vector<Word> pairs;
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return fail("expected key=value, found " + rooftile::quoted(words[i]));
    }
    pairs.push_back({words[i].substr(0, equals), words[i].substr(equals + 1)});
  }
  return pairs;
}

void parse_common(FieldParser& parser, Op& op) {
  parser.dtype("weight_dtype", op.dtypes.weight);
  parser.dtype("out_dtype", op.dtypes.output);
  visit_fields(parser, op.streams);
  parser.choice("phase", op.phase, kPhaseNames, Phase::forward);
  parser.optional("count", op.count, 1);
  op.outputs = {op.name};
  if (const Word* word = parser.take("from")) op.inputs = decode_names(word->value);
  if (const Word* word = parser.take("to")) op.outputs = decode_names(word->value);
  parser.word("file", op.source.file);
  parser.optional("line", op.source.line, op.source.line);
  parser.word("node", op.source.node);
  parser.word("module", op.source.module);
  if (const Word* word = parser.take("measured_s")) {
    const std::optional<double> time = parse_number(word->value);
    if (time && *time >= 0 && *time < 1e9) {
      op.measured = Seconds(*time);
    } else {
      parser.mistake("measured_s: expected seconds, found " + rooftile::quoted(word->value));
    }
  }
}

Result<Op> parse_op(const std::vector<std::string_view>& words, std::string_view source,
                    std::int64_t line) {
  Op op;
  std::optional<Body> body =
      make_body(words[0], std::make_index_sequence<std::variant_size_v<Body>>());
  if (!body) {
    return fail(fmt::format("unknown operation {}, expected {}", rooftile::quoted(words[0]),
                            known_kinds()));
  }
  if (words.size() < 3) return fail("expected: kind name dtype key=value …");
  op.body = std::move(*body);
  op.name = decode_name(words[1]);
  const std::optional<Dtype> dtype = parse_dtype(words[2]);
  if (!dtype) {
    return fail(fmt::format("unknown dtype {} after the name {}", rooftile::quoted(words[2]),
                            rooftile::quoted(op.name)));
  }
  op.dtypes = Dtypes(*dtype);
  op.source.file = source;
  op.source.line = line;
  Result<std::vector<Word>> pairs = key_values(words, 3);
  if (!pairs) return tl::unexpected(pairs.error());
  FieldParser parser(std::move(*pairs));
  std::visit(
      [&](auto& fields) {
        visit_fields(parser, fields);
        complete(fields);
      },
      op.body);
  parse_common(parser, op);
  if (const std::optional<std::string> mistake = parser.result()) return fail(*mistake);
  if (const std::optional<std::string> mistake = find_invalid_dim(op)) return fail(*mistake);
  return op;
}

std::optional<std::int64_t> parse_positive(FieldParser& parser, std::string_view key,
                                           std::string_view text) {
  const std::optional<std::int64_t> size = parse_integer(text);
  if (size && *size > 0 && *size <= kMaxSize) return size;
  parser.mistake(
      fmt::format("{}: expected a size of at least 1, found {}", key, rooftile::quoted(text)));
  return std::nullopt;
}

void read_bytes(FieldParser& parser, std::string_view key, std::optional<double>& bytes) {
  const Word* word = parser.take(key);
  if (word == nullptr) return;
  bytes = parse_number(word->value);
  if (bytes && *bytes >= 0 && *bytes <= kMaxElements) return;
  parser.mistake(fmt::format("{}: expected bytes, found {}", key, rooftile::quoted(word->value)));
}

// workload mode=training parameters=124439808 batch=8 sequence=1024
Result<bool> parse_header(const std::vector<std::string_view>& words, Workload& workload) {
  Result<std::vector<Word>> pairs = key_values(words, 1);
  if (!pairs) return tl::unexpected(pairs.error());
  FieldParser parser(std::move(*pairs));
  parser.choice("mode", workload.mode, kModeNames, Mode::inference);
  parser.choice("graph", workload.graph, kGraphKindNames, GraphKind::none);
  if (const Word* word = parser.take("parameters")) {
    workload.parameters = parse_integer(word->value);
    if (!workload.parameters || *workload.parameters < 0) {
      parser.mistake("parameters: expected a whole number, found " + rooftile::quoted(word->value));
    }
  }
  if (const Word* word = parser.take("batch")) {
    workload.batch = parse_positive(parser, "batch", word->value);
  }
  if (const Word* word = parser.take("sequence")) {
    workload.sequence = parse_positive(parser, "sequence", word->value);
  }
  read_bytes(parser, "kv_cache_bytes", workload.kv_cache_bytes);
  read_bytes(parser, "recurrent_state_bytes", workload.recurrent_state_bytes);
  read_bytes(parser, "weight_bytes", workload.weight_bytes);
  if (const Word* word = parser.take("unused")) {
    workload.unused_options = decode_names(word->value);
  }
  if (const Word* word = parser.take("source")) workload.sources = decode_names(word->value);
  if (const std::optional<std::string> mistake = parser.result()) return fail(*mistake);
  return true;
}

Result<bool> parse_skipped(const std::vector<std::string_view>& words, Workload& workload) {
  const std::optional<std::int64_t> count =
      words.size() == 3 ? parse_integer(words[2]) : std::nullopt;
  if (!count || *count < 0) return fail("expected: skipped name count");
  workload.skipped[decode_name(words[1])] = *count;
  return true;
}

Result<bool> parse_line(std::string_view line, std::string_view source, std::int64_t number,
                        Workload& workload) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.empty()) return true;
  if (words[0] == "workload") return parse_header(words, workload);
  if (words[0] == "skipped") return parse_skipped(words, workload);
  if (words[0] == "note" && words.size() == 2) {
    workload.notes.push_back(decode_name(words[1]));
    return true;
  }
  const std::string_view file = workload.sources.empty() ? source : workload.sources.front();
  Result<Op> op = parse_op(words, file, number);
  if (!op) return tl::unexpected(op.error());
  workload.ops.push_back(std::move(*op));
  return true;
}

}  // namespace

bool is_operation_line(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.size() < 3 || words[1] == "=") return false;
  const bool has_value = std::any_of(words.begin() + 2, words.end(), [](std::string_view word) {
    const std::size_t equals = word.find('=');
    return equals != std::string_view::npos && equals > 0 && equals + 1 < word.size();
  });
  return has_value && (make_body(words[0], std::make_index_sequence<std::variant_size_v<Body>>()) ||
                       parse_dtype(words[2]));
}

Result<Workload> parse_workload(std::string_view text, std::string_view source) {
  Workload workload;
  workload.sources = {std::string(source)};
  constexpr std::size_t kMostOperations = 1'000'000;
  std::int64_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (workload.ops.size() > kMostOperations) {
      return fail(fmt::format("found more than {} operations", kMostOperations),
                  std::string(source));
    }
    const Result<bool> parsed = parse_line(line, source, number, workload);
    if (!parsed) {
      const std::string place = source == "-" ? "" : std::string(source) + ": ";
      return fail(parsed.error().message, fmt::format("{}line {}", place, number));
    }
  }
  return workload;
}

}  // namespace rooftile
