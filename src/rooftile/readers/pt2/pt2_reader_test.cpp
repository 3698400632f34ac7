#include "rooftile/readers/pt2/pt2_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/readers/pt2/pt2_archives.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using namespace pt2_test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Workload read(const ProgramMaker& program, const ReadOptions& options = {}) {
  const auto workload = read_pt2_bytes(archive(program.json()), "m.pt2", options);
  EXPECT_TRUE(workload) << (workload ? "" : to_string(workload.error()));
  return workload.value_or(Workload());
}

// "conv fp32 n=2 …" without names and places.
std::vector<std::string> lines(const Workload& workload) {
  std::vector<std::string> texts;
  for (Op op : workload.ops) {
    op.name = "x";
    op.inputs.clear();
    op.outputs = {"x"};
    op.source = {};
    const std::string text = to_text(op);
    texts.push_back(text.substr(0, text.find(" file=")));
  }
  return texts;
}

Json metadata(const std::string& module, const std::string& trace = "") {
  return {{"nn_module_stack", "L__self__,,Net;L__self___x," + module + ",torch.nn.Linear"},
          {"stack_trace", trace}};
}

ProgramMaker linear_program() {
  ProgramMaker program;
  program.parameter("p_w", {32, 16}, "fc.weight").parameter("p_b", {32}, "fc.bias");
  program.input("x", sizes({4, 16})).value("linear", sizes({4, 32})).value("relu", sizes({4, 32}));
  program.call("torch.ops.aten.linear.default",
               {{"input", tensor("x")}, {"weight", tensor("p_w")}, {"bias", tensor("p_b")}},
               "linear",
               metadata("layers.0.fc",
                        "  File \"/home/a/model.py\", line 12, in forward\n    x = self.fc(x)\n  "
                        "File \"/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py\", "
                        "line 125, in forward\n    return F.linear(x)\n"));
  program.call("torch.ops.aten.relu.default", {{"self", tensor("linear")}}, "relu",
               metadata("layers.0"));
  return program;
}

TEST(Pt2, OperationsHaveNamesPlacesAndEdges) {
  const Workload workload = read(linear_program());
  ASSERT_EQ(workload.ops.size(), 2);
  const Op& linear = workload.ops[0];
  EXPECT_EQ(linear.name, "layers.0.fc");
  EXPECT_EQ(linear.source, (Provenance{"/home/a/model.py", 12, "", "layers.0.fc"}));
  EXPECT_THAT(linear.inputs, ElementsAre("x"));
  EXPECT_THAT(linear.outputs, ElementsAre("linear"));
  EXPECT_EQ(std::get<Gemm>(linear.body), (Gemm{.m = 4, .n = 32, .k = 16, .bias = true}));
  const Op& relu = workload.ops[1];
  EXPECT_EQ(relu.name, "layers.0");
  EXPECT_EQ(relu.source.file, "m.pt2");
  EXPECT_THAT(relu.inputs, ElementsAre("linear"));
  EXPECT_EQ(workload.parameters, 32 * 16 + 32);
  EXPECT_EQ(workload.batch, 4);
  EXPECT_TRUE(workload.layouts_known());
  EXPECT_THAT(workload.skipped, IsEmpty());
}

// The strides of a CPU's attention would make a copy of what is a view on a GPU.
TEST(Pt2, AttentionLeavesHeadsSideBySide) {
  ProgramMaker program;
  program.input("q", sizes({2, 4, 16, 8})).value("y", sizes({2, 4, 16, 8}));
  program.value("t", sizes({2, 16, 4, 8}), 7, {512, 8, 128, 1}).value("z", sizes({2, 16, 32}));
  program.call("torch.ops.aten.scaled_dot_product_attention.default",
               {{"query", tensor("q")}, {"key", tensor("q")}, {"value", tensor("q")}}, "y");
  program.call("torch.ops.aten.transpose.int",
               {{"self", tensor("y")}, {"dim0", {{"as_int", 1}}}, {"dim1", {{"as_int", 2}}}}, "t");
  program.call("torch.ops.aten.reshape.default",
               {{"self", tensor("t")}, {"shape", ints({2, 16, 32})}}, "z");
  EXPECT_EQ(read(program).ops.size(), 1U);
}

TEST(Pt2, ModulePathsAreWrittenPlainly) {
  const std::pair<const char*, const char*> cases[] = {
      {"L__self___a,layers.0.fc,torch.nn.Linear", "layers.0.fc"},
      {"a,getattr(L['self'].layers[0].ffn, '1'),torch.nn.Linear", "layers.0.ffn.1"},
      {"a,L__self__.fc,torch.nn.Linear", "fc"},
      {"L__self__,,Net", "relu"},
      {"hook,hook_from_metadata_hook,hook", "relu"},
  };
  for (const auto& [stack, name] : cases) {
    ProgramMaker program;
    program.input("x", sizes({4, 8})).value("y", sizes({4, 8}));
    program.call("torch.ops.aten.relu.default", {{"self", tensor("x")}}, "y",
                 {{"nn_module_stack", stack}});
    EXPECT_EQ(read(program).ops.at(0).name, name) << stack;
  }
}

// 300 bytes, and no half of a character.
TEST(Pt2, LongModulePathsAreCut) {
  const auto name = [](const std::string& module) {
    ProgramMaker program;
    program.input("x", sizes({4, 8})).value("y", sizes({4, 8}));
    program.call("torch.ops.aten.relu.default", {{"self", tensor("x")}}, "y",
                 {{"nn_module_stack", "a," + module + ",torch.nn.Linear"}});
    return read(program).ops.at(0).source.module;
  };
  const std::string most(300, 'a');
  EXPECT_EQ(name(most), most);
  EXPECT_EQ(name(most + "a"), most);
  EXPECT_EQ(name(std::string(298, 'a') + "\u00e9"), std::string(298, 'a') + "\u00e9");
  EXPECT_EQ(name(std::string(299, 'a') + "\u00e9"), std::string(299, 'a'));
  EXPECT_EQ(name("a\x1f\x7f\tb"), "a???b");
}

TEST(Pt2, ElementTypesAreThoseOfTheSchema) {
  const std::pair<int, const char*> cases[] = {
      {6, "fp16"}, {7, "fp32"}, {13, "bf16"}, {29, "fp8"}, {30, "fp8"}};
  for (const auto& [type, dtype] : cases) {
    ProgramMaker program;
    program.input("x", sizes({4, 8}), type).value("y", sizes({4, 8}), type);
    program.call("torch.ops.aten.neg.default", {{"self", tensor("x")}}, "y");
    EXPECT_THAT(lines(read(program)), ElementsAre(HasSubstr(std::string(" x ") + dtype + " fn=")))
        << type;
  }
}

TEST(Pt2, ATrainingExportIsAForwardPassOfTraining) {
  ProgramMaker program;
  program.input("x", sizes({4, 8})).value("y", sizes({4, 8}));
  program.call("torch.ops.aten.dropout.default",
               {{"input", tensor("x")}, {"p", {{"as_float", 0.1}}}, {"train", {{"as_bool", true}}}},
               "y");
  const Workload workload = read(program);
  EXPECT_EQ(workload.mode, Mode::training);
  EXPECT_THAT(workload.notes, ElementsAre(HasSubstr("exported in training mode")));
}

TEST(Pt2, BothLayoutsHoldTheSameProgram) {
  const Json program = linear_program().json();
  const auto flat = read_pt2_bytes(flat_archive(program), "m.pt2", {});
  const auto nested = read_pt2_bytes(archive(program), "m.pt2", {});
  ASSERT_TRUE(flat && nested);
  EXPECT_EQ(*flat, *nested);
  EXPECT_EQ(read_pt2_bytes(zip({{"models/model.json", program.dump()}}), "m.pt2", {}), nested);
  EXPECT_EQ(read_pt2_bytes(zip({{"a/models/b.json", program.dump()}}, {.wide = true}), "m.pt2", {}),
            nested);
}

// The first schema wrote every kind of an argument, null where it is another one.
TEST(Pt2, OldUnionsAndVersions) {
  Json program = linear_program().json(2);
  Json& argument = program["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"];
  argument["as_int"] = nullptr;
  argument["as_sym_ints"] = nullptr;
  const auto workload = read_pt2_bytes(flat_archive(program), "m.pt2", {});
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->ops.size(), 2);
  EXPECT_THAT(workload->notes, IsEmpty());
}

TEST(Pt2, DefaultsAreFilledIn) {
  ProgramMaker program;
  program.parameter("p_w", {8, 3, 3, 3}).input("x", sizes({2, 3, 16, 16}));
  program.value("y", sizes({2, 8, 14, 14})).value("z", sizes({2, 8, 7, 7}));
  program.call("torch.ops.aten.conv2d.default", {{"input", tensor("x")}, {"weight", tensor("p_w")}},
               "y");
  program.call("torch.ops.aten.max_pool2d.default",
               {{"self", tensor("y")}, {"kernel_size", ints({2, 2})}}, "z");
  EXPECT_THAT(lines(read(program)),
              ElementsAre("conv x fp32 n=2 c=3 k=8 in=16x16 kernel=3x3",
                          "pool x fp32 fn=max n=2 c=8 in=14x14 out=7x7 kernel=2x2"));
}

TEST(Pt2, LayoutsAreThoseOfTheStrides) {
  ProgramMaker program;
  program.parameter("p_w", {8, 16, 3, 3}).input("x", sizes({2, 16, 8, 8}), 6);
  program.value("x", sizes({2, 16, 8, 8}), 6, {1024, 1, 128, 16});
  program.value("p_w", sizes({8, 16, 3, 3}), 6).value("y", sizes({2, 8, 6, 6}), 6);
  program.call("torch.ops.aten.conv2d.default", {{"input", tensor("x")}, {"weight", tensor("p_w")}},
               "y");
  EXPECT_THAT(lines(read(program)),
              ElementsAre("conv x fp16 n=2 c=16 k=8 in=8x8 kernel=3x3 layout=nhwc"));
}

TEST(Pt2, ViewsCostNothingAndKeepEdges) {
  ProgramMaker program;
  program.input("x", sizes({4, 8, 16})).value("v", sizes({32, 16}));
  program.value("t", sizes({16, 32}), 7, {1, 16}).value("c", sizes({16, 32}));
  program.value("r", sizes({16, 32}));
  program.call("torch.ops.aten.view.default", {{"self", tensor("x")}, {"size", ints({32, 16})}},
               "v");
  program.call("torch.ops.aten.permute.default", {{"self", tensor("v")}, {"dims", ints({1, 0})}},
               "t");
  program.call("torch.ops.aten.contiguous.default", {{"self", tensor("t")}}, "c");
  program.call("torch.ops.aten.contiguous.default", {{"self", tensor("c")}}, "r");
  const Workload workload = read(program);
  ASSERT_THAT(lines(workload), ElementsAre("layout x fp32 elements=512 walk=transposed"));
  EXPECT_THAT(workload.ops[0].inputs, ElementsAre("x"));
}

// What reads a value after an operator has written into it waits for that operator.
TEST(Pt2, WorkInPlaceIsAnEdge) {
  ProgramMaker program;
  program.input("x", sizes({4, 8})).value("a", sizes({4, 8})).value("b", sizes({4, 8}));
  program.value("c", sizes({4, 8}));
  program.call("torch.ops.aten.neg.default", {{"self", tensor("x")}}, "a");
  program.call("torch.ops.aten.relu_.default", {{"self", tensor("a")}}, "b");
  program.call("torch.ops.aten.exp.default", {{"self", tensor("a")}}, "c");
  EXPECT_THAT(read(program).ops[2].inputs, ElementsAre("b"));
}

TEST(Pt2, AGraphOfViewsRunsNothing) {
  ProgramMaker program;
  program.input("x", sizes({4, 8})).value("v", sizes({32}));
  program.call("torch.ops.aten.view.default", {{"self", tensor("x")}, {"size", ints({32})}}, "v");
  const Workload workload = read(program);
  EXPECT_THAT(workload.ops, IsEmpty());
  EXPECT_THAT(workload.notes, ElementsAre("the graph runs nothing on the GPU"));
}

ProgramMaker symbolic_program() {
  ProgramMaker program;
  const Json batch = size("Symbol('s0', positive=True, integer=True)", 2), length = size("s1", 8);
  program.parameter("p_w", {100, 16}).input("idx", Json::array({batch, length}), 5);
  program.value("e", Json::array({batch, length, size(16)}));
  program.value("v", Json::array({size("Mul(Symbol('s0', integer=True), s1)", 16), size(16)}));
  program.value("y", Json::array({size("s0*s1", 16), size(16)}));
  program.call("torch.ops.aten.embedding.default",
               {{"weight", tensor("p_w")}, {"indices", tensor("idx")}}, "e");
  program.call("torch.ops.aten.view.default", {{"self", tensor("e")}}, "v");
  program.call("torch.ops.aten.relu.default", {{"self", tensor("v")}}, "y");
  return program.range("s0", 1, 64).range("s1", 2, 1024);
}

std::int64_t relu_elements(const Workload& workload) {
  return std::get<Elementwise>(workload.ops.at(1).body).elements;
}

TEST(Pt2, SymbolicSizesTakeTheHintUntilTheUserSaysOtherwise) {
  const Workload as_exported = read(symbolic_program());
  EXPECT_EQ(relu_elements(as_exported), 2 * 8 * 16);
  EXPECT_THAT(
      as_exported.notes,
      ElementsAre("dynamic sizes as they were at the export: s0 = 2 (size 0 of idx), s1 = 8 "
                  "(size 1 of idx); set them with --batch, --seq or --dim NAME=N"));
  const Workload batched = read(symbolic_program(), {.batch = 16, .seq = 32});
  EXPECT_EQ(relu_elements(batched), 16 * 32 * 16);
  EXPECT_EQ(batched.batch, 16);
  EXPECT_EQ(batched.sequence, 32);
  EXPECT_THAT(batched.unused_options, IsEmpty());
  const Workload named = read(symbolic_program(), {.dims = {{"s1", 2000}, {"s9", 1}}});
  EXPECT_EQ(relu_elements(named), 2 * 2000 * 16);
  EXPECT_THAT(named.unused_options, ElementsAre("--dim s9"));
  EXPECT_THAT(named.notes,
              Contains("s1 = 2000 is outside of the sizes that the export allows (2 to "
                       "1024)"));
}

TEST(Pt2, SizesAskedForLieInTheRangeOfTheExport) {
  const auto outside = [](std::int64_t length) {
    const std::string notes =
        testing::PrintToString(read(symbolic_program(), {.dims = {{"s1", length}}}).notes);
    return notes.find("is outside of the sizes that the export allows (2 to 1024)") !=
           std::string::npos;
  };
  EXPECT_TRUE(outside(1));
  EXPECT_FALSE(outside(2));
  EXPECT_FALSE(outside(1024));
  EXPECT_TRUE(outside(1025));
}

// Eight of nine sizes; a length counts positions where the first input is a table of integers.
TEST(Pt2, SomeOfManySizesAreShown) {
  ProgramMaker program;
  for (int at = 0; at < 9; ++at) {
    const std::string name = "x" + std::to_string(at);
    program.input(name, Json::array({size("s" + std::to_string(at), 4), size(8)}));
    program.call("torch.ops.aten.neg.default", {{"self", tensor(name)}}, name);
  }
  const Workload workload = read(program);
  EXPECT_THAT(workload.notes, ElementsAre(AllOf(HasSubstr("s7 = 4 (size 0 of x7); set them"),
                                                testing::Not(HasSubstr("s8")))));
  EXPECT_EQ(workload.batch, 4);
  EXPECT_EQ(workload.sequence, std::nullopt);
}

TEST(Pt2, AFixedBatchIsNotChanged) {
  const Workload fixed = read(linear_program(), {.batch = 8});
  EXPECT_THAT(fixed.unused_options, ElementsAre("--batch"));
  EXPECT_THAT(fixed.notes, ElementsAre("--batch: no such size was left open by the export (none "
                                       "was); export with dynamic_shapes"));
  EXPECT_THAT(read(linear_program(), {.batch = 4}).unused_options, IsEmpty());
}

TEST(Pt2, SizesThatDependOnDataAreAskedFor) {
  ProgramMaker program;
  Json open = size("u0", 0);
  open["as_expr"]["hint"] = nullptr;
  program.input("x", sizes({4, 8})).value("n", Json::array({open, size(2)}), 5);
  program.value("y", Json::array({open, size(2)}), 5).range("u0", 0, 32);
  program.call("torch.ops.aten.neg.default", {{"self", tensor("n")}}, "y");
  const Workload workload = read(program);
  EXPECT_THAT(workload.skipped, ElementsAre(Pair("unknown shape: aten.neg", 1)));
  EXPECT_THAT(workload.notes, Contains(HasSubstr("sizes that depend on data: u0")));
  EXPECT_EQ(read(program, {.dims = {{"u0", 16}}}).ops.size(), 1);
}

TEST(Pt2, TiedWeightsCountOnce) {
  ProgramMaker program;
  program.parameter("p_a", {10, 4}, "head.weight").parameter("p_b", {10, 4}, "head.weight");
  program.parameter("p_c", {10, 4}, "emb.weight").parameter("p_d", {4}, "ln.weight");
  program.input("x", sizes({2, 4}));
  EXPECT_EQ(read(program).parameters, 84);
  const auto config = [](const char* file) {
    const Json meta{{"sizes", sizes({10, 4})}, {"storage_offset", size(0)}};
    const Json weight{{"path_name", file}, {"tensor_meta", meta}};
    return Json{{"config", {{"head.weight", weight}, {"emb.weight", weight}}}}.dump();
  };
  const auto with = [&](const char* file) {
    return read_pt2_bytes(
        archive(program.json(), {{"model/data/weights/model_weights_config.json", config(file)},
                                 {"model/data/weights/weight_1", ""}}),
        "m.pt2", {});
  };
  EXPECT_EQ(with("weight_0")->parameters, 44);
  EXPECT_EQ(with("weight_1")->parameters, 84);  // without data all weights share one empty file
}

TEST(Pt2, WhatIsUnknownIsCounted) {
  ProgramMaker program = linear_program();
  program.value("k", sizes({4, 4}));
  program.call("torch.ops.my_kernels.fancy.default", {{"x", tensor("relu")}}, "k");
  program.call("torch.ops.aten.neg.default", {{"self", {{"as_new_kind", 1}}}}, "k");
  const Workload workload = read(program);
  EXPECT_THAT(workload.skipped, testing::UnorderedElementsAre(
                                    Pair("operator without a cost model: my_kernels.fancy", 1),
                                    Pair("operator without a cost model: aten.neg", 1)));
  EXPECT_THAT(workload.notes, Contains("arguments of kind 'as_new_kind' are not understood: 1"));
  EXPECT_EQ(std::get<Other>(workload.ops[2].body).bytes, 4 * (4 * 32 + 16));
}

TEST(Pt2, WrappedGraphsRunInPlace) {
  ProgramMaker inner, outer;
  inner.value("i", sizes({4, 8})).value("o", sizes({4, 8}));
  inner.call("torch.ops.aten.cos.default", {{"self", tensor("i")}}, "o");
  Json graph = inner.graph();
  graph["inputs"].push_back(tensor("i"));
  graph["outputs"].push_back(tensor("o"));
  outer.input("x", sizes({4, 8})).value("w", sizes({4, 8})).value("y", sizes({4, 8}));
  outer.call("torch.ops.higher_order.wrap_with_set_grad_enabled",
             {{"", {{"as_bool", false}}},
              {"", {{"as_graph", {{"name", "sub"}, {"graph", graph}}}}},
              {"", tensor("x")}},
             "w");
  outer.call("torch.ops.aten.neg.default", {{"self", tensor("w")}}, "y");
  const Workload workload = read(outer);
  ASSERT_EQ(workload.ops.size(), 2);
  EXPECT_THAT(workload.ops[0].inputs, ElementsAre("x"));
  EXPECT_EQ(workload.ops[0].outputs, workload.ops[1].inputs);
}

// Of a graph that is run with other inputs than it has, those behind the last pair are its own.
TEST(Pt2, InputsOfGraphsWithinAreThoseInTheirPlace) {
  const auto added = [](int of_graph, int given) {
    ProgramMaker outer, inner;
    inner.value("i0", sizes({4, 8})).value("i1", sizes({4, 8})).value("o", sizes({4, 8}));
    inner.call("torch.ops.aten.add.Tensor", {{"self", tensor("i0")}, {"other", tensor("i1")}}, "o");
    Json graph = inner.graph();
    for (int at = 0; at < of_graph; ++at) {
      graph["inputs"].push_back(tensor("i" + std::to_string(at)));
    }
    graph["outputs"].push_back(tensor("o"));
    std::vector<std::pair<std::string, Json>> inputs{
        {"", {{"as_graph", {{"name", "sub"}, {"graph", graph}}}}}};
    for (int at = 0; at < given; ++at) {
      outer.input("x" + std::to_string(at), sizes({4, 8}));
      inputs.emplace_back("", tensor("x" + std::to_string(at)));
    }
    outer.value("w", sizes({4, 8}));
    outer.call("torch.ops.higher_order.wrap_with_set_grad_enabled", inputs, "w");
    return read(outer).ops.at(0).inputs;
  };
  EXPECT_THAT(added(2, 2), ElementsAre("x0", "x1"));
  EXPECT_THAT(added(2, 3), ElementsAre("x0", "x1"));
  EXPECT_THAT(added(2, 1), ElementsAre("x0", testing::EndsWith("i1")));
  EXPECT_THAT(added(2, 0), ElementsAre(testing::EndsWith("i0"), testing::EndsWith("i1")));
  EXPECT_THAT(added(1, 2), ElementsAre("x0", testing::EndsWith("i1")));
}

TEST(Pt2, TrainingRunsWhatEvaluationLeavesOut) {
  ProgramMaker program;
  program.parameter("p_w", {8}).input("x", sizes({2, 8, 4, 4}));
  program.value("n", sizes({2, 8, 4, 4})).value("d", sizes({2, 8, 4, 4}));
  program.call("torch.ops.aten.batch_norm.default",
               {{"input", tensor("x")},
                {"weight", tensor("p_w")},
                {"bias", tensor("p_w")},
                {"running_mean", tensor("p_w")},
                {"running_var", tensor("p_w")},
                {"training", {{"as_bool", false}}}},
               "n");
  program.call(
      "torch.ops.aten.dropout.default",
      {{"input", tensor("n")}, {"p", {{"as_float", 0.1}}}, {"train", {{"as_bool", false}}}}, "d");
  EXPECT_THAT(lines(read(program)),
              ElementsAre("norm x fp32 fn=batch rows=32 cols=8 walk=contiguous"));
  const Workload training = read(program, {.mode = Mode::training});
  EXPECT_EQ(training.ops.size(), 2);
  EXPECT_THAT(training.notes, Contains(HasSubstr("evaluation mode")));
}

std::string error_of(const std::string& bytes) {
  const auto workload = read_pt2_bytes(bytes, "m.pt2", {});
  return workload ? "no error" : workload.error().message;
}

struct Refusal {
  std::string bytes;
  const char* reason;
};

void expect_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(error_of(refusal.bytes), HasSubstr(refusal.reason));
  }
}

TEST(Pt2, DamagedArchivesAreRefused) {
  const Entries one{{"models/model.json", linear_program().json().dump()}};
  expect_refused({
      {"", "without its table of contents"},
      {zip(one, {.shift = 1'000'000}), "not where"},
      {zip(one, {.wide = true, .shift = UINT64_MAX / 2}), "not where"},
      {zip(one, {.entries = 1000}), "states 1001 entries and lists 1"},
      {zip(one, {.method = 8}), "compressed (deflate)"},
      {zip({one[0], one[0]}), "holds 2 programs"},
      {zip({{"a.txt", "b"}}), "without an exported program"},
      {zip({{"m/data/aotinductor/model/a.so", "b"}}), "AOTInductor"},
  });
}

TEST(Pt2, CutArchivesAreRefused) {
  const std::string whole = archive(linear_program().json());
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    EXPECT_NE(error_of(whole.substr(0, size)), "no error") << size;
  }
}

std::string with_json(std::string json) { return zip({{"models/m.json", std::move(json)}}); }

TEST(Pt2, HostileProgramsAreRefused) {
  expect_refused({
      {with_json("{"), "not valid JSON"},
      {with_json("{}"), "without a schema_version"},
      {with_json(linear_program().json({{"major", 9}, {"minor", 1}}).dump()),
       "schema 9.1 of torch.export; majors 1 to 8 are known"},
      {with_json(R"({"schema_version": 8})"), "without a list of nodes"},
      {with_json(std::string(100'000, '[')), "nested deeper"},
  });
}

TEST(Pt2, OddValuesAreLeftOut) {
  const std::string deep = std::string(10'000, '(') + "s0" + std::string(10'000, ')');
  ProgramMaker nested;
  nested.input("x", Json::array({size(deep, 4), size(8)})).value("y", sizes({4, 8}));
  nested.call("torch.ops.aten.neg.default", {{"self", tensor("x")}}, "y");
  EXPECT_EQ(error_of(archive(nested.json())), "no error");
  ProgramMaker odd;
  odd.input("x", sizes({-1, 8})).value("y", sizes({8, 8}), 7, {INT64_MAX, -5});
  odd.value("z", Json::array({size(INT64_MAX), size(INT64_MAX)}), 7, {1, 1});
  odd.call("torch.ops.aten.reshape.default", {{"self", tensor("y")}}, "x");
  odd.call("torch.ops.aten.matmul.default", {{"self", tensor("z")}, {"other", tensor("x")}}, "x");
  odd.call("torch.ops.aten.conv2d.default", {}, "");
  odd.call("", {}, "y");
  EXPECT_EQ(error_of(archive(odd.json())), "no error");
}

}  // namespace
}  // namespace rooftile
