// Edits of a training script that keep its meaning keep its findings: wrappers, temporaries,
// constants through functions, branches, objects and options, devices however they are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

constexpr const char* kDataScript = R"py(from PIL import Image
from torch.utils.data import Dataset


class Images(Dataset):
    def __init__(self, root):
        self.paths = open(root).read().split()

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return Image.open(self.paths[i])
)py";

constexpr const char* kTrainScript = R"py(import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from data import Images


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3)
        self.conv2 = nn.Conv2d(64, 128, 3)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(128, 1000)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.head(self.pool(x).flatten(1))


def main():
    model = Net().cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Images("train"), batch_size=256, shuffle=True, num_workers=0)
    scaler = torch.cuda.amp.GradScaler()
    total = 0.0
    for epoch in range(90):
        for images, labels in loader:
            images = images.cuda()
            labels = labels.cuda()
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            total = total + loss
            print(epoch, loss.item())
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
)py";

struct ScriptEdit {
  const char* what;
  // In the script as the changes before left it: text, and what stands there instead.
  std::vector<std::pair<std::string_view, std::string_view>> changes;
};

// The rules of the findings above info, each as often as it reports.
std::vector<std::string> rules_of(const std::string& script) {
  const std::pair<std::string, std::string> files[] = {{"train.py", script},
                                                       {"data.py", kDataScript}};
  SourceFacts facts = read_python_texts(files).value();
  EXPECT_FALSE(facts.files.back()->has_errors) << script;
  Workload workload;
  workload.source = std::make_shared<const SourceFacts>(std::move(facts));
  std::vector<std::string> found;
  for (const Finding& finding : check(workload, *find_device("h100")).findings) {
    if (finding.level != Level::info) found.emplace_back(finding.rule);
  }
  std::ranges::sort(found);
  return found;
}

const ScriptEdit kEdits[] = {
    {"1 wrappers around main",
     {{"if __name__ == \"__main__\":\n    main()\n",
       "def run0():\n    run1()\n\n\ndef run1():\n    main()\n\n\n"
       "if __name__ == \"__main__\":\n    run0()\n"}}},
    {"3 wrappers around main",
     {{"if __name__ == \"__main__\":\n    main()\n",
       "def run0():\n    run1()\n\n\ndef run1():\n    run2()\n\n\ndef run2():\n"
       "    run3()\n\n\ndef run3():\n    main()\n\n\nif __name__ == \"__main__\":\n"
       "    run0()\n"}}},
    {"6 wrappers around main",
     {{"if __name__ == \"__main__\":\n    main()\n",
       "def run0():\n    run1()\n\n\ndef run1():\n    run2()\n\n\ndef run2():\n"
       "    run3()\n\n\ndef run3():\n    run4()\n\n\ndef run4():\n    run5()\n\n\n"
       "def run5():\n    run6()\n\n\ndef run6():\n    main()\n\n\n"
       "if __name__ == \"__main__\":\n    run0()\n"}}},
    {"10 wrappers around main",
     {{"if __name__ == \"__main__\":\n    main()\n",
       "def run0():\n    run1()\n\n\ndef run1():\n    run2()\n\n\ndef run2():\n"
       "    run3()\n\n\ndef run3():\n    run4()\n\n\ndef run4():\n    run5()\n\n\n"
       "def run5():\n    run6()\n\n\ndef run6():\n    run7()\n\n\ndef run7():\n"
       "    run8()\n\n\ndef run8():\n    run9()\n\n\ndef run9():\n    run10()\n\n\n"
       "def run10():\n    main()\n\n\nif __name__ == \"__main__\":\n    run0()\n"}}},
    {"step in 1 functions",
     {{"            images = images.cuda()\n            labels = labels.cuda()\n"
       "            optimizer.zero_grad()\n"
       "            with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "                loss = criterion(model(images), labels)\n"
       "            loss.backward()\n            optimizer.step()\n",
       "            loss = step0(model, criterion, optimizer, images, labels)\n"},
      {"def main():\n",
       "def step0(model, criterion, optimizer, images, labels):\n"
       "    images = images.cuda()\n    labels = labels.cuda()\n"
       "    optimizer.zero_grad()\n"
       "    with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "        loss = criterion(model(images), labels)\n    loss.backward()\n"
       "    optimizer.step()\n    return loss\n\n\ndef main():\n"}}},
    {"step in 2 functions",
     {{"            images = images.cuda()\n            labels = labels.cuda()\n"
       "            optimizer.zero_grad()\n"
       "            with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "                loss = criterion(model(images), labels)\n"
       "            loss.backward()\n            optimizer.step()\n",
       "            loss = step1(model, criterion, optimizer, images, labels)\n"},
      {"def main():\n",
       "def step0(model, criterion, optimizer, images, labels):\n"
       "    images = images.cuda()\n    labels = labels.cuda()\n"
       "    optimizer.zero_grad()\n"
       "    with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "        loss = criterion(model(images), labels)\n    loss.backward()\n"
       "    optimizer.step()\n    return loss\n\n\n"
       "def step1(model, criterion, optimizer, images, labels):\n"
       "    return step0(model, criterion, optimizer, images, labels)\n\n\n"
       "def main():\n"}}},
    {"step in 4 functions",
     {{"            images = images.cuda()\n            labels = labels.cuda()\n"
       "            optimizer.zero_grad()\n"
       "            with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "                loss = criterion(model(images), labels)\n"
       "            loss.backward()\n            optimizer.step()\n",
       "            loss = step3(model, criterion, optimizer, images, labels)\n"},
      {"def main():\n",
       "def step0(model, criterion, optimizer, images, labels):\n"
       "    images = images.cuda()\n    labels = labels.cuda()\n"
       "    optimizer.zero_grad()\n"
       "    with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "        loss = criterion(model(images), labels)\n    loss.backward()\n"
       "    optimizer.step()\n    return loss\n\n\n"
       "def step1(model, criterion, optimizer, images, labels):\n"
       "    return step0(model, criterion, optimizer, images, labels)\n\n\n"
       "def step2(model, criterion, optimizer, images, labels):\n"
       "    return step1(model, criterion, optimizer, images, labels)\n\n\n"
       "def step3(model, criterion, optimizer, images, labels):\n"
       "    return step2(model, criterion, optimizer, images, labels)\n\n\n"
       "def main():\n"}}},
    {"step in 6 functions",
     {{"            images = images.cuda()\n            labels = labels.cuda()\n"
       "            optimizer.zero_grad()\n"
       "            with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "                loss = criterion(model(images), labels)\n"
       "            loss.backward()\n            optimizer.step()\n",
       "            loss = step5(model, criterion, optimizer, images, labels)\n"},
      {"def main():\n",
       "def step0(model, criterion, optimizer, images, labels):\n"
       "    images = images.cuda()\n    labels = labels.cuda()\n"
       "    optimizer.zero_grad()\n"
       "    with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "        loss = criterion(model(images), labels)\n    loss.backward()\n"
       "    optimizer.step()\n    return loss\n\n\n"
       "def step1(model, criterion, optimizer, images, labels):\n"
       "    return step0(model, criterion, optimizer, images, labels)\n\n\n"
       "def step2(model, criterion, optimizer, images, labels):\n"
       "    return step1(model, criterion, optimizer, images, labels)\n\n\n"
       "def step3(model, criterion, optimizer, images, labels):\n"
       "    return step2(model, criterion, optimizer, images, labels)\n\n\n"
       "def step4(model, criterion, optimizer, images, labels):\n"
       "    return step3(model, criterion, optimizer, images, labels)\n\n\n"
       "def step5(model, criterion, optimizer, images, labels):\n"
       "    return step4(model, criterion, optimizer, images, labels)\n\n\n"
       "def main():\n"}}},
    {"step in 10 functions",
     {{"            images = images.cuda()\n            labels = labels.cuda()\n"
       "            optimizer.zero_grad()\n"
       "            with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "                loss = criterion(model(images), labels)\n"
       "            loss.backward()\n            optimizer.step()\n",
       "            loss = step9(model, criterion, optimizer, images, labels)\n"},
      {"def main():\n",
       "def step0(model, criterion, optimizer, images, labels):\n"
       "    images = images.cuda()\n    labels = labels.cuda()\n"
       "    optimizer.zero_grad()\n"
       "    with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "        loss = criterion(model(images), labels)\n    loss.backward()\n"
       "    optimizer.step()\n    return loss\n\n\n"
       "def step1(model, criterion, optimizer, images, labels):\n"
       "    return step0(model, criterion, optimizer, images, labels)\n\n\n"
       "def step2(model, criterion, optimizer, images, labels):\n"
       "    return step1(model, criterion, optimizer, images, labels)\n\n\n"
       "def step3(model, criterion, optimizer, images, labels):\n"
       "    return step2(model, criterion, optimizer, images, labels)\n\n\n"
       "def step4(model, criterion, optimizer, images, labels):\n"
       "    return step3(model, criterion, optimizer, images, labels)\n\n\n"
       "def step5(model, criterion, optimizer, images, labels):\n"
       "    return step4(model, criterion, optimizer, images, labels)\n\n\n"
       "def step6(model, criterion, optimizer, images, labels):\n"
       "    return step5(model, criterion, optimizer, images, labels)\n\n\n"
       "def step7(model, criterion, optimizer, images, labels):\n"
       "    return step6(model, criterion, optimizer, images, labels)\n\n\n"
       "def step8(model, criterion, optimizer, images, labels):\n"
       "    return step7(model, criterion, optimizer, images, labels)\n\n\n"
       "def step9(model, criterion, optimizer, images, labels):\n"
       "    return step8(model, criterion, optimizer, images, labels)\n\n\n"
       "def main():\n"}}},
    {"total by a temporary",
     {{"            total = total + loss\n",
       "            tmp = total + loss\n            total = tmp\n"}}},
    {"total by two temporaries",
     {{"            total = total + loss\n",
       "            a = loss\n            tmp = total + a\n"
       "            total = tmp\n"}}},
    {"total in a branch",
     {{"            total = total + loss\n",
       "            if epoch >= 0:\n                total = total + loss\n"}}},
    {"total +=", {{"            total = total + loss\n", "            total += loss\n"}}},
    {"lambda cuda",
     {{"            images = images.cuda()\n            labels = labels.cuda()\n",
       "            images = cuda(images)\n            labels = cuda(labels)\n"},
      {"    total = 0.0\n", "    total = 0.0\n    cuda = lambda t: t.cuda()\n"}}},
    {"def cuda",
     {{"            images = images.cuda()\n            labels = labels.cuda()\n",
       "            images = cuda(images)\n            labels = cuda(labels)\n"},
      {"def main():\n", "def cuda(t):\n    return t.cuda()\n\n\ndef main():\n"}}},
    {"other names for batch",
     {{"            images = images.cuda()\n",
       "            batch = images\n            images = batch.cuda()\n"}}},
    {"workers opt()",
     {{"num_workers=0", "num_workers=opt()"},
      {"def main():\n", "def opt():\n    return 0\n\n\ndef main():\n"}}},
    {"workers opt() by a variable",
     {{"num_workers=0", "num_workers=opt()"},
      {"def main():\n", "def opt():\n    n = 0\n    return n\n\n\ndef main():\n"}}},
    {"workers opt() in both branches",
     {{"num_workers=0", "num_workers=opt()"},
      {"def main():\n",
       "def opt():\n    if torch.cuda.is_available():\n        return 0\n"
       "    return 0\n\n\ndef main():\n"}}},
    {"workers opt(0)",
     {{"num_workers=0", "num_workers=opt(0)"},
      {"def main():\n", "def opt(n):\n    return n\n\n\ndef main():\n"}}},
    {"workers opt(0) and opt(4)",
     {{"num_workers=0", "num_workers=opt(0)"},
      {"def main():\n", "def opt(n):\n    return n\n\n\nOTHER = opt(4)\n\n\ndef main():\n"}}},
    {"workers by default",
     {{"num_workers=0", "num_workers=opt()"},
      {"def main():\n", "def opt(n=0):\n    return n\n\n\ndef main():\n"}}},
    {"workers lambda",
     {{"num_workers=0", "num_workers=opt()"},
      {"    loader = ", "    opt = lambda: 0\n    loader = "}}},
    {"workers lambda argument",
     {{"num_workers=0", "num_workers=opt(0)"},
      {"    loader = ", "    opt = lambda n: n\n    loader = "}}},
    {"workers conditional",
     {{"num_workers=0", "num_workers=0 if torch.cuda.is_available() else 0"}}},
    {"workers branch",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ",
       "    if torch.cuda.is_available():\n        workers = 0\n    else:\n"
       "        workers = 0\n    loader = "}}},
    {"workers reassigned",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ", "    workers = 4\n    workers = 0\n    loader = "}}},
    {"workers two variables",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ", "    n = 0\n    workers = n\n    loader = "}}},
    {"workers arithmetic",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ", "    n = 4\n    workers = n - 4\n    loader = "}}},
    {"workers augmented",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ", "    workers = 4\n    workers -= 4\n    loader = "}}},
    {"workers global",
     {{"num_workers=0", "num_workers=WORKERS"}, {"class Net", "WORKERS = 0\n\n\nclass Net"}}},
    {"workers global in branch",
     {{"num_workers=0", "num_workers=WORKERS"},
      {"class Net",
       "if torch.cuda.is_available():\n    WORKERS = 0\nelse:\n    WORKERS = 0\n\n\n"
       "class Net"}}},
    {"workers dict",
     {{"num_workers=0", "num_workers=CONFIG[\"workers\"]"},
      {"class Net", "CONFIG = {\"workers\": 0}\n\n\nclass Net"}}},
    {"workers tuple",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ", "    size, workers = 256, 0\n    loader = "}}},
    {"workers tuple of function",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ", "    size, workers = sizes()\n    loader = "},
      {"def main():\n", "def sizes():\n    return 256, 0\n\n\ndef main():\n"}}},
    {"workers dataclass",
     {{"num_workers=0", "num_workers=config.workers"},
      {"    loader = ", "    config = Config()\n    loader = "},
      {"class Net", "@dataclass\nclass Config:\n    workers: int = 0\n\n\nclass Net"},
      {"import torch\nfrom torch import nn",
       "from dataclasses import dataclass\n\nimport torch\nfrom torch import nn"}}},
    {"workers dataclass argument",
     {{"num_workers=0", "num_workers=config.workers"},
      {"    loader = ", "    config = Config(workers=0)\n    loader = "},
      {"class Net", "@dataclass\nclass Config:\n    workers: int\n\n\nclass Net"},
      {"import torch\nfrom torch import nn",
       "from dataclasses import dataclass\n\nimport torch\nfrom torch import nn"}}},
    {"workers class attribute",
     {{"num_workers=0", "num_workers=Config.workers"},
      {"class Net", "class Config:\n    workers = 0\n\n\nclass Net"}}},
    {"workers object attribute",
     {{"num_workers=0", "num_workers=config.workers"},
      {"    loader = ", "    config = Config(0)\n    loader = "},
      {"class Net",
       "class Config:\n    def __init__(self, n):\n        self.workers = n\n\n\n"
       "class Net"}}},
    {"workers object two stores",
     {{"num_workers=0", "num_workers=config.workers"},
      {"    loader = ", "    config = Config()\n    loader = "},
      {"class Net",
       "class Config:\n    def __init__(self):\n"
       "        if torch.cuda.is_available():\n            self.workers = 0\n"
       "        else:\n            self.workers = 0\n\n\nclass Net"}}},
    {"workers argparse",
     {{"num_workers=0", "num_workers=args.workers"},
      {"    loader = ",
       "    parser = argparse.ArgumentParser()\n"
       "    parser.add_argument(\"--workers\", type=int, default=0)\n"
       "    args = parser.parse_args()\n    loader = "}}},
    {"workers argparse by function",
     {{"num_workers=0", "num_workers=get(args)"},
      {"    loader = ",
       "    parser = argparse.ArgumentParser()\n"
       "    parser.add_argument(\"--workers\", type=int, default=0)\n"
       "    args = parser.parse_args()\n    loader = "},
      {"def main():\n", "def get(args):\n    return args.workers\n\n\ndef main():\n"}}},
    {"workers environment",
     {{"num_workers=0", "num_workers=int(os.environ.get(\"WORKERS\", \"0\"))"},
      {"import argparse\n", "import argparse\nimport os\n"}}},
    {"workers or",
     {{"num_workers=0", "num_workers=workers or 0"},
      {"    loader = ", "    workers = None\n    loader = "}}},
    {"workers None then 0",
     {{"num_workers=0", "num_workers=workers"},
      {"def main():", "def main(workers=None):"},
      {"    loader = ", "    if workers is None:\n        workers = 0\n    loader = "}}},
    {"workers max", {{"num_workers=0", "num_workers=max(0, 0)"}}},
    {"workers len", {{"num_workers=0", "num_workers=len([])"}}},
    {"workers partial",
     {{"DataLoader(Images(\"train\"), batch_size=256, shuffle=True, num_workers=0)",
       "make(Images(\"train\"), batch_size=256, shuffle=True)"},
      {"    loader = ", "    make = functools.partial(DataLoader, num_workers=0)\n    loader = "},
      {"import argparse\n", "import argparse\nimport functools\n"}}},
    {"workers closure call",
     {{"num_workers=0", "num_workers=build()"},
      {"def main():\n",
       "def main():\n    workers = 0\n\n    def build():\n        return workers\n\n"}}},
    {"workers method",
     {{"num_workers=0", "num_workers=Options().workers()"},
      {"class Net", "class Options:\n    def workers(self):\n        return 0\n\n\nclass Net"}}},
    {"workers property",
     {{"num_workers=0", "num_workers=Options().workers"},
      {"class Net",
       "class Options:\n    @property\n    def workers(self):\n        return 0\n\n"
       "\nclass Net"}}},
    {"workers bool", {{"num_workers=0", "num_workers=int(False)"}}},
    {"workers try",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ",
       "    try:\n        workers = 0\n    except ValueError:\n"
       "        workers = 0\n    loader = "}}},
    {"workers while",
     {{"num_workers=0", "num_workers=workers"},
      {"    loader = ",
       "    workers = 4\n    while True:\n        workers = 0\n        break\n"
       "    loader = "}}},
    {"workers walrus", {{"num_workers=0", "num_workers=(workers := 0)"}}},
    {"kwargs dict",
     {{"shuffle=True, num_workers=0)", "**options)"},
      {"    loader = ", "    options = {\"shuffle\": True, \"num_workers\": 0}\n    loader = "}}},
    {"dtype variable",
     {{"dtype=torch.bfloat16", "dtype=dtype"},
      {"    total = 0.0\n", "    total = 0.0\n    dtype = torch.bfloat16\n"}}},
    {"dtype function",
     {{"dtype=torch.bfloat16", "dtype=dtype()"},
      {"def main():\n", "def dtype():\n    return torch.bfloat16\n\n\ndef main():\n"}}},
    {"dtype branch",
     {{"dtype=torch.bfloat16", "dtype=dtype"},
      {"    total = 0.0\n",
       "    total = 0.0\n    if total == 0:\n        dtype = torch.bfloat16\n"
       "    else:\n        dtype = torch.bfloat16\n"}}},
    {"autocast enabled=True by function",
     {{"dtype=torch.bfloat16", "dtype=torch.bfloat16, enabled=on()"},
      {"def main():\n", "def on():\n    return True\n\n\ndef main():\n"}}},
    {"scaler enabled by function",
     {{"GradScaler()", "GradScaler(enabled=on())"},
      {"def main():\n", "def on():\n    return True\n\n\ndef main():\n"}}},
    {"scaler enabled bool(1)", {{"GradScaler()", "GradScaler(enabled=bool(1))"}}},
    {"device text",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n", "def main():\n    device = \"cuda\"\n"}}},
    {"device parameter default",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n", "def main(device=\"cuda\"):\n"}}},
    {"device function",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n",
       "def place():\n    return \"cuda\"\n\n\ndef main():\n    device = place()\n"}}},
    {"device f-string",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n", "def main():\n    index = 0\n    device = f\"cuda:{index}\"\n"}}},
    {"device torch.device of f-string",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n",
       "def main():\n    index = 0\n    device = torch.device(f\"cuda:{index}\")\n"}}},
    {"device conditional",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n",
       "def main():\n"
       "    device = torch.device(\"cuda\" if torch.cuda.is_available() else \"cpu\")\n"}}},
    {"device branches",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n",
       "def main():\n    if torch.cuda.is_available():\n"
       "        device = torch.device(\"cuda\")\n    else:\n"
       "        device = torch.device(\"cpu\")\n"}}},
    {"device option",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n",
       "def main():\n    parser = argparse.ArgumentParser()\n"
       "    parser.add_argument(\"--device\", default=\"cuda\")\n"
       "    device = parser.parse_args().device\n"}}},
    {"device dataclass",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n", "def main():\n    device = Config().device\n"},
      {"class Net", "@dataclass\nclass Config:\n    device: str = \"cuda\"\n\n\nclass Net"},
      {"import torch\nfrom torch import nn",
       "from dataclasses import dataclass\n\nimport torch\nfrom torch import nn"}}},
    {"device string added",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n", "def main():\n    device = \"cuda\" + \":\" + \"0\"\n"}}},
    {"device lambda",
     {{"images.cuda()", "images.to(device)"},
      {"labels.cuda()", "labels.to(device)"},
      {"Net().cuda()", "Net().to(device)"},
      {"def main():\n",
       "def main():\n    place = lambda: torch.device(\"cuda\")\n"
       "    device = place()\n"}}},
    {"loader by function",
     {{"    loader = DataLoader(Images(\"train\"), batch_size=256, shuffle=True, num_workers=0)",
       "    loader = make()"},
      {"def main():\n",
       "def make():\n"
       "    return DataLoader(Images(\"train\"), batch_size=256, shuffle=True, num_workers=0)\n"
       "\n\ndef main():\n"}}},
    {"loader by function of the workers",
     {{"    loader = DataLoader(Images(\"train\"), batch_size=256, shuffle=True, num_workers=0)",
       "    loader = make(0)"},
      {"def main():\n",
       "def make(n):\n"
       "    return DataLoader(Images(\"train\"), batch_size=256, shuffle=True, num_workers=n)\n"
       "\n\ndef main():\n"}}},
    {"loader conditional",
     {{"    total = 0.0\n", "    total = 0.0\n    loader = loader if total == 0 else loader\n"}}},
    {"loader tuple",
     {{"    total = 0.0\n", "    total = 0.0\n    pair = (loader, None)\n    loader, _ = pair\n"}}},
    {"loader enumerate",
     {{"for images, labels in loader:", "for i, (images, labels) in enumerate(loader):"}}},
    {"batch index",
     {{"for images, labels in loader:\n            images = images.cuda()\n"
       "            labels = labels.cuda()\n",
       "for batch in loader:\n            images = batch[0].cuda()\n"
       "            labels = batch[1].cuda()\n"}}},
};

TEST(ScriptEdits, ThatKeepTheMeaningKeepTheFindings) {
  const std::vector<std::string> before = rules_of(kTrainScript);
  // Unpinned batches beside the missing workers are information, and so are the read at the end and
  // a scaler for bf16.
  EXPECT_EQ(before.size(), 3U);
  for (const ScriptEdit& edit : kEdits) {
    std::string script = kTrainScript;
    for (const auto& [from, to] : edit.changes) {
      const std::size_t at = script.find(from);
      ASSERT_NE(at, std::string::npos) << edit.what << ": " << from;
      script.replace(at, from.size(), to);
    }
    EXPECT_EQ(rules_of(script), before) << edit.what << "\n" << script;
  }
}

struct ScriptChange {
  const char* what;
  std::string_view from, to;
  const char* gone;  // the rule that no longer reports
};

// And edits that change it lose what they mend.
const ScriptChange kChanges[] = {
    {"workers", "num_workers=0", "num_workers=4", "input_pipeline/loader-stall"},
    {"workers of a function", "num_workers=0", "num_workers=(lambda n: n + 4)(0)",
     "input_pipeline/loader-stall"},
    {"pinned", "num_workers=0", "num_workers=0, pin_memory=True",
     "input_pipeline/unpinned-batches"},
    {"pinned where there is a GPU", "num_workers=0",
     "num_workers=0, pin_memory=torch.cuda.is_available()", "input_pipeline/unpinned-batches"},
    {"a detached total", "total = total + loss", "total = total + loss.detach()",
     "training_loop/loss-keeps-graph"},
    {"a total that starts anew", "total = total + loss",
     "part = 0.0 + loss\n            total = part", "training_loop/loss-keeps-graph"},
    {"a scaler that is off", "GradScaler()", "GradScaler(enabled=bool(0))",
     "precision/bf16-with-scaler"},
    {"no read", "print(epoch, loss.item())", "print(epoch)", "launch/sync-every-step"},
};

TEST(ScriptEdits, ThatMendSomethingSilenceItsRule) {
  for (const ScriptChange& change : kChanges) {
    std::string script = kTrainScript;
    const std::size_t at = script.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.what;
    script.replace(at, change.from.size(), change.to);
    const std::vector<std::string> found = rules_of(script);
    EXPECT_EQ(std::ranges::find(found, change.gone), found.end()) << change.what << "\n" << script;
  }
}

}  // namespace
}  // namespace rooftile
