// Arithmetic intensities and the batch where a layer becomes math-bound.
#include "reference.h"
#include "rooftile/analysis/cost.h"

namespace rooftile {
namespace {

double intensity(const Op& op) { return count_cost(op).intensity().value(); }

// NVIDIA GPU Performance Background User's Guide, "Understanding Performance", table of
// arithmetic intensities on V100 in fp16; digits by the formula the table uses.
TEST(ArithmeticIntensity, TableOfTheBackgroundGuide) {
  EXPECT_NEAR(intensity(op_of(linear(512, 4096, 1024), Dtype::fp16)), 315.0769, 1e-4);
  EXPECT_NEAR(intensity(op_of(linear(1, 4096, 1024), Dtype::fp16)), 0.99878, 1e-5);
  EXPECT_DOUBLE_EQ(intensity(op_of(Elementwise{"relu", 4096, 1}, Dtype::fp16)), 0.25);
  Pooling pool;
  pool.n = 1, pool.c = 64, pool.input = {56, 56}, pool.output = {56, 56}, pool.kernel = {3, 3};
  EXPECT_DOUBLE_EQ(intensity(op_of(pool, Dtype::fp16)), 2.25);
  EXPECT_LT(intensity(op_of(Normalization{NormKind::layer, 512, 1024}, Dtype::fp16)), 10.0);
}

// The formula is symmetric in m, n and k.
TEST(ArithmeticIntensity, GradientsOfALinearLayerHaveItsIntensity) {
  for (const Phase phase : {Phase::forward, Phase::dgrad, Phase::wgrad}) {
    EXPECT_NEAR(intensity(op_of(linear(512, 4096, 1024), Dtype::fp16, phase)), 315.0769, 1e-4);
  }
}

// NVIDIA Matrix Multiplication Background User's Guide, "Math And Memory Bounds".
TEST(ArithmeticIntensity, ProductsOfTheMatrixGuide) {
  const Device v100 = built_in("v100_sxm2");
  ASSERT_TRUE(v100.ridge(Dtype::fp16));
  const double ridge = v100.ridge(Dtype::fp16)->value();
  EXPECT_NEAR(ridge, 138.9, 0.1);
  const double skinny = intensity(op_of(linear(8192, 128, 8192), Dtype::fp16));
  EXPECT_NEAR(skinny, 124.1212, 1e-4);
  EXPECT_LT(skinny, ridge);
  const double square = intensity(op_of(linear(8192, 8192, 8192), Dtype::fp16));
  EXPECT_NEAR(square, 2730.667, 1e-3);
  EXPECT_GT(square, ridge);
  EXPECT_LT(intensity(op_of(linear(1, 8192, 8192), Dtype::fp16)), 1.0);
  EXPECT_LT(intensity(op_of(linear(8192, 1, 8192), Dtype::fp16)), 1.0);
}

// NVIDIA Linear/Fully-Connected Layers User's Guide, intensity of a 4096 x 4096 layer by batch
// against the A100 80 GB; values by the same formula.
TEST(ArithmeticIntensity, FullyConnectedLayerByBatch) {
  struct Case {
    std::int64_t batch;
    double intensity;
    bool math_bound;
  };
  constexpr Case kCases[] = {{1, 1.00, false},     {8, 7.97, false},     {16, 15.88, false},
                             {32, 31.51, false},   {64, 62.06, false},   {128, 120.47, false},
                             {256, 227.56, true},  {512, 409.60, true},  {1024, 682.67, true},
                             {2048, 1024.0, true}, {4096, 1365.33, true}};
  const Device a100 = built_in("a100_sxm_80gb");
  const double ridge = a100.ridge(Dtype::fp16)->value();
  EXPECT_NEAR(ridge, 153.0, 0.1);
  for (const Case& c : kCases) {
    const double found = intensity(op_of(linear(c.batch, 4096, 4096), Dtype::fp16));
    EXPECT_NEAR(found, c.intensity, 0.005) << c.batch;
    EXPECT_EQ(found > ridge, c.math_bound) << c.batch;
  }
}

// The batch at which a layer's intensity reaches the ridge.
double crossover(std::int64_t outputs, std::int64_t inputs, Dtype dtype, double ridge) {
  for (std::int64_t batch = 1; batch < 4096; ++batch) {
    const double here = intensity(op_of(linear(batch, outputs, inputs), dtype));
    const double next = intensity(op_of(linear(batch + 1, outputs, inputs), dtype));
    if (next >= ridge) return static_cast<double>(batch) + (ridge - here) / (next - here);
  }
  return 0;
}

// b = r·I·O / (I·O - r·(I + O)), the batch where intensity equals the ridge r, from the
// intensity formula of the Matrix Multiplication Background User's Guide.
TEST(ArithmeticIntensity, CrossoverBatch) {
  struct Case {
    std::string_view gpu;
    Dtype dtype;
    double ridge, square, wide;  // 4096 x 4096 and 1024 -> 4096
  };
  constexpr Case kCases[] = {{"v100_sxm2", Dtype::fp16, 138.9, 149.0, 167.2},
                             {"a100_sxm_80gb", Dtype::fp16, 153.0, 165.4, 188.2},
                             {"h100_sxm", Dtype::fp16, 295.2, 344.9, 461.6},
                             {"h200_sxm", Dtype::fp16, 206.0, 229.1, 275.3},
                             {"b200", Dtype::fp16, 281.2, 326.0, 428.3},
                             {"a100_sxm_80gb", Dtype::tf32, 76.5, 165.4, 188.2}};
  for (const Case& c : kCases) {
    EXPECT_NEAR(built_in(c.gpu).ridge(c.dtype)->value(), c.ridge, 0.002 * c.ridge) << c.gpu;
    EXPECT_NEAR(crossover(4096, 4096, c.dtype, c.ridge), c.square, 0.2) << c.gpu;
    EXPECT_NEAR(crossover(4096, 1024, c.dtype, c.ridge), c.wide, 0.3) << c.gpu;
  }
}

// Below r·(I + O) = I·O no batch makes the layer math-bound.
TEST(ArithmeticIntensity, SmallLayersNeverBecomeMathBound) {
  EXPECT_EQ(crossover(256, 256, Dtype::fp16, 153.0), 0);
}

Convolution square_conv(std::int64_t c, std::int64_t k, std::int64_t size, std::int64_t kernel,
                        std::int64_t stride, std::int64_t pad, std::int64_t groups = 1) {
  Convolution conv;
  conv.n = 256, conv.c = c, conv.k = k, conv.groups = groups;
  conv.input = {size, size}, conv.kernel = {kernel, kernel}, conv.stride = {stride, stride};
  conv.pad_begin = conv.pad_end = {pad, pad};
  return conv;
}

// Each tensor once; NVIDIA Convolutional Layers User's Guide, flop of an implicit product.
TEST(ArithmeticIntensity, Convolutions) {
  struct Case {
    Convolution conv;
    double intensity;
  };
  const Case cases[] = {{square_conv(64, 64, 56, 3, 1, 1), 287.9},
                        {square_conv(256, 64, 56, 1, 1, 0), 51.2},
                        {square_conv(256, 256, 56, 3, 1, 1, 256), 4.5},
                        {square_conv(3, 64, 224, 7, 2, 3), 123.8}};
  for (const Case& c : cases) {
    EXPECT_NEAR(intensity(op_of(c.conv, Dtype::fp16)), c.intensity, 0.05) << c.conv.c;
  }
}

}  // namespace
}  // namespace rooftile
