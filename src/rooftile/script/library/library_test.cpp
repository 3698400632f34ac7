#include "rooftile/script/library/library.h"

#include <gtest/gtest.h>

#include "rooftile/base/embedded.h"

namespace rooftile::script {
namespace {

using source::TypeKind;

TEST(Library, EachFileCanBeRead) {
  EXPECT_GE(embedded_libraries().size(), 10U);
  for (const EmbeddedFile& file : embedded_libraries()) {
    const Result<void> read = check_library(file.text, std::string(file.name));
    EXPECT_TRUE(read) << to_string(read.error());
  }
}

TEST(Library, BadFilesAreErrorsWithTheirLine) {
  const std::string head = "library = \"x\"\nsource = \"y\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {"library = \"x\"\n", "f:1: no key source, expected where its documentation is"},
      {head + "[[calls]]\ngives = \"tensors\"\nnames = [\"x.y\"]\n",
       "f:3: found gives = \"tensors\", expected one of unknown new_tensor"},
      {head + "[[calls]]\ngives = \"module\"\n", "f:3: found no names"},
      {head + "[[calls]]\ngive = \"module\"\n", "f:4: found the key give, expected gives, module"},
      {head + "returns = 3\n", "f:3: found the key returns, expected library, source"},
      {head + "dtypes = 3\n", "f:3: dtypes is no list of texts"},
      {head + "dtypes = [\n", "f:"},
      {head + "\xC3\xA4 = 1\n", "f: found letters beyond ASCII"},
  };
  for (const auto& [text, message] : cases) {
    const Result<void> read = check_library(text, "f");
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(to_string(read.error()).starts_with(message)) << to_string(read.error());
  }
}

TEST(Library, PatternsFit) {
  const std::tuple<const char*, const char*, bool> cases[] = {
      {"torch.*", "torch.cat", true},
      {"torch.*", "torch.nn.cat", false},
      {"torch.**", "torch.nn.cat", true},
      {"torch.[A-Z]*", "torch.Size", true},
      {"torch.[A-Z]*", "torch.size", false},
      {"torch.nn.**.[A-Z]*Loss*", "torch.nn.modules.loss.CTCLoss", true},
      {"**.optim**.[A-Z]*", "apex.optimizers.FusedAdam", true},
      {"**.optim**.[A-Z]*", "apex.optimizers.fused_adam", false},
      {"a", "", false},
      {"**", "", true},
  };
  for (const auto& [pattern, name, is_fit] : cases) {
    EXPECT_EQ(fits(pattern, name), is_fit) << pattern << " " << name;
  }
}

TEST(Library, CallsGiveWhatTheDocumentationSays) {
  const auto instance = [](TypeKind kind) { return LibraryCall{Gives::instance, kind}; };
  const std::pair<const char*, LibraryCall> cases[] = {
      {"torch.zeros", {Gives::new_tensor}},
      {"torch.cat", {Gives::from_tensors}},
      {"torch.FloatTensor", {Gives::new_tensor}},
      {"torch.cuda.FloatTensor", {Gives::gpu_tensor}},
      {"torch.cuda.Stream", {Gives::host_object}},
      {"torch.cuda.device_count", {Gives::number}},
      {"torch.nn.Conv2d", instance(TypeKind::module)},
      {"torch.nn.MSELoss", instance(TypeKind::loss)},
      {"torch.nn.functional.relu", {Gives::from_tensors}},
      {"torch.nn.utils.weight_norm", {Gives::argument}},
      {"torch.nn.parallel.DistributedDataParallel", {Gives::wrapped}},
      {"torch.optim.AdamW", instance(TypeKind::optimizer)},
      {"torch.optim.lr_scheduler.StepLR", instance(TypeKind::scheduler)},
      {"bitsandbytes.optim.AdamW8bit", instance(TypeKind::optimizer)},
      {"transformers.BertModel.from_pretrained", instance(TypeKind::module)},
      {"transformers.BertTokenizer.from_pretrained", {Gives::host_object}},
      {"monai.networks.nets.resnet50", instance(TypeKind::module)},
      {"monai.losses.DiceLoss", instance(TypeKind::loss)},
      {"numpy.zeros", {Gives::array}},
      {"random.choices", {Gives::container}},
      {"random.random", {Gives::number}},
      {"torch.utils.data.get_worker_info", {}},
      {"some_package.Thing", {}},
  };
  for (const auto& [name, call] : cases) EXPECT_EQ(library_call(name), call) << name;
}

TEST(Library, NamesHaveOnePublicSpelling) {
  const std::pair<const char*, const char*> cases[] = {
      {"torch.nn.modules.conv.Conv2d", "torch.nn.Conv2d"},
      {"torch.autocast", "torch.amp.autocast"},
      {"torch.cuda.amp.autocast_mode.autocast", "torch.cuda.amp.autocast"},
      {"torch.optim.adamw.AdamW", "torch.optim.AdamW"},
      {"torch.optim.lr_scheduler.StepLR", "torch.optim.lr_scheduler.StepLR"},
      {"pytorch_lightning.core.lightning.LightningModule", "lightning.pytorch.LightningModule"},
      {"lightning.Trainer", "lightning.pytorch.Trainer"},
      {"monai.networks.nets.unet.UNet", "monai.networks.nets.UNet"},
      {"generative.networks.nets.vqvae.VQVAE", "monai.networks.nets.VQVAE"},
      {"monai.data.ThreadDataLoader", "torch.utils.data.DataLoader"},
      {"torch.cat", "torch.cat"},
  };
  for (const auto& [name, shown] : cases) EXPECT_EQ(canonical_name(name), shown);
}

TEST(Library, PackagesExportNames) {
  EXPECT_TRUE(exports("torch.nn", "Linear"));
  EXPECT_FALSE(exports("torch.nn", "functional"));
  EXPECT_TRUE(exports("torch.optim", "Adam"));
  EXPECT_FALSE(exports("torch.optim", "StepLR"));
  EXPECT_TRUE(exports("torch.utils.data", "DataLoader"));
  EXPECT_TRUE(exports("torch", "zeros"));
  EXPECT_FALSE(exports("torch", "cat"));
  EXPECT_FALSE(exports("other", "Linear"));
  EXPECT_TRUE(is_dtype("torch.bfloat16"));
  EXPECT_FALSE(is_dtype("torch.zeros"));
  EXPECT_TRUE(is_builtin("print"));
  EXPECT_TRUE(is_true_with_gpu("torch.cuda.is_available"));
  EXPECT_TRUE(keeps_results("functools.lru_cache", "lru_cache"));
  EXPECT_FALSE(keeps_results("my.memo", "memo"));
  EXPECT_EQ(torch_needed_by("Pass fused=True and call torch.compile"),
            (source::TorchVersion{2, 0}));
  EXPECT_EQ(torch_needed_by("Set persistent_workers=True"), (source::TorchVersion{1, 7}));
  EXPECT_EQ(torch_needed_by("Remove it"), source::TorchVersion());
}

}  // namespace
}  // namespace rooftile::script
