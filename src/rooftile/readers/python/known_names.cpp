#include "rooftile/readers/python/known_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <unordered_map>

#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

using Set = std::span<const std::string_view>;

bool has(Set sorted, std::string_view word) { return std::ranges::binary_search(sorted, word); }

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

bool is_capitalised(std::string_view word) {
  return !word.empty() && word[0] >= 'A' && word[0] <= 'Z';
}

constexpr std::string_view kDtypes[] = {
    "bfloat16", "bool",  "complex64", "double", "float", "float16", "float32", "float64", "half",
    "int",      "int16", "int32",     "int64",  "int8",  "long",    "short",   "uint8"};

constexpr std::string_view kBuiltins[] = {
    "abs",   "all",    "any",      "bool",    "dict", "divmod",  "enumerate", "exec", "filter",
    "float", "format", "getattr",  "hasattr", "hash", "id",      "input",     "int",  "isinstance",
    "iter",  "len",    "list",     "map",     "max",  "min",     "next",      "open", "print",
    "range", "repr",   "reversed", "round",   "set",  "setattr", "sorted",    "str",  "sum",
    "super", "tuple",  "type",     "vars",    "zip"};

constexpr std::string_view kNewTensors[] = {
    "arange",       "as_tensor",   "blackman_window", "empty",    "eye",    "from_numpy",
    "full",         "hann_window", "linspace",        "logspace", "normal", "ones",
    "rand",         "randint",     "randn",           "randperm", "tensor", "tril_indices",
    "triu_indices", "zeros"};

// Functions of torch itself whose result is no tensor.
constexpr std::string_view kNotTensors[] = {"allclose",
                                            "are_deterministic_algorithms_enabled",
                                            "autocast",
                                            "compile",
                                            "device",
                                            "enable_grad",
                                            "equal",
                                            "export",
                                            "finfo",
                                            "get_default_dtype",
                                            "get_rng_state",
                                            "iinfo",
                                            "inference_mode",
                                            "initial_seed",
                                            "is_autocast_enabled",
                                            "is_complex",
                                            "is_floating_point",
                                            "is_grad_enabled",
                                            "is_tensor",
                                            "load",
                                            "manual_seed",
                                            "no_grad",
                                            "numel",
                                            "save",
                                            "seed",
                                            "set_anomaly_enabled",
                                            "set_default_device",
                                            "set_default_dtype",
                                            "set_default_tensor_type",
                                            "set_deterministic",
                                            "set_float32_matmul_precision",
                                            "set_flush_denormal",
                                            "set_grad_enabled",
                                            "set_num_interop_threads",
                                            "set_num_threads",
                                            "set_printoptions",
                                            "set_rng_state",
                                            "split_with_sizes",
                                            "use_deterministic_algorithms",
                                            "vmap"};

LibraryCall instance(TypeKind kind) { return {Gives::instance, kind}; }
LibraryCall gives(Gives what) { return {what, TypeKind::unknown}; }

struct Exact {
  std::string_view name;
  LibraryCall call;
};

const Exact kExact[] = {
    {"torch.utils.data.DataLoader", instance(TypeKind::loader)},
    {"torch_geometric.loader.DataLoader", instance(TypeKind::loader)},
    {"torch_geometric.data.DataLoader", instance(TypeKind::loader)},
    {"torch.utils.data.TensorDataset", instance(TypeKind::dataset)},
    {"torch.utils.data.Subset", instance(TypeKind::dataset)},
    {"torch.utils.data.ConcatDataset", instance(TypeKind::dataset)},
    {"torch.utils.data.distributed.DistributedSampler", instance(TypeKind::sampler)},
    {"torch.utils.data.DistributedSampler", instance(TypeKind::sampler)},
    {"torch.utils.data.RandomSampler", instance(TypeKind::sampler)},
    {"torch.utils.data.SequentialSampler", instance(TypeKind::sampler)},
    {"torch.utils.data.WeightedRandomSampler", instance(TypeKind::sampler)},
    {"torch.utils.data.SubsetRandomSampler", instance(TypeKind::sampler)},
    {"torch.utils.data.BatchSampler", instance(TypeKind::sampler)},
    {"torch.cuda.amp.GradScaler", instance(TypeKind::scaler)},
    {"torch.amp.GradScaler", instance(TypeKind::scaler)},
    {"torch.GradScaler", instance(TypeKind::scaler)},
    {"torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler", instance(TypeKind::scaler)},
    {"timm.utils.NativeScaler", instance(TypeKind::scaler)},
    {"timm.utils.cuda.NativeScaler", instance(TypeKind::scaler)},
    {"torch.device", instance(TypeKind::device)},
    {"torch.accelerator.current_accelerator", instance(TypeKind::device)},
    {"torch.cuda.current_device", instance(TypeKind::device)},
    {"torch.nn.Parameter", gives(Gives::new_tensor)},
    {"torch.autograd.Variable", gives(Gives::argument)},
    {"torch.nn.DataParallel", gives(Gives::wrapped)},
    {"torch.nn.parallel.DistributedDataParallel", gives(Gives::wrapped)},
    {"apex.parallel.DistributedDataParallel", gives(Gives::wrapped)},
    {"torch.distributed.fsdp.FullyShardedDataParallel", gives(Gives::wrapped)},
    {"torch.distributed.fsdp.fully_shard", gives(Gives::wrapped)},
    {"torch.nn.SyncBatchNorm.convert_sync_batchnorm", gives(Gives::argument)},
    {"torch.compile", gives(Gives::wrapped)},
    {"torch.jit.script", gives(Gives::argument)},
    {"torch.nn.utils.clip_grad_norm_", gives(Gives::from_tensors)},
    {"torch.nn.utils.clip_grad_norm", gives(Gives::from_tensors)},
    {"torch.profiler.profile", instance(TypeKind::profiler)},
    {"torch.autograd.profiler.profile", instance(TypeKind::profiler)},
    {"accelerate.Accelerator", instance(TypeKind::accelerator)},
    {"lightning.fabric.Fabric", instance(TypeKind::accelerator)},
    {"lightning.Fabric", instance(TypeKind::accelerator)},
    {"transformers.Trainer", instance(TypeKind::trainer)},
    {"transformers.Seq2SeqTrainer", instance(TypeKind::trainer)},
    {"lightning.pytorch.Trainer", instance(TypeKind::trainer)},
    {"timm.create_model", instance(TypeKind::module)},
    {"timm.models.create_model", instance(TypeKind::module)},
    {"torch.hub.load", instance(TypeKind::module)},
    {"transformers.get_scheduler", instance(TypeKind::scheduler)},
    {"transformers.get_linear_schedule_with_warmup", instance(TypeKind::scheduler)},
    {"transformers.get_cosine_schedule_with_warmup", instance(TypeKind::scheduler)},
    {"timm.data.create_loader", instance(TypeKind::loader)},
    {"timm.optim.create_optimizer", instance(TypeKind::optimizer)},
    {"timm.optim.create_optimizer_v2", instance(TypeKind::optimizer)},
    {"argparse.ArgumentParser", instance(TypeKind::host_object)},
    {"open", gives(Gives::host_object)},
    {"len", gives(Gives::number)},
    {"int", gives(Gives::number)},
    {"float", gives(Gives::number)},
    {"bool", gives(Gives::number)},
    {"round", gives(Gives::number)},
    {"str", gives(Gives::text)},
    {"repr", gives(Gives::text)},
    {"range", gives(Gives::container)},
    {"iter", gives(Gives::argument)},
    {"enumerate", gives(Gives::argument)},
    {"reversed", gives(Gives::argument)},
    {"itertools.islice", gives(Gives::argument)},
    {"itertools.cycle", gives(Gives::argument)},
    {"tqdm.tqdm", gives(Gives::argument)},
    {"tqdm", gives(Gives::argument)},
    {"copy.deepcopy", gives(Gives::argument)},
    {"copy.copy", gives(Gives::argument)},
    {"list", gives(Gives::container)},
    {"dict", gives(Gives::container)},
    {"set", gives(Gives::container)},
    {"print", gives(Gives::host_object)},
    {"isinstance", gives(Gives::number)},
    {"sum", gives(Gives::from_tensors)},
    {"max", gives(Gives::from_tensors)},
    {"min", gives(Gives::from_tensors)},
    {"abs", gives(Gives::from_tensors)},
};

LibraryCall torch_nn_call(std::string_view name) {
  const std::string_view last = last_part(name);
  if (name.starts_with("torch.nn.functional.")) return gives(Gives::from_tensors);
  if (name.starts_with("torch.nn.utils.rnn.")) return gives(Gives::from_tensors);
  if (name.starts_with("torch.nn.utils.") || name.starts_with("torch.nn.init.")) {
    return gives(Gives::argument);  // weight_norm(layer), and the functions that return a tensor
  }
  if (!is_capitalised(last)) return {};
  return instance(last.find("Loss") != std::string_view::npos ? TypeKind::loss : TypeKind::module);
}

LibraryCall torch_cuda_call(std::string_view name) {
  const std::string_view last = last_part(name);
  if (last.ends_with("Tensor")) return gives(Gives::gpu_tensor);
  if (is_capitalised(last) || last.starts_with("current_")) return gives(Gives::host_object);
  return gives(Gives::number);
}

LibraryCall torch_call(std::string_view name) {
  const std::string_view last = last_part(name);
  if (name.starts_with("torch.nn.")) return torch_nn_call(name);
  if (name.starts_with("torch.cuda.")) return torch_cuda_call(name);
  if (name.starts_with("torch.optim.lr_scheduler.")) return instance(TypeKind::scheduler);
  if (name.starts_with("torch.optim.") && is_capitalised(last))
    return instance(TypeKind::optimizer);
  if (name.starts_with("torch.fft.") || name.starts_with("torch.linalg.") ||
      name.starts_with("torch.special.")) {
    return gives(Gives::from_tensors);
  }
  if (std::ranges::count(name, '.') != 1) return {};
  if (last.ends_with("Tensor")) return gives(Gives::new_tensor);
  if (has(kNewTensors, last)) return gives(Gives::new_tensor);
  if (is_capitalised(last)) return gives(Gives::host_object);
  if (has(kNotTensors, last)) return gives(Gives::host_object);
  return gives(Gives::from_tensors);
}

constexpr std::string_view kHostPackages[] = {"argparse", "datetime", "glob",   "json", "logging",
                                              "os",       "pathlib",  "pickle", "re",   "shutil",
                                              "sys",      "time",     "wandb",  "yaml"};

// Networks, losses and data sets of MONAI; its documentation, API reference.
LibraryCall monai_call(std::string_view name, std::string_view last) {
  const auto is_of = [&](std::string_view package) { return name.starts_with(package); };
  if (is_of("monai.networks.nets.")) {
    const bool is_made = is_capitalised(last) || contains_any(last, {"resnet", "densenet"});
    return is_made ? instance(TypeKind::module) : LibraryCall();
  }
  if (!is_capitalised(last)) return {};
  if (is_of("monai.metrics.Cumulative")) return gives(Gives::host_object);  // detaches
  if (is_of("monai.networks.blocks.")) return instance(TypeKind::module);
  if (is_of("monai.losses.")) return instance(TypeKind::loss);
  if (is_of("monai.data.") || is_of("monai.apps.")) {
    return last.ends_with("Dataset") ? instance(TypeKind::dataset) : LibraryCall();
  }
  if (name == "monai.optimizers.Novograd") return instance(TypeKind::optimizer);
  return is_of("monai.optimizers.") &&
                 is_one_of(last, {"WarmupCosineSchedule", "LinearLR", "ExponentialLR"})
             ? instance(TypeKind::scheduler)
             : LibraryCall();
}

LibraryCall other_call(std::string_view package, std::string_view name) {
  const std::string_view last = last_part(name);
  if (package == "numpy" || package == "pandas" || package == "cv2" || package == "PIL") {
    return gives(Gives::array);
  }
  if (name == "random.sample" || name == "random.choices") return gives(Gives::container);
  if (package == "math" || package == "random") return gives(Gives::number);
  if (package == "time" && last != "strftime") return gives(Gives::number);
  if (has(kHostPackages, package)) return gives(Gives::host_object);
  if (package == "monai") return monai_call(name, last);
  if (name.starts_with("torchvision.models.")) return instance(TypeKind::module);
  if (name.starts_with("torchvision.datasets.")) return instance(TypeKind::dataset);
  if (package == "transformers" && last == "from_pretrained") {
    const bool host = name.find("Tokenizer") != std::string_view::npos ||
                      name.find("Config") != std::string_view::npos ||
                      name.find("Processor") != std::string_view::npos;
    return host ? gives(Gives::host_object) : instance(TypeKind::module);
  }
  if (name.find(".optim") != std::string_view::npos && is_capitalised(last)) {
    return instance(TypeKind::optimizer);  // bitsandbytes.optim, apex.optimizers, timm.optim
  }
  return {};
}

}  // namespace

LibraryCall library_call(std::string_view full_name) {
  for (const Exact& exact : kExact) {
    if (exact.name == full_name) return exact.call;
  }
  if (full_name.starts_with("torch.")) return torch_call(full_name);
  return other_call(full_name.substr(0, full_name.find('.')), full_name);
}

bool is_builtin(std::string_view name) { return has(kBuiltins, name); }

bool is_dtype(std::string_view full_name) {
  return full_name.starts_with("torch.") && has(kDtypes, full_name.substr(6));
}

bool exports(std::string_view package, std::string_view name) {
  if (package == "torch.nn") {
    return library_call("torch.nn." + std::string(name)).gives != Gives::unknown &&
           is_capitalised(name);
  }
  if (package == "torch.utils.data") {
    return library_call("torch.utils.data." + std::string(name)).gives != Gives::unknown ||
           name == "Dataset" || name == "IterableDataset" || name == "random_split";
  }
  if (package == "torch.cuda.amp") {
    return name == "autocast" || name == "GradScaler" || name == "custom_fwd" ||
           name == "custom_bwd";
  }
  if (package == "torch.optim")
    return is_capitalised(name) && name.find("LR") == std::string_view::npos;
  if (package == "torch.autograd")
    return name == "Variable" || name == "Function" || name == "grad";
  if (package == "torch") {
    return has(kNewTensors, name) || has(kNotTensors, name) || name == "nn" || name == "optim";
  }
  return false;
}

bool is_library_root(std::string_view name) {
  const std::string_view root = name.substr(0, name.find('.'));
  return is_one_of(root, {"torch", "torchvision", "numpy", "math", "random", "time", "os", "sys",
                          "copy", "gc", "logging", "functools", "itertools", "collections"});
}

namespace {

const std::unordered_map<std::string_view, TypeKind>& kinds_by_name() {
  static const auto kinds = [] {
    std::unordered_map<std::string_view, TypeKind> all;
    const auto add = [&](TypeKind kind, std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names) all.emplace(name, kind);
    };
    add(TypeKind::module,
        {"model",      "net",           "netg",      "netd",    "net_g",     "net_d",
         "generator",  "discriminator", "encoder",   "decoder", "backbone",  "unet",
         "ddp_model",  "model_engine",  "teacher",   "student", "raw_model", "network",
         "classifier", "policy_net",    "target_net"});
    add(TypeKind::optimizer, {"opt_g", "opt_d"});
    add(TypeKind::loss, {"criterion", "loss_fn", "loss_func", "loss_function", "criterion_ce"});
    add(TypeKind::loader, {"train_dl", "val_dl", "valid_dl"});
    add(TypeKind::scheduler, {"scheduler", "lr_scheduler"});
    add(TypeKind::scaler, {"scaler", "grad_scaler", "amp_scaler", "loss_scaler"});
    add(TypeKind::accelerator, {"accelerator", "fabric"});
    add(TypeKind::device, {"device", "dev"});
    return all;
  }();
  return kinds;
}

}  // namespace

TypeKind kind_by_convention(std::string_view variable) {
  const std::string name = lower(variable);
  const auto whole = kinds_by_name().find(name);
  if (whole != kinds_by_name().end()) return whole->second;
  constexpr std::string_view kNone[] = {"class", "name", "args", "config", "params"};
  if (name.starts_with("optim") && name != "optim" &&
      std::ranges::none_of(kNone, [&](std::string_view end) { return name.ends_with(end); })) {
    return TypeKind::optimizer;
  }
  if (name.ends_with("optimizer")) return TypeKind::optimizer;
  return name.ends_with("loader") ? TypeKind::loader : TypeKind::unknown;
}

std::string_view base_class(TypeKind kind) {
  switch (kind) {
    case TypeKind::tensor:
      return "torch.Tensor";
    case TypeKind::module:
    case TypeKind::loss:
      return "torch.nn.Module";
    case TypeKind::optimizer:
      return "torch.optim.Optimizer";
    case TypeKind::scheduler:
      return "torch.optim.lr_scheduler.LRScheduler";
    case TypeKind::scaler:
      return "torch.amp.GradScaler";
    case TypeKind::loader:
      return "torch.utils.data.DataLoader";
    case TypeKind::sampler:
      return "torch.utils.data.Sampler";
    case TypeKind::profiler:
      return "torch.profiler.profile";
    case TypeKind::accelerator:
      return "accelerate.Accelerator";
    default:
      return {};
  }
}

}  // namespace rooftile::source
