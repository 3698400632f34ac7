#include "rooftile/readers/python/known_names.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "rooftile/base/text.h"

namespace rooftile::source {
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
