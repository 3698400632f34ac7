#include "rooftile/aten/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/aten/operator_cases.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::ElementsAre;

std::vector<AtenValue> values_of(std::string_view text) {
  std::vector<AtenValue> values;
  const OpArguments recorded = aten_test::arguments_of(text);
  for (std::size_t i = 0; i < recorded.types.size(); ++i) {
    values.push_back(
        {recorded.dims[i], recorded.strides[i], recorded.types[i], recorded.values[i]});
  }
  return values;
}

AtenCall call(std::string name, std::string_view arguments, std::string module = "") {
  AtenCall made;
  made.name = std::move(name);
  made.arguments = values_of(arguments);
  made.source.module = std::move(module);
  return made;
}

AtenCall linear(const std::string& module, std::string reads, std::string writes) {
  AtenCall made =
      call("addmm", "8|1|float; 4,8|8,1|float; 8,8|1,8|float; ||Scalar|1; ||Scalar|1", module);
  made.arguments[2].is_weight = true;
  made.reads = {std::move(reads)};
  made.writes = {std::move(writes)};
  return made;
}

std::vector<std::string> names_of(const std::vector<Op>& ops) {
  std::vector<std::string> names;
  for (const Op& op : ops) names.push_back(op.name);
  return names;
}

TEST(AtenProgram, NamesLayersByTheirModule) {
  AtenProgram program;
  program.add(linear("head", "a", "b"));
  program.add(call("relu", "4,8|8,1|float", "head"));
  program.add(call("relu_", "4,8|8,1|float", "head"));
  program.add(call("relu", "4,8|8,1|float", "act"));
  program.add(call("relu", "4,8|8,1|float"));
  EXPECT_THAT(names_of(program.take_ops()),
              ElementsAre("head", "head:relu", "head:relu#2", "act", "relu"));
}

TEST(AtenProgram, LayersOfOneModuleAreNumbered) {
  AtenProgram program;
  program.add(linear("pair", "a", "b"));
  program.add(linear("pair", "b", "c"));
  EXPECT_THAT(names_of(program.take_ops()), ElementsAre("pair:gemm", "pair:gemm#2"));
}

// A gradient has the name of its layer; the sum that is the bias's has not.
TEST(AtenProgram, EachPassHasItsNames) {
  AtenProgram program;
  AtenCall forward = linear("fc", "a", "b");
  forward.sequence = 1;
  program.add(forward);
  AtenCall dw = call("mm", "8,4|1,8|float; 4,8|8,1|float", "fc");
  AtenCall sum = call("sum", "4,8|8,1|float; ||ScalarList|[0]; ||Scalar|True; |||", "fc");
  for (AtenCall* gradient : {&dw, &sum}) {
    gradient->backward = true;
    gradient->sequence = 1;
    program.add(*gradient);
  }
  EXPECT_THAT(names_of(program.take_ops()), ElementsAre("fc", "fc", "fc:sum"));
}

// Which operand is a weight decides, not how many axes it has.
TEST(AtenProgram, ProductsOfActivationsAreTold) {
  AtenProgram program;
  program.add(linear("fc", "a", "b"));
  AtenCall experts = call("bmm", "2,4,32|128,32,1|float; 2,32,8|256,8,1|float");
  experts.arguments[1].is_weight = true;
  program.add(experts);
  program.add(call("mm", "4,8|8,1|float; 8,8|8,1|float"));
  std::vector<bool> found;
  for (const Op& op : program.take_ops())
    found.push_back(std::get<Gemm>(op.body).weight_is_parameter);
  EXPECT_THAT(found, ElementsAre(true, true, false));
}

TEST(AtenProgram, FoldsLayersThatRepeat) {
  AtenProgram program;
  program.add(linear("h.0.fc", "in", "a0"));
  program.add(linear("h.1.fc", "a0", "a1"));
  program.add(linear("h.2.fc", "a1", "a2"));
  program.add(linear("out", "a2", "logits"));
  const std::vector<Op> ops = program.take_ops();
  ASSERT_THAT(names_of(ops), ElementsAre("h.*.fc", "out"));
  EXPECT_EQ(ops[0].count, 3);
  EXPECT_EQ(ops[0].source.module, "h.*.fc");
  // What the last repeat wrote goes by the name of the first one's.
  EXPECT_THAT(ops[1].inputs, ElementsAre("a0"));
}

TEST(AtenProgram, KeepsLayersThatDiffer) {
  AtenProgram program;
  program.add(linear("h.0.fc", "", "a"));
  program.add(call("relu", "4,8|8,1|float", "h.0"));
  program.add(linear("h.1.fc", "a", "b"));
  program.add(call("tanh", "4,8|8,1|float", "h.1"));
  EXPECT_EQ(program.take_ops().size(), 4U);
}

TEST(AtenProgram, FoldsInnerLayersInsideOuterOnes) {
  AtenProgram program;
  for (const char* module : {"s.0.b.0", "s.0.b.1", "s.1.b.0", "s.1.b.1"}) {
    program.add(linear(module, "", ""));
  }
  const std::vector<Op> ops = program.take_ops();
  ASSERT_THAT(names_of(ops), ElementsAre("s.*.b.*"));
  EXPECT_EQ(ops[0].count, 4);
}

TEST(AtenProgram, GradientsOfALayerHaveItsDims) {
  AtenProgram program;
  AtenCall forward =
      call("addmm", "32|1|float; 4,8|8,1|float; 8,32|1,8|float; ||Scalar|1; ||Scalar|1", "fc");
  forward.sequence = 7;
  program.add(forward);
  // dx = dout·w and dw = doutᵀ·x
  AtenCall dx = call("mm", "4,32|32,1|float; 32,8|8,1|float", "fc");
  AtenCall dw = call("mm", "32,4|1,32|float; 4,8|8,1|float", "fc");
  for (AtenCall* gradient : {&dx, &dw}) {
    gradient->sequence = 7;
    gradient->backward = true;
    program.add(*gradient);
  }
  const std::vector<Op> ops = program.take_ops();
  ASSERT_EQ(ops.size(), 3U);
  EXPECT_EQ(ops[1].phase, Phase::dgrad);
  EXPECT_EQ(ops[2].phase, Phase::wgrad);
  for (const Op& op : ops) {
    const auto& gemm = std::get<Gemm>(op.body);
    EXPECT_THAT((std::vector{gemm.m, gemm.n, gemm.k}), ElementsAre(4, 32, 8));
  }
}

// The same flop, whatever the layer was.
TEST(AtenProgram, AGradientWithoutItsLayerIsOneProduct) {
  AtenProgram program;
  AtenCall product = call("bmm", "2,4,32|128,32,1|float; 2,32,8|256,8,1|float");
  product.backward = true;
  program.add(product);
  const std::vector<Op> ops = program.take_ops();
  ASSERT_EQ(ops.size(), 1U);
  const auto& gemm = std::get<Gemm>(ops[0].body);
  EXPECT_EQ(ops[0].phase, Phase::dgrad);
  EXPECT_THAT((std::vector{gemm.m, gemm.n, gemm.k, gemm.batch}), ElementsAre(4, 32, 8, 2))
      << "m, and the layer's n and k exchanged: " << dims_text(ops[0].body);
}

// A product in a backward pass reads what the same one reads in a forward pass.
TEST(AtenProgram, ArithmeticOfTheBackwardPassMovesWhatItsOperandsSay) {
  AtenProgram program;
  AtenCall product = call("mul", "4,8|8,1|float; 4,8|8,1|float");
  product.backward = true;
  program.add(product);
  const std::vector<Op> ops = program.take_ops();
  ASSERT_EQ(ops.size(), 1U);
  EXPECT_EQ(ops[0].phase, Phase::dgrad);
  EXPECT_EQ(ops[0].streams.bytes, 3 * 32 * 4);
}

TEST(AtenProgram, FillsAndCopiesAreKnownByWhatTheyWrite) {
  AtenProgram program;
  AtenCall zeros = call("zeros", "||ScalarList|[4, 8]");
  zeros.results = values_of("4,8|8,1|float");
  program.add(zeros);
  AtenCall pad = call("constant_pad_nd", "4,8|8,1|c10::BFloat16; ||ScalarList|[0, 8]; ||Scalar|0");
  pad.results = values_of("4,16|16,1|c10::BFloat16");
  pad.backward = true;
  program.add(pad);
  const std::vector<Op> ops = program.take_ops();
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(std::get<Elementwise>(ops[0].body), (Elementwise{"fill", 32, 0}));
  EXPECT_EQ(ops[1].streams.bytes, 64 * 2 + 32 * 2);
  EXPECT_EQ(ops[1].dtypes.input, Dtype::bf16);
  EXPECT_EQ(ops[1].phase, Phase::dgrad);
}

TEST(AtenProgram, OperatorsThatItDoesNotKnowAreCountedAndMoveTheirTensors) {
  AtenProgram program;
  AtenCall unknown = call("linalg_qr", "64,64|64,1|float");
  unknown.results = values_of("64,64|64,1|float; 64,64|64,1|float");
  EXPECT_EQ(program.add(unknown), CallKind::unknown);
  program.add(unknown);
  EXPECT_THAT(program.skipped(),
              ElementsAre(testing::Pair("operator without a cost model: aten.linalg_qr", 2)));
  EXPECT_EQ(std::get<Other>(program.take_ops().at(0).body).bytes, 3 * 64 * 64 * 4);
}

TEST(AtenProgram, OperatorsOfOtherLibrariesAreUnknown) {
  AtenProgram program;
  AtenCall own = call("relu", "4,8|8,1|float");
  own.library = "my_kernels";
  own.results = values_of("4,8|8,1|float");
  EXPECT_EQ(program.add(own), CallKind::unknown);
  EXPECT_THAT(program.skipped(),
              ElementsAre(testing::Pair("operator without a cost model: my_kernels.relu", 1)));
}

TEST(AtenProgram, PartsOfOneCallFollowEachOther) {
  AtenProgram program;
  AtenCall loss = call("cross_entropy_loss", "16,100||float; 16||long int; |||; ||Scalar|1");
  loss.results = values_of("||float");
  loss.reads = {"scores", "labels"};
  loss.writes = {"loss"};
  program.add(loss);
  const std::vector<Op> ops = program.take_ops();
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_THAT(ops[0].outputs, ElementsAre("loss.0"));
  EXPECT_THAT(ops[1].inputs, ElementsAre("scores", "labels", "loss.0"));
}

// Rows of tokens in groups, one for each expert.
TEST(AtenOp, GroupedProducts) {
  const auto forward = aten_op("aten::_grouped_mm",
                               aten_test::arguments_of("64,32|32,1|c10::BFloat16; "
                                                       "4,32,16|512,16,1|c10::BFloat16; 4|1|int"));
  ASSERT_TRUE(forward);
  const auto& gemm = std::get<Gemm>(forward->body);
  EXPECT_THAT((std::vector{gemm.batch, gemm.m, gemm.n, gemm.k}), ElementsAre(4, 16, 16, 32));
  const auto gradient =
      aten_op("aten::_grouped_mm", aten_test::arguments_of("32,64|1,32|c10::BFloat16; "
                                                           "64,16|16,1|c10::BFloat16; 4|1|int"));
  ASSERT_TRUE(gradient);
  const auto& weights = std::get<Gemm>(gradient->body);
  EXPECT_THAT((std::vector{weights.batch, weights.m, weights.n, weights.k}),
              ElementsAre(4, 32, 16, 16));
}

// An empty tensor of a list, as a cache that holds nothing yet, is not part of the work.
TEST(AtenOp, ListsWithTheirTypeAndEmptyTensors) {
  const auto op =
      aten_op("aten::cat", aten_test::arguments_of("||TensorList<c10::BFloat16>|[[0], [4, 8]]; "
                                                   "||Scalar|-1"));
  ASSERT_TRUE(op);
  EXPECT_EQ(op->dtypes, Dtypes(Dtype::bf16));
  EXPECT_EQ(std::get<Elementwise>(op->body).elements, 32);
}

// Along a new last axis the elements of each tensor lie apart.
TEST(AtenOp, StackAlongTheLastAxis) {
  const auto bytes = [](const char* axis) {
    const auto op =
        aten_op("aten::stack",
                aten_test::arguments_of(std::string("||TensorList<float>|[[64, 8], [64, 8]]; "
                                                    "||Scalar|") +
                                        axis));
    return op ? op->streams.bytes : -1;
  };
  const auto scalars = aten_op(
      "aten::stack", aten_test::arguments_of("||TensorList<float>|[[], [], []]; ||Scalar|0"));
  ASSERT_TRUE(scalars);
  EXPECT_EQ(std::get<Elementwise>(scalars->body).elements, 3);
  EXPECT_EQ(bytes("0"), 0) << "each element read and written once, as the kind says";
  EXPECT_GT(bytes("-1"), 2 * 1024 * 4);
}

}  // namespace
}  // namespace rooftile
