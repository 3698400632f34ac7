#include "rooftile/analysis/trace/python_sites.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "rooftile/analysis/trace/calls.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

constexpr std::string_view kModulePrefix = "nn.Module: ";
constexpr std::size_t kMostModulePaths = std::size_t{1} << 18U;

// Kineto cuts the folders of sys.path off a file's name, so packages begin with their own name.
constexpr std::array kLibraries{"IPython",
                                "PIL",
                                "_pytest",
                                "accelerate",
                                "apex",
                                "bitsandbytes",
                                "click",
                                "cv2",
                                "datasets",
                                "deepspeed",
                                "detectron2",
                                "diffusers",
                                "einops",
                                "fairseq",
                                "fbgemm_gpu",
                                "fire",
                                "flash_attn",
                                "fsspec",
                                "huggingface_hub",
                                "hydra",
                                "ignite",
                                "ipykernel",
                                "jax",
                                "lightning",
                                "lightning_fabric",
                                "megatron",
                                "mmcv",
                                "mmengine",
                                "numpy",
                                "omegaconf",
                                "pandas",
                                "peft",
                                "pluggy",
                                "pytest",
                                "pytorch_lightning",
                                "ray",
                                "safetensors",
                                "scipy",
                                "sglang",
                                "sklearn",
                                "timm",
                                "tokenizers",
                                "torchao",
                                "torchaudio",
                                "torchdata",
                                "torchmetrics",
                                "torchrec",
                                "torchtext",
                                "torchtune",
                                "torchvision",
                                "tqdm",
                                "transformer_engine",
                                "transformers",
                                "trl",
                                "vllm",
                                "wandb",
                                "xformers"};
// Of Python's own library: what lies on the stack of a training script.
constexpr std::array kPythonItself{"_bootlocale",
                                   "_collections_abc",
                                   "_weakrefset",
                                   "abc",
                                   "argparse",
                                   "ast",
                                   "asyncio",
                                   "bdb",
                                   "bisect",
                                   "cProfile",
                                   "calendar",
                                   "codecs",
                                   "collections",
                                   "concurrent",
                                   "contextlib",
                                   "copy",
                                   "copyreg",
                                   "csv",
                                   "ctypes",
                                   "dataclasses",
                                   "datetime",
                                   "decimal",
                                   "difflib",
                                   "dis",
                                   "email",
                                   "encodings",
                                   "enum",
                                   "fnmatch",
                                   "fractions",
                                   "functools",
                                   "gc",
                                   "genericpath",
                                   "getpass",
                                   "glob",
                                   "gzip",
                                   "hashlib",
                                   "heapq",
                                   "http",
                                   "importlib",
                                   "inspect",
                                   "io",
                                   "itertools",
                                   "json",
                                   "keyword",
                                   "linecache",
                                   "locale",
                                   "logging",
                                   "math",
                                   "multiprocessing",
                                   "numbers",
                                   "opcode",
                                   "operator",
                                   "os",
                                   "pathlib",
                                   "pdb",
                                   "pickle",
                                   "pkgutil",
                                   "platform",
                                   "posixpath",
                                   "pprint",
                                   "queue",
                                   "random",
                                   "re",
                                   "reprlib",
                                   "runpy",
                                   "sched",
                                   "secrets",
                                   "selectors",
                                   "shutil",
                                   "signal",
                                   "site",
                                   "socket",
                                   "sre_compile",
                                   "sre_parse",
                                   "ssl",
                                   "stat",
                                   "statistics",
                                   "string",
                                   "struct",
                                   "subprocess",
                                   "tempfile",
                                   "textwrap",
                                   "threading",
                                   "timeit",
                                   "token",
                                   "tokenize",
                                   "torch",
                                   "trace",
                                   "traceback",
                                   "triton",
                                   "types",
                                   "typing",
                                   "typing_extensions",
                                   "unittest",
                                   "urllib",
                                   "uuid",
                                   "warnings",
                                   "weakref",
                                   "xml",
                                   "zipfile",
                                   "zipimport"};

bool is_one_of(std::string_view name, const auto& names) {
  return std::binary_search(names.begin(), names.end(), name,
                            [](std::string_view a, std::string_view b) { return a < b; });
}

// "torch/nn/functional.py(2): f" -> torch; "enum.py(5): g" -> enum.
std::string_view first_part(std::string_view name) {
  const std::size_t slash = name.find('/');
  const std::size_t dot = name.find(".py(");
  return name.substr(0, std::min({slash, dot, name.size()}));
}

}  // namespace

FrameKind frame_kind(std::string_view name) {
  if (name.starts_with(kModulePrefix)) return FrameKind::module;
  if (name.starts_with('<') || name.find(".py(") == std::string_view::npos) {
    return FrameKind::internal;
  }
  for (const std::string_view folder : {"site-packages/", "dist-packages/"}) {
    if (const std::size_t at = name.find(folder); at != std::string_view::npos) {
      const std::string_view package = first_part(name.substr(at + folder.size()));
      return is_one_of(package, kPythonItself) ? FrameKind::internal : FrameKind::library;
    }
  }
  if (name.find("/lib/python3") != std::string_view::npos) return FrameKind::internal;
  const std::string_view package = first_part(name);
  if (is_one_of(package, kPythonItself)) return FrameKind::internal;
  return is_one_of(package, kLibraries) ? FrameKind::library : FrameKind::user;
}

Provenance source_of_frames(std::string_view frames) {
  std::string_view chosen;
  for (const std::string_view frame : split(frames, ';')) {
    const FrameKind kind = frame_kind(frame);
    if (kind == FrameKind::library && chosen.empty()) chosen = frame;
    if (kind != FrameKind::user) continue;
    chosen = frame;
    break;
  }
  Provenance source;
  const std::size_t open = chosen.find(".py(");
  if (open == std::string_view::npos) return source;
  const std::size_t close = chosen.find(')', open);
  if (close == std::string_view::npos) return source;
  const auto line = parse_integer(chosen.substr(open + 4, close - open - 4));
  if (!line) return source;
  source.file = chosen.substr(0, open + 3);
  source.line = *line;
  return source;
}

// The innermost frames of each kind at some depth of the stack.
struct PythonSites::Frame {
  std::uint32_t module = 0, user = 0, library = 0;

  SiteRef site() const { return {module, user != 0 ? user : library}; }
};

PythonSites::PythonSites(const Timeline& timeline, const Links& links)
    : timeline_(timeline),
      links_(links),
      kinds_(kinds_of<FrameKind>(timeline.strings, timeline.python.name, frame_kind)),
      order_(rows_by_thread(timeline.python.time, timeline.python.thread)) {}

PythonSites::Frame PythonSites::inside(const Frame& outer, std::uint32_t row) {
  Frame frame = outer;
  const std::uint32_t name = timeline_.python.name[row];
  if (kinds_[name] == FrameKind::user) frame.user = name;
  if (kinds_[name] == FrameKind::library) frame.library = name;
  if (kinds_[name] == FrameKind::module) frame.module = path_of(outer.module, name);
  return frame;
}

std::uint32_t PythonSites::path_of(std::uint32_t outer, std::uint32_t name) {
  if (paths_.size() == kMostModulePaths) return outer;
  const auto [at, is_new] =
      path_ids_.try_emplace({outer, name}, static_cast<std::uint32_t>(paths_.size()));
  if (is_new) paths_.emplace_back(outer, name);
  return at->second;
}

SiteRef PythonSites::site_of_op(std::uint32_t op) {
  SiteRef site;
  const HostOps& ops = timeline_.ops;
  for (; op != kNone && (site.frame == 0 || site.module == 0); op = links_.op_parent[op]) {
    if (site.frame == 0) site.frame = ops.stack[op];
    if (site.module == 0 && ops.module[op] != 0) {
      site.module = path_of(0, ops.module[op]);
    }
  }
  if (site.frame == 0) return site;
  const auto [at, is_new] = stack_ids_.try_emplace(site.frame, site.frame);
  if (is_new) {
    const Provenance line = source_of_frames(timeline_.strings[site.frame]);
    at->second = first_stacks_.try_emplace({line.file, line.line}, site.frame).first->second;
  }
  site.frame = at->second;
  return site;
}

std::vector<SiteRef> PythonSites::at(const std::vector<SiteQuery>& queries) {
  std::vector<SiteRef> sites(queries.size());
  if (timeline_.python.time.size() == 0) {
    for (std::size_t i = 0; i < queries.size(); ++i) sites[i] = site_of_op(queries[i].op);
    return sites;
  }
  std::vector<std::uint32_t> order(queries.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return queries[a].thread != queries[b].thread ? queries[a].thread < queries[b].thread
                                                  : queries[a].at < queries[b].at;
  });
  const EventTimes& time = timeline_.python.time;
  OpenIntervals open;
  std::vector<Frame> frames(1);  // frames[d] holds what surrounds depth d
  std::size_t next = 0;
  std::uint16_t thread = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const SiteQuery& query = queries[order[i]];
    if (i == 0 || query.thread != thread) {
      thread = query.thread;
      next = 0;
      open.clear();
    }
    const auto rows = order_.of(thread);
    for (; next < rows.size() && time.start(rows[next]) <= query.at; ++next) {
      open.open(rows[next], time.start(rows[next]), time.end(rows[next]));
      frames.resize(open.depth() + 1);
      frames[open.depth()] = inside(frames[open.depth() - 1], rows[next]);
    }
    open.advance(query.at);
    sites[order[i]] = frames[open.depth()].site();
  }
  return sites;
}

std::vector<TraceSite> PythonSites::sites_of(const std::vector<std::uint32_t>& ops) {
  std::vector<SiteQuery> queries;
  for (const std::uint32_t op : ops) {
    queries.push_back({timeline_.ops.thread[op], timeline_.ops.time.start(op), op});
  }
  std::vector<TraceSite> sites;
  for (std::size_t i = 0; const SiteRef found : at(queries)) {
    sites.push_back(
        {timeline_.strings[timeline_.ops.name[ops[i++]]], module_path(found), source(found)});
  }
  return sites;
}

std::string PythonSites::module_path(SiteRef site) const {
  std::vector<std::string> names;
  for (std::uint32_t path = site.module; path != 0; path = paths_[path].first) {
    const std::string_view name = timeline_.strings[paths_[path].second];
    names.emplace_back(name.starts_with(kModulePrefix) ? name.substr(kModulePrefix.size()) : name);
  }
  if (names.size() > 1) names.pop_back();
  std::reverse(names.begin(), names.end());
  return join(names, ".");
}

Provenance PythonSites::source(SiteRef site) const {
  return source_of_frames(timeline_.strings[site.frame]);
}

}  // namespace rooftile::trace
