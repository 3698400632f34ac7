#include "rooftile/readers/python/commands.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/python/source_files.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDocumentBytes = std::size_t{256} << 10U;
constexpr std::size_t kMaxDocuments = 100;  // of one folder
constexpr std::size_t kMaxFolders = 100;    // of one folder
constexpr std::size_t kMaxWords = 200;      // of one command

bool is_launcher(std::string_view word) {
  word = word.substr(word.rfind('/') + 1);
  return word.starts_with("python") || is_one_of(word, {"torchrun", "accelerate", "deepspeed",
                                                        "horovodrun", "$PYTHON", "${PYTHON}"});
}

// Modules that start another program.
bool is_launching_module(std::string_view module) {
  return module.starts_with("torch.distributed") || module.starts_with("accelerate") ||
         is_one_of(module, {"torch.utils.bottleneck", "pdb", "cProfile", "deepspeed"});
}

bool is_option(std::string_view word) {
  const std::size_t dashes = word.find_first_not_of('-');
  return (dashes == 1 || dashes == 2) && std::isalpha(static_cast<unsigned char>(word[dashes]));
}

bool is_unclear(std::string_view value) {
  return value.find_first_of("$<>{}[]*|") != std::string_view::npos || contains(value, "...");
}

// Of CUDA_VISIBLE_DEVICES=0,1 among the words how many GPUs there are, a variable counting as
// several; empty without it.
std::optional<std::size_t> visible_gpus(const std::vector<std::string>& words) {
  constexpr std::string_view kVariable = "CUDA_VISIBLE_DEVICES=";
  for (const std::string& word : words) {
    if (!word.starts_with(kVariable)) continue;
    const std::string_view value = std::string_view(word).substr(kVariable.size());
    const bool is_one = !value.empty() && std::ranges::all_of(value, [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
    return is_one ? 1 : 2;
  }
  return std::nullopt;
}

// Where the options begin; sets the program, and leaves it empty where the words start none.
std::size_t read_program(const std::vector<std::string>& words, Command& command) {
  std::size_t at = 0;
  bool is_launched = false;
  for (; at < words.size() && command.script.empty(); ++at) {
    const std::string& word = words[at];
    if (word == "-m" && is_launched && at + 1 < words.size()) {
      if (is_launching_module(words[++at])) continue;
      command.script = words[at];
      command.is_module = true;
    } else if (word.ends_with(".py") && (is_launched || word.starts_with("./"))) {
      command.script = word;
    }
    is_launched = is_launched || is_launcher(word);
  }
  return at;
}

// Of the words of one command.
std::optional<Command> command_of(const std::vector<std::string>& words) {
  Command command;
  std::size_t values = 0;  // of the last option
  for (std::size_t at = read_program(words, command); at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (is_option(word)) {
      const std::size_t sign = word.find('=');
      const bool has_value = sign != std::string_view::npos;
      command.options.emplace_back(word.substr(0, sign), has_value ? word.substr(sign + 1) : "");
      values = has_value ? 1 : 0;
    } else if (!command.options.empty()) {
      command.options.back().second = ++values == 1 ? std::string(word) : kUnclear;
    }
  }
  for (auto& option : command.options) {
    if (is_unclear(option.second)) option.second = kUnclear;
  }
  return command.script.empty() ? std::nullopt : std::optional(command);
}

// `--gpus 0,1`
bool lists_gpus(const Command& command) {
  return std::ranges::any_of(command.options, [](const auto& option) {
    return contains(option.first, "gpu") && contains(option.second, ",");
  });
}

// `--precision 16`, `--fp16`, `--trainer.precision=bf16`
bool sets_precision(const Command* command) {
  return std::ranges::any_of(command->options, [](const auto& option) {
    return contains_any(option.first, {"precision", "fp16", "bf16", "--amp", "use_amp"});
  });
}

bool is_word_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// What lines of their own give shell variables: `LR=0.1`, `export SIZE=${SIZE:-224}`.
class ShellVariables {
 public:
  // Where the words of a command are nothing but that.
  void take(std::span<const std::string> words) {
    if (!words.empty() && words.front() == "export") words = words.subspan(1);
    const auto gives = [](const std::string& word) {
      const std::size_t sign = word.find('=');
      return sign != word.npos && sign > 0 &&
             std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
             std::ranges::all_of(word.substr(0, sign), is_word_letter);
    };
    if (!std::ranges::all_of(words, gives)) return;
    for (const std::string& word : words) {
      const std::size_t sign = word.find('=');
      values_[word.substr(0, sign)] = word.substr(sign + 1);
    }
  }

  // With what is known of its variables; a variable alone may hold several words.
  void add(const std::string& word, std::vector<std::string>& words) const {
    const std::string whole = filled_in(word);
    const bool is_alone = word.starts_with('$') && word.find_first_of("$/", 1) == word.npos;
    if (!is_alone || !contains(whole, " ")) return words.push_back(whole);
    for (const std::string_view part : split(whole, ' ')) {
      if (!part.empty() && words.size() < kMaxWords) words.emplace_back(part);
    }
  }

 private:
  static constexpr std::size_t kLongest = 2'000;

  std::string filled_in(std::string_view word) const {
    std::string filled;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t end = word[at] == '$' ? end_of_variable(word, at) : at + 1;
      const std::string_view part = word.substr(at, end - at);
      filled += filled.size() < kLongest ? value_of(part) : part;
      at = end;
    }
    return filled;
  }

  // Behind `$NAME` or `${NAME…}`.
  static std::size_t end_of_variable(std::string_view word, std::size_t at) {
    std::size_t end = at + 1;
    if (word.substr(end).starts_with('{'))
      return std::min(word.find('}', end), word.size() - 1) + 1;
    while (end < word.size() && is_word_letter(word[end])) ++end;
    return end;
  }

  // Of `${NAME:-default}` the default where no line gives the variable; the part itself where
  // nothing is known.
  std::string value_of(std::string_view part) const {
    if (!part.starts_with('$')) return std::string(part);
    std::string_view name = part.substr(1);
    std::string_view usual = part;
    if (name.starts_with('{') && name.ends_with('}')) {
      name = name.substr(1, name.size() - 2);
      const std::size_t sign = std::min(name.find(":-"), name.find(":="));
      if (sign != name.npos) usual = name.substr(sign + 2);
      name = name.substr(0, sign);
    }
    const auto known = values_.find(std::string(name));
    return known == values_.end() ? std::string(usual) : known->second;
  }

  std::unordered_map<std::string, std::string> values_;
};

// Splits a text into the words of its commands.
class CommandWords {
 public:
  void add(std::string_view text) {
    text_ = text;
    for (at_ = 0; at_ < text_.size(); ++at_) {
      if (quote_ != 0) {
        add_quoted(text_[at_]);
      } else {
        add_plain(text_[at_]);
      }
    }
    end_command();
  }

  std::vector<Command> commands;

 private:
  void add_quoted(char c) {
    if (c != quote_ && c != '\n') {
      word_ += c;
      return;
    }
    quote_ = 0;
    if (c == '\n') end_command();  // the apostrophe of a sentence
  }

  void add_plain(char c) {
    switch (c) {
      case '\\':
        return add_escaped();
      case '\'':
      case '"':
        quote_ = c;
        return;
      case ' ':
      case '\t':
      case '\r':
        return end_word();
      case '\n':
      case '`':
      case ';':
      case '&':
      case '|':
        return end_command();
      default:
        break;
    }
    if (c == '#' && word_.empty()) {
      at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    } else {
      word_ += c;
    }
  }

  // At the end of a line: it goes on.
  void add_escaped() {
    const std::size_t next = text_.find_first_not_of(" \t\r", at_ + 1);
    if (next != std::string_view::npos && text_[next] == '\n') {
      end_word();
      at_ = next;
    } else if (at_ + 1 < text_.size()) {
      word_ += text_[++at_];
    }
  }

  void end_word() {
    if (!word_.empty() && words_.size() < kMaxWords) variables_.add(word_, words_);
    word_.clear();
  }
  void end_command() {
    end_word();
    variables_.take(words_);
    const auto gpus = visible_gpus(words_);
    if (auto command = command_of(words_)) {
      command->is_on_one_gpu = gpus.value_or(exported_gpus_) == 1;
      command->is_on_several_gpus = gpus.value_or(exported_gpus_) > 1 || lists_gpus(*command);
      commands.push_back(*std::move(command));
    } else if (gpus) {
      exported_gpus_ = *gpus;
    }
    words_.clear();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  char quote_ = 0;
  std::size_t exported_gpus_ = 0;  // by a line of its own
  ShellVariables variables_;
  std::string word_;
  std::vector<std::string> words_;
};

bool is_document(const fs::path& path) {
  const std::string name = lower(path.filename().string());
  return name.starts_with("readme") || name.ends_with(".sh") || name == "makefile";
}

// Each folder is read once, however many programs there are.
class Documents {
 public:
  // Of the folder's documents.
  const std::vector<Command>& commands(const fs::path& folder) {
    const auto [place, is_new] = commands_.try_emplace(folder);
    if (!is_new) return place->second;
    const auto is_wanted = [](const fs::directory_entry& each, std::error_code& error) {
      return each.is_regular_file(error) && is_document(each.path());
    };
    for (const fs::path& path : listed(folder, kMaxDocuments, is_wanted)) {
      const auto text = read_file(path.string(), kMaxDocumentBytes);
      if (text) std::ranges::move(commands_in(*text), std::back_inserter(place->second));
    }
    return place->second;
  }

  // The folders in it.
  const std::vector<fs::path>& folders(const fs::path& folder) {
    const auto [place, is_new] = folders_.try_emplace(folder);
    if (!is_new) return place->second;
    const auto is_wanted = [](const fs::directory_entry& each, std::error_code& error) {
      return each.is_directory(error) && !each.path().filename().string().starts_with(".");
    };
    return place->second = listed(folder, kMaxFolders, is_wanted);
  }

 private:
  // In order of names; links are left out.
  template <class Test>
  static std::vector<fs::path> listed(const fs::path& folder, std::size_t most, const Test& test) {
    std::error_code error;
    std::vector<fs::path> found;
    for (const auto& each : fs::directory_iterator(folder, error)) {
      if (!each.is_symlink(error) && test(each, error)) found.push_back(each.path());
    }
    std::ranges::sort(found);
    if (found.size() > most) found.resize(most);
    return found;
  }

  std::map<fs::path, std::vector<Command>> commands_;
  std::map<fs::path, std::vector<fs::path>> folders_;
};

// Whether the command starts the script, which lies so below the root of its project. Who runs it
// may be in the document's folder, or in one of those above.
bool starts(const Command& command, const fs::path& document, const fs::path& root,
            const std::string& script) {
  std::string name = command.script;
  if (command.is_module) {
    std::ranges::replace(name, '.', '/');
    name += ".py";
  }
  if (!name.ends_with(std::string_view(script).substr(script.rfind('/') + 1))) return false;
  const fs::path given = fs::path(name).lexically_normal();
  for (fs::path at = document;; at = at.parent_path()) {
    if ((at / given).lexically_normal().lexically_relative(root).string() == script) return true;
    if (at == root || !at.has_relative_path()) return false;
  }
}

// `--eval`, `--mode test`: no training.
bool only_evaluates(const Command& command) {
  bool evaluates = false;
  for (const auto& [flag, value] : command.options) {
    const std::string name = lower(flag.substr(flag.find_first_not_of('-')));
    const bool is_on = is_one_of(lower(value), {"", "true", "1", "yes"});
    if (is_one_of(name, {"train", "do_train", "is_train"})) return false;
    evaluates =
        evaluates ||
        is_one_of(lower(value),
                  {"test", "eval", "evaluate", "val", "infer", "inference", "predict", "sample"}) ||
        (is_on &&
         is_one_of(name, {"e", "eval", "evaluate", "test", "eval_only", "eval-only", "test_only",
                          "test-only", "evaluation", "infer", "inference", "predict", "sample"}));
  }
  return evaluates;
}

std::vector<const Command*> commands_of(const File& entry, Documents& documents) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(entry.path, error);
  if (error || entry.is_notebook) return {};
  const std::vector<fs::path> above = project_folders(path.parent_path());
  const fs::path& root = above.back();
  const std::string script = path.lexically_relative(root).string();
  std::vector<const Command*> found;
  std::unordered_set<std::string> seen;
  const auto add = [&](const fs::path& folder) {
    if (!seen.insert(folder.string()).second) return;
    for (const Command& command : documents.commands(folder)) {
      if (!only_evaluates(command) && starts(command, folder, root, script))
        found.push_back(&command);
    }
  };
  for (const fs::path& folder : above) {
    add(folder);
    for (const fs::path& inner : documents.folders(folder)) add(inner);
  }
  return found;
}

// What commands give one option, and how often.
struct Gift {
  std::vector<std::pair<std::string_view, int>> values;
  int left_out = 0;

  void add(std::string_view value) {
    for (auto& [known, times] : values) {
      if (known == value) {
        ++times;
        return;
      }
    }
    values.emplace_back(value, 1);
  }

  // What all commands give, or half of them at least; what fewer give is a run of its own.
  void put(Option& option) const {
    int all = left_out;
    for (const auto& each : values) all += each.second;
    option.given.clear();
    for (const auto& [value, times] : values) {
      if (left_out == 0 || 2 * times >= all) option.given.push_back(value);
    }
    option.is_given = left_out == 0;
  }
};

using Gifts = std::unordered_map<std::string_view, Gift>;  // by option

bool gives(std::string_view flag, std::string_view name, const Option& option) {
  if (std::ranges::find(option.flags, flag) != option.flags.end()) return true;
  std::string key(flag.substr(flag.find_first_not_of('-')));
  std::ranges::replace(key, '-', '_');
  return key == name;
}

void add_gifts(const std::vector<const Command*>& commands,
               const std::unordered_map<std::string_view, Option>& options, Store& store,
               Gifts& gifts) {
  for (const auto& [name, option] : options) {
    if (option.is_entry) continue;
    Gift& gift = gifts[name];
    if (commands.empty()) ++gift.left_out;
    for (const Command* command : commands) {
      const auto given = std::ranges::find_if(
          command->options,
          [&, &key = name, &of = option](const auto& each) { return gives(each.first, key, of); });
      if (given == command->options.end()) {
        ++gift.left_out;
      } else {
        gift.add(store.intern(given->second));
      }
    }
  }
}

void put(const Gifts& gifts, std::unordered_map<std::string_view, Option>& options) {
  for (const auto& [name, gift] : gifts) {
    const auto option = options.find(name);
    if (option != options.end() && !gift.values.empty()) gift.put(option->second);
  }
}

}  // namespace

std::vector<Command> commands_in(std::string_view text) {
  CommandWords words;
  words.add(text);
  return std::move(words.commands);
}

void read_commands(SourceFacts& facts) {
  Store& store = facts.store();
  Documents documents;
  std::unordered_map<const File*, Gifts> by_file;
  Gifts all;
  for (const Program& program : facts.programs) {
    if (program.entry == nullptr) continue;
    std::vector<const File*> with_options;
    for (const File* file : program.files) {
      // What evaluates is started with other values.
      const bool is_own = file == program.entry || program.trains_on_gpu;
      if (is_own && store.file_options.contains(file)) with_options.push_back(file);
    }
    const std::vector<const Command*> commands = commands_of(*program.entry, documents);
    if (!commands.empty()) store.started.insert(program.entry);
    if (!commands.empty() && std::ranges::all_of(commands, &Command::is_on_one_gpu)) {
      store.on_one_gpu.insert(program.entry);
    }
    if (std::ranges::any_of(commands, sets_precision)) {
      store.started_with_precision.insert(program.entry);
    }
    if (std::ranges::any_of(commands, &Command::is_on_several_gpus)) {
      store.on_several_gpus.insert(program.entry);
    }
    for (const File* file : with_options) {
      add_gifts(commands, store.file_options.at(file), store, by_file[file]);
      add_gifts(commands, store.file_options.at(file), store, all);
    }
  }
  for (const auto& [file, gifts] : by_file) put(gifts, store.file_options.at(file));
  put(all, store.options);
}

}  // namespace rooftile::source
