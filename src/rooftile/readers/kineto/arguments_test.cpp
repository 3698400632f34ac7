#include "rooftile/readers/kineto/arguments.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace rooftile {
namespace {

using Triple = std::array<std::uint32_t, 3>;

TEST(KinetoArguments, LaunchShapesAreCounts) {
  KnownArgs args;
  args.grid = "[1, 2, 3, 4]";
  args.block = "[5]";
  args.registers = "4294967295";
  args.shared_memory = "0";
  LaunchShape launch = launch_shape_in(args);
  EXPECT_EQ(launch.grid, (Triple{1, 2, 3}));
  EXPECT_EQ(launch.block, (Triple{5, 0, 0}));
  EXPECT_EQ(launch.registers, 4294967295U);
  args.grid = "[-1, 4294967296, x]";
  args.registers = "4294967296";
  args.shared_memory = "1";
  launch = launch_shape_in(args);
  EXPECT_EQ(launch.grid, (Triple{0, 0, 0}));
  EXPECT_EQ(launch.registers, 0U);
  EXPECT_EQ(launch.shared_bytes, 1U);
}

// Lists of tensors have no shape; where they have no value, their sizes take its place.
TEST(KinetoArguments, OfOperators) {
  KnownArgs args;
  args.dims = "[[2, 3], [[1], [2]], [], [[4]], [7, \"x\"]]";
  args.strides = "[[3, 1], [], []]";
  args.types = "[\"float\", \"TensorList\", \"Scalar\"]";
  args.values = "[\"\", \"\", \"0.5\", \"kept\", \"\"]";
  const OpArguments arguments = op_arguments_in(args);
  EXPECT_EQ(arguments.dims, (std::vector<std::vector<std::int64_t>>{{2, 3}, {}, {}, {}, {}}));
  EXPECT_EQ(arguments.strides, (std::vector<std::vector<std::int64_t>>{{3, 1}, {}, {}}));
  EXPECT_EQ(arguments.types, (std::vector<std::string>{"float", "TensorList", "Scalar"}));
  EXPECT_EQ(arguments.values, (std::vector<std::string>{"", "[[1], [2]]", "0.5", "kept", ""}));
}

TEST(KinetoArguments, OfAnOperatorAreBounded) {
  std::string types = "[\"t\"", dims = "[[1]";
  for (int i = 1; i < 4097; ++i) {
    types += ", \"t\"";
    dims += ", [1]";
  }
  types += "]";
  dims += "]";
  KnownArgs args;
  args.types = types;
  args.dims = dims;
  const OpArguments arguments = op_arguments_in(args);
  EXPECT_EQ(arguments.types.size(), 4096U);
  EXPECT_EQ(arguments.dims.size(), 4096U);
}

TEST(KinetoArguments, OfCollectives) {
  KnownArgs args;
  args.collective = "\"allreduce\"";
  args.dtype = "\"Float\"";
  args.group = "\"0\"";
  args.in_elements = "100";
  args.out_elements = "800";
  args.group_size = "8";
  EXPECT_EQ(collective_shape_in(args), (CollectiveShape{"allreduce", "Float", "0", 100, 800, 8}));
}

// By the name, else by ROCm's kind.
TEST(KinetoArguments, CopiesByTheirDirection) {
  struct Case {
    const char* name;
    const char* kind;
    CopyKind expected;
    bool pageable;
  };
  for (const Case& c :
       {Case{"Memcpy HtoD (Pageable -> Device)", "", CopyKind::host_to_device, true},
        Case{"Memcpy DtoH (Device -> Pinned)", "", CopyKind::device_to_host, false},
        Case{"Memcpy DtoD (Device -> Device)", "", CopyKind::device_to_device, false},
        Case{"Memcpy PtoP (Device -> Device)", "", CopyKind::peer_to_peer, false},
        Case{"Memcpy HtoH", "", CopyKind::host_to_host, false},
        Case{"CopyHostToDevice", "", CopyKind::host_to_device, false},
        Case{"hipMemcpy", "\"DeviceToHost\"", CopyKind::device_to_host, false},
        Case{"hipMemcpy", "\"PeerToPeer\"", CopyKind::peer_to_peer, false}}) {
    KnownArgs args;
    args.kind = c.kind;
    args.bytes = "4096";
    const CopyShape shape = copy_shape_in(c.name, args);
    EXPECT_EQ(shape.kind, c.expected) << c.name << c.kind;
    EXPECT_EQ(shape.pageable, c.pageable) << c.name;
    EXPECT_EQ(shape.bytes, 4096U);
  }
  KnownArgs negative;
  negative.bytes = "-5";
  EXPECT_EQ(copy_shape_in("Memcpy HtoD", negative).bytes, 0U);
  EXPECT_EQ(copy_shape_in("Memcpy HtoD", KnownArgs{}).bytes, 0U);
}

TEST(KinetoArguments, AreFoundByTheirNames) {
  KinetoEvent event;
  event.args = {{"", "0"},
                {"External id", "1"},
                {"correlation", "2"},
                {"Input dims", "3"},
                {"Input type", "4"},
                {"Total Allocated", "5"},
                {"Total Reserved", "6"},
                {"In msg size", "7"},
                {"of another tool", "8"}};
  const KnownArgs args = known_args(event);
  EXPECT_EQ(args.external_id, "1");
  EXPECT_EQ(args.correlation, "2");
  EXPECT_EQ(args.dims, "3");
  EXPECT_EQ(args.types, "4");
  EXPECT_EQ(args.allocated, "5");
  EXPECT_EQ(args.reserved, "6");
  EXPECT_EQ(args.in_elements, "7");
  EXPECT_EQ(args.device, "");
}

// Equal arguments are one row; from half of the rows on values, which may change at each call, are
// left out.
TEST(KinetoArguments, RowsOfEqualArgumentsAreOne) {
  Timeline timeline;
  ArgumentTables tables(timeline);
  SkippedRecords skipped;
  KnownArgs first, second;
  first.dims = "[[1]]";
  first.values = "[\"1\"]";
  second.dims = "[[1]]";
  second.values = "[\"2\"]";
  EXPECT_EQ(tables.arguments_of(KnownArgs{}, skipped), 0U);
  const std::uint32_t row = tables.arguments_of(first, skipped);
  EXPECT_NE(row, 0U);
  EXPECT_EQ(tables.arguments_of(first, skipped), row);
  EXPECT_NE(tables.arguments_of(second, skipped), row);
  timeline.arguments.resize(32767);
  KnownArgs third = second, fourth = second;
  third.values = "[\"3\"]";
  fourth.values = "[\"4\"]";
  EXPECT_EQ(tables.arguments_of(third, skipped), 32767U);
  EXPECT_EQ(timeline.arguments.back().values, (std::vector<std::string>{"3"}));
  EXPECT_EQ(tables.arguments_of(fourth, skipped), 32768U);
  EXPECT_TRUE(timeline.arguments.back().values.empty());
  timeline.arguments.resize(65536);
  KnownArgs last;
  last.dims = "[[9]]";
  EXPECT_EQ(tables.arguments_of(last, skipped), 0U);
  EXPECT_EQ(skipped, (SkippedRecords{{"arguments of operators beyond 65536 different ones", 1}}));
}

}  // namespace
}  // namespace rooftile
