// Public spellings of known_names.h.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "rooftile/readers/python/known_names.h"

namespace rooftile::source {
namespace {

std::string_view name_after_dot(std::string_view name) { return name.substr(name.rfind('.') + 1); }

bool is_class_name(std::string_view word) {
  return !word.empty() && word[0] >= 'A' && word[0] <= 'Z';
}

// Modules whose members are public one or more levels up.
constexpr std::pair<std::string_view, std::string_view> kHomes[] = {
    {"torch.torch.", "torch."},
    {"torch.nn.modules.", "torch.nn."},
    {"torch.utils.data.dataloader.", "torch.utils.data."},
    {"torch.utils.data.dataset.", "torch.utils.data."},
    {"torch.utils.data.sampler.", "torch.utils.data."},
    {"torch.nn.parallel.distributed.", "torch.nn.parallel."},
    {"torch.nn.parallel.data_parallel.", "torch.nn."},
    {"torch.nn.parameter.", "torch.nn."},
    {"torch.nn.utils.clip_grad.", "torch.nn.utils."},
    {"torch.cuda.amp.autocast_mode.", "torch.cuda.amp."},
    {"torch.cuda.amp.grad_scaler.", "torch.cuda.amp."},
    {"torch.amp.autocast_mode.", "torch.amp."},
    {"torch.amp.grad_scaler.", "torch.amp."},
    {"torch.autograd.variable.", "torch.autograd."},
    {"torch.autograd.function.", "torch.autograd."},
    {"torch.autograd.anomaly_mode.", "torch.autograd."},
    {"torch.autograd.grad_mode.", "torch."},
    {"torch.optim.optimizer.", "torch.optim."},
    {"torch.tensor.", "torch."},
    {"pytorch_lightning.", "lightning.pytorch."},
    {"lightning.pytorch.core.module.", "lightning.pytorch."},
    {"lightning.pytorch.core.lightning.", "lightning.pytorch."},
    {"lightning.pytorch.core.", "lightning.pytorch."},
    {"lightning.pytorch.trainer.", "lightning.pytorch."},
    {"lightning.LightningModule", "lightning.pytorch.LightningModule"},
    {"lightning.Trainer", "lightning.pytorch.Trainer"},
    {"transformers.trainer.", "transformers."},
    {"transformers.training_args.", "transformers."},
    {"torch.multiprocessing.spawn.spawn", "torch.multiprocessing.spawn"},
};

constexpr std::pair<std::string_view, std::string_view> kSame[] = {
    {"torch.autocast", "torch.amp.autocast"},
    {"torch.autocast_mode.autocast", "torch.amp.autocast"},
    {"torch.nn.parallel.DataParallel", "torch.nn.DataParallel"},
    {"torch.inference_mode.inference_mode", "torch.inference_mode"},
    {"torch.autograd.no_grad", "torch.no_grad"},
    {"torch.autograd.enable_grad", "torch.enable_grad"},
    {"torch.autograd.set_grad_enabled", "torch.set_grad_enabled"},
    {"tqdm.auto.tqdm", "tqdm.tqdm"},
    {"tqdm.autonotebook.tqdm", "tqdm.tqdm"},
    {"tqdm.notebook.tqdm", "tqdm.tqdm"},
    {"tqdm.tqdm_notebook", "tqdm.tqdm"},
    {"tqdm.trange", "tqdm.trange"},
    {"torch.dataloader.DataLoader", "torch.utils.data.DataLoader"},
    // MONAI's take the same arguments as those that they derive from.
    {"monai.data.DataLoader", "torch.utils.data.DataLoader"},
    {"monai.data.ThreadDataLoader", "torch.utils.data.DataLoader"},
    {"monai.data.Dataset", "torch.utils.data.Dataset"},
    {"monai.data.DistributedSampler", "torch.utils.data.DistributedSampler"},
};

// monai.networks.nets.unet.UNet is monai.networks.nets.UNet: the packages export what their modules
// hold. Empty for names of other libraries. The networks of MONAI's generative part came from a
// package of their own.
std::string public_monai_name(std::string_view name) {
  for (const std::string_view home :
       {"generative.networks.nets.", "monai.apps.reconstruction.networks.nets."}) {
    if (name.starts_with(home)) return "monai.networks.nets." + std::string(name_after_dot(name));
  }
  for (const std::string_view package :
       {"monai.networks.nets.", "monai.networks.blocks.", "monai.transforms.", "monai.data.",
        "monai.apps.", "monai.losses.", "monai.optimizers.", "monai.utils."}) {
    if (!name.starts_with(package)) continue;
    const std::string_view inside = name.substr(package.size());
    const bool is_module =
        std::ranges::none_of(inside.substr(0, inside.size() - name_after_dot(name).size()),
                             [](char c) { return c >= 'A' && c <= 'Z'; });
    if (!is_module) return std::string(name);
    return std::string(package).append(name_after_dot(name));
  }
  return {};
}

}  // namespace

std::string canonical_name(std::string_view full_name) {
  for (const auto& [spelling, name] : kSame) {
    if (full_name == spelling) return std::string(name);
  }
  for (const auto& [home, shown] : kHomes) {
    if (!full_name.starts_with(home)) continue;
    std::string_view rest = full_name.substr(home.size());
    // torch.nn.modules.conv.Conv2d: what lies between is private.
    if (home == "torch.nn.modules.") rest = name_after_dot(rest);
    const std::string moved = std::string(shown).append(rest);
    return moved == full_name ? moved : canonical_name(moved);
  }
  // torch.optim.adam.Adam, torch.optim.adamw.AdamW
  if (full_name.starts_with("torch.optim.") &&
      !full_name.starts_with("torch.optim.lr_scheduler.") &&
      std::ranges::count(full_name, '.') == 3 && is_class_name(name_after_dot(full_name))) {
    return "torch.optim." + std::string(name_after_dot(full_name));
  }
  const std::string monai = public_monai_name(full_name);
  return monai.empty() || monai == full_name ? std::string(full_name) : canonical_name(monai);
}

}  // namespace rooftile::source
